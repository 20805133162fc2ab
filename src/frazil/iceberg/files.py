"""Files of a table: flushed to disk before the catalog commit, checked by name and size, small ones kept in memory.

Hadoop and Iceberg do not wait for a local disk: for half a minute new files are only in memory, while a catalog commit
is on the disk at once. After a power cut the catalog would name empty files.

Without the memory, a process that applies many batches would request the same manifests and small data files for each.
"""

from __future__ import annotations

import ctypes
import os
from collections import OrderedDict
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import StorageError
from frazil.iceberg.metadata import DamagedTableError, live_files, local_path, manifests, read_file
from frazil.iceberg.snapshot import RUN_BRANCH, ancestors, known_snapshots, metadata_snapshot
from frazil.storage.object_store import StoreAddress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from frazil.spec.model.stores import StoreAccess


class DiskError(StorageError):
    """The disk could not take what was written."""

    code = "FZ310"


def make_durable(folder: Path) -> None:
    """Wait until the disk has everything that was written to the file system of a folder.

    Outside Linux this flushes all file systems.

    Raises:
        DiskError: the disk failed.

    Cost: a few milliseconds, plus the time to flush the writes of other programs.
    """
    sync = _syncfs()
    if sync is None:
        os.sync()
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        if sync(opened):
            raise DiskError(
                f"{folder}: the disk could not take what was written: {os.strerror(ctypes.get_errno())}",
                hint="look at the disk, then at the tables: frazil doctor",
            )
    finally:
        os.close(opened)


def make_table_durable(table: Any) -> None:
    """Flush a table to disk before files that an older version needs are removed.

    Args:
        table: as :func:`frazil.spark.gateway.java_table` returns it. Nothing is done for a table that is not on this
            machine's disk.

    Raises:
        DiskError: the disk failed.
    """
    folder = local_path(table.location())
    if folder is not None:
        make_durable(folder)


@cache
def _syncfs() -> Any | None:
    """Return Linux's syncfs; other systems have none."""
    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


def damage_of(metadata: Mapping[str, Any]) -> DamagedTableError | None:
    """Return the first missing or truncated file of a table's newest snapshot; None if the snapshot is complete.

    Older snapshots, and files that are not on this machine's disk, are not checked.

    Args:
        metadata: the table's metadata, as Iceberg's table format has it.

    Cost: reads all manifests of the newest snapshot, and the size of each data and delete file.
    """
    at = metadata_snapshot(metadata)
    if at.manifest_list is None:
        return None
    try:
        for manifest in _manifests(at.manifest_list):
            for entry in live_files(manifest["manifest_path"]):
                _require(entry["data_file"]["file_path"], entry["data_file"]["file_size_in_bytes"])
        for statistics in metadata.get("statistics", ()):
            if statistics["snapshot-id"] == at.snapshot_id:
                _require(statistics["statistics-path"], statistics["file-size-in-bytes"])
    except DamagedTableError as damage:
        return damage
    return None


def torn_snapshots(metadata: Mapping[str, Any]) -> list[int]:
    """Return the unpublished snapshots with a missing or truncated manifest.

    A run writes to a branch and flushes to disk only before it publishes. After a power cut its unpublished snapshots
    may lack manifests, which expiring snapshots and removing orphan files would read.

    Args:
        metadata: the table's metadata, as Iceberg's table format has it.

    Cost: reads the manifest list of each unpublished snapshot, and the sizes of its manifests.
    """
    snapshots, published = known_snapshots(metadata), set[int]()
    for name, ref in metadata.get("refs", {}).items():
        for at in () if name.startswith(RUN_BRANCH) else ancestors(ref["snapshot-id"], snapshots.get):
            if at["snapshot-id"] in published:
                break
            published.add(at["snapshot-id"])
    return [number for number, one in snapshots.items() if number not in published and _is_torn(one)]


def _is_torn(snapshot: Mapping[str, Any]) -> bool:
    location = snapshot.get("manifest-list")
    if location is None or local_path(location) is None:
        return False
    try:
        list(_manifests(location))
    except DamagedTableError:
        return True
    return False


def _manifests(location: str) -> Iterator[dict[str, Any]]:
    """Yield the entries of a manifest list, after checking the size of each manifest."""
    for manifest in manifests(location):
        _require(manifest["manifest_path"], manifest["manifest_length"])
        yield manifest


def _require(location: str, size: int) -> None:
    path = local_path(location)
    if path is None:
        return
    try:
        there = path.stat().st_size
    except OSError as error:
        raise DamagedTableError(f"{path}", "is missing") from error
    if there != size:
        raise DamagedTableError(f"{path}", f"has {there:,} bytes of {size:,}")


SMALL_BYTES: Final = 8 * 1024 * 1024
"""Larger files are not cached."""
_WRITTEN_BYTES: Final = 1024 * 1024
"""Larger files that this process writes are not cached: most are never read again."""
_KEPT_BYTES: Final = 64 * 1024 * 1024
_kept: Final[OrderedDict[tuple[StoreAccess | None, str], bytes]] = OrderedDict()
_lock: Final = Lock()


def read_kept(location: str) -> bytes:
    """Return the content of a table's file, by its address.

    Use it only for files of a readable snapshot: a cached file is returned even after it was removed.

    Raises:
        As :func:`frazil.iceberg.metadata.read_file`.

    Cost: one request for the first read of a small file in a store; at most 64 MB of memory for all of them.
    """
    if not isinstance(location, StoreAddress):
        return read_file(location)
    names = (location.access, f"{location}"), (None, f"{location}")  # another login may see another store
    with _lock:
        for name in names:
            if name in _kept:
                _kept.move_to_end(name)
                return _kept[name]
    content = read_file(location)
    if len(content) <= SMALL_BYTES:
        _keep(names[0], content)
    return content


def keep_written(address: str, file: Path) -> None:
    """Cache a file that this process writes to a store under a unique name; ``file`` is its copy on the local disk."""
    if local_path(address) is None and file.stat().st_size <= _WRITTEN_BYTES:
        _keep((None, address), file.read_bytes())


def _keep(name: tuple[StoreAccess | None, str], content: bytes) -> None:
    with _lock:
        _kept[name] = content
        while sum(map(len, _kept.values())) > _KEPT_BYTES:
            _kept.popitem(last=False)
