"""Read a table's metadata file as a file."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def read_metadata(path: Path) -> dict[str, Any]:
    """Return what a table's metadata file says, as Iceberg's table format has it.

    Raises:
        OSError: there is no such file.
        ValueError: it is cut off, or no metadata.
    """
    content = path.read_bytes()
    try:
        found = json.loads(gzip.decompress(content) if ".gz.metadata" in path.name else content)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path}: no object")  # noqa: TRY004 - a damaged file, not a wrong argument
    return found
