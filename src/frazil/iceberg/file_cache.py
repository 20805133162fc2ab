"""Memory cache for small table files in object stores, which Iceberg never changes.

Without it, a process that applies many batches would request the same manifests and small data files for each.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final

from frazil.iceberg.damage import local_path
from frazil.iceberg.metadata import read_file
from frazil.storage.object_store import StoreAddress

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.spec.model.stores import StoreAccess

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
