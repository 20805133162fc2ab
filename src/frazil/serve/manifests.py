"""Whether the files of a table are there: its manifests, and on demand its data files, by name and size.

DuckDB's reader of Avro must not meet a damaged manifest: it ends the process, or takes every later one for damaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import fastavro

from frazil.lake.damage import DamagedTableError, local_path
from frazil.serve.tables import NotOnThisMachineError, read_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DELETED: Final = 2


def verify_manifests(location: str, snapshot: int | None = None) -> None:
    """See that a table's metadata, its list of manifests and the manifests are there and whole, before it is scanned.

    Data files are not looked at; DuckDB's own error tells of them.

    Args:
        location: address of the table's metadata file.
        snapshot: one of its snapshots; the newest by default.

    Raises:
        DamagedTableError: a file is missing or of another size than it was written with; the first one is named.
        NotOnThisMachineError: the table is in an object store.

    Cost: two small files, and a look at the size of each manifest.
    """
    for manifest in _listed(location, snapshot):
        _look_at(manifest["manifest_path"], manifest["manifest_length"])


def verify_files(location: str) -> None:
    """Look for every file of a table's newest snapshot, manifests read to their end.

    Args:
        location: address of the table's metadata file.

    Raises:
        DamagedTableError: as :func:`verify_manifests`, for data files too; or a manifest cannot be read.
        NotOnThisMachineError: the table is in an object store.

    Cost: reads all manifests, and asks the file system for each data file; opens none of these.
    """
    for manifest in _listed(location):
        for entry in _entries(manifest["manifest_path"], "data_file"):
            if entry["status"] != _DELETED:
                _look_at(entry["data_file"]["file_path"], entry["data_file"]["file_size_in_bytes"])


def _listed(location: str, snapshot: int | None = None) -> Iterator[dict[str, Any]]:
    if (listed := read_snapshot(location, snapshot).manifest_list) is not None:
        yield from _entries(listed, "manifest_path")


def _entries(location: str, has: str) -> Iterator[dict[str, Any]]:
    path = _file(location)
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
    path = _file(location)
    try:
        found = path.stat().st_size
    except OSError as error:
        raise _unreadable(path, error.strerror) from error
    if found != size_bytes:
        raise _unreadable(path, f"{found} bytes, {size_bytes} were written")


def _file(location: str) -> Path:
    path = local_path(location)
    if path is None:
        raise NotOnThisMachineError(location)
    return path


def _unreadable(path: Path, why: str | None) -> DamagedTableError:
    return DamagedTableError(f"{path}", f"cannot be read: {why}")
