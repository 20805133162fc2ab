"""Checks that the manifests of a table, and on demand its data files, exist and have the right size.

DuckDB must not read a damaged manifest: its Avro reader ends the process, or then fails on every other manifest. In an
object store a manifest is complete or missing, and DuckDB's own error says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil.iceberg.damage import local_path
from frazil.iceberg.metadata import NotOnThisMachineError, entries, same_store, unreadable
from frazil.serve.tables.tables import read_snapshot
from frazil.spec.model.stores import is_store, split
from frazil.storage.object_store import StoreAddress
from frazil.storage.store_client import keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DELETED: Final = 2


def verify_manifests(location: str, snapshot: int | None = None) -> None:
    """Verify that a table's metadata, manifest list and manifests are complete, before DuckDB scans it.

    Data files are not checked: DuckDB reports a missing one itself.

    Args:
        location: address of the table's metadata file.
        snapshot: one of its snapshots; None for the newest.

    Raises:
        DamagedTableError: a file is missing or has another size than when it was written; the first one is named.
        NotOnThisMachineError: no client for the table's address is installed.

    Cost: reads two small files and the size of each manifest; in an object store only the metadata file.
    """
    if isinstance(location, StoreAddress):
        read_snapshot(location, snapshot)
        return
    for manifest in _listed(location, snapshot):
        _look_at(manifest["manifest_path"], manifest["manifest_length"])


def verify_data_files(location: str) -> None:
    """Verify that every file of a table's newest snapshot exists with its size; read manifests to their end.

    Args:
        location: address of the table's metadata file.

    Raises:
        DamagedTableError: as :func:`verify_manifests`, for data files too; or a manifest cannot be read.
        NotOnThisMachineError: no client for the table's address is installed.

    Cost: reads all manifests, and the size of each data file without opening it. In an object store it lists the
    table's folder.
    """
    sizes = _sizes(location) if isinstance(location, StoreAddress) else None
    for manifest in _listed(location):
        path = manifest["manifest_path"]
        for entry in entries(same_store(location, path), "data_file"):
            if entry["status"] != _DELETED:
                file = entry["data_file"]
                _look_at(file["file_path"], file["file_size_in_bytes"], sizes)


def _sizes(location: StoreAddress) -> dict[str, int]:
    """Return the sizes of the objects below a table's folder, by key."""
    prefix = location.key.rpartition("/metadata/")[0]
    return {one["path"]: one["size"] for some in keys(location.access, prefix) for one in some}


def _listed(location: str, snapshot: int | None = None) -> Iterator[dict[str, Any]]:
    if (listed := read_snapshot(location, snapshot).manifest_list) is not None:
        yield from entries(same_store(location, listed), "manifest_path")


def _look_at(location: str, size_bytes: int, sizes: Mapping[str, int] | None = None) -> None:
    """Verify that a file has its size; ``sizes`` are the sizes in an object store."""
    path = local_path(location)
    if sizes is not None and is_store(location):
        found = sizes.get(split(location)[1])
    elif path is None:
        raise NotOnThisMachineError(location)
    else:
        try:
            found = path.stat().st_size
        except OSError as error:
            raise unreadable(location, error.strerror) from error
    if found is None:
        raise unreadable(location, "no such object")
    if found != size_bytes:
        raise unreadable(location, f"{found} bytes, {size_bytes} were written")
