"""Read the files that say what a table is: metadata, and lists of manifests, wherever they are."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

from frazil.errors import StorageError
from frazil.iceberg.damage import local_path
from frazil.spec.model.stores import is_store
from frazil.storage.files import storage_of


class NotOnThisMachineError(StorageError):
    """Metadata that only Spark can read."""

    code = "FZ305"
    retryable = False

    def __init__(self, location: str) -> None:
        super().__init__(
            f"{location} is neither on this machine nor in a store that plan, status, check, query and key can read",
            hint="nothing was written; ask Spark or Trino: see 'Reading' in docs/operating.md. frazil run, rebuild and "
            "maintain work on it",
        )


def read_metadata(location: str) -> dict[str, Any]:
    """Return what a table's metadata file says, as Iceberg's table format has it.

    Args:
        location: its address, or path.

    Raises:
        OSError: there is no such file.
        ValueError: it is cut off, or no metadata.
        NotOnThisMachineError: there is no client for its address.
        ObjectStoreError: an object store refuses the request, or does not answer.
    """
    content = read_file(location)
    try:
        found = json.loads(gzip.decompress(content) if ".gz.metadata" in location else content)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{location}: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{location}: no object")  # noqa: TRY004 - a damaged file, not a wrong argument
    return found


def read_file(location: str) -> bytes:
    """Return a file of a table's metadata, by its address or path.

    Raises:
        OSError: there is no such file.
        NotOnThisMachineError: there is no client for its address.
        ObjectStoreError: an object store refuses the request, or does not answer.
    """
    path = local_path(location)
    if path is None and not is_store(location):
        raise NotOnThisMachineError(location)
    with storage_of(location).open(location) if path is None else path.open("rb") as file:
        return file.read()
