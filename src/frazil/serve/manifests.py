"""Whether the files of a table are there: its manifests read to their end, its data files by name and size.

DuckDB's reader of Avro must not meet a damaged manifest: it ends the process, or takes every later one for damaged.
"""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any, Final

import fastavro

from frazil.lake.damage import DamagedTableError, local_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DELETED: Final = 2


def verify_files(location: str) -> None:
    """Look for every file of a table's newest snapshot.

    Args:
        location: address of the table's metadata file, which can be read.

    Raises:
        DamagedTableError: a file is missing, of another size than its manifest says, or a manifest cannot be read; the
            first one is named.

    Cost: reads all manifests, and asks the file system for each data file; opens none of these.
    """
    metadata = _metadata(location)
    newest = metadata.get("refs", {}).get("main", {}).get("snapshot-id", metadata.get("current-snapshot-id"))
    for snapshot in metadata.get("snapshots", ()):
        if snapshot["snapshot-id"] == newest and "manifest-list" in snapshot:
            for manifest in _entries(snapshot["manifest-list"], "manifest_path"):
                for entry in _entries(manifest["manifest_path"], "data_file"):
                    if entry["status"] != _DELETED:
                        _look_at(entry["data_file"]["file_path"], entry["data_file"]["file_size_in_bytes"])


def _metadata(location: str) -> dict[str, Any]:
    path = local_path(location)
    if path is None:
        return {}
    content = path.read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(content) if ".gz.metadata" in path.name else content)
    return found


def _entries(location: str, has: str) -> Iterator[dict[str, Any]]:
    path = local_path(location)
    if path is None:
        return
    try:
        with path.open("rb") as file:
            entries: list[Any] = list(fastavro.reader(file))
    except OSError as error:
        raise _unreadable(path, error.strerror) from error
    except Exception as error:
        # Bytes that are no Avro, or other ones than were written, can raise whatever their misreading leads to.
        raise _unreadable(path, f"{error}" or type(error).__name__) from error
    for entry in entries:
        if not isinstance(entry, dict) or has not in entry:
            raise _unreadable(path, f"an entry without {has}")
        yield entry


def _look_at(location: str, size_bytes: int) -> None:
    path = local_path(location)
    if path is None:
        return
    try:
        found = path.stat().st_size
    except OSError as error:
        raise _unreadable(path, error.strerror) from error
    if found != size_bytes:
        raise _unreadable(path, f"{found} bytes, {size_bytes} were written")


def _unreadable(path: Path, why: str | None) -> DamagedTableError:
    return DamagedTableError(f"{path}", f"cannot be read: {why}")
