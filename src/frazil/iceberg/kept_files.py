"""Small files of tables in object stores, kept in memory: Iceberg never changes a file, and a request takes long.

A process that takes batch after batch would read the same manifests and the same small files of rows with each.
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
"""What is larger is not kept."""
_WRITTEN_BYTES: Final = 1024 * 1024
"""What is written and larger is not kept: most of it nobody reads again."""
_KEPT_BYTES: Final = 64 * 1024 * 1024
_kept: Final[OrderedDict[tuple[StoreAccess | None, str], bytes]] = OrderedDict()
_lock: Final = Lock()


def read_kept(location: str) -> bytes:
    """Return a file that belongs to a table, whole, by its address.

    Only for what a snapshot names: nobody looks whether the file is still there.

    Raises:
        As :func:`frazil.iceberg.metadata.read_file`.

    Cost: of a small file in a store one request the first time, and its size in memory, 64 MB in all.
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
    """Keep a file that this process writes to a store, of a name that no other has; ``file``: the same on the disk."""
    if local_path(address) is None and file.stat().st_size <= _WRITTEN_BYTES:
        _keep((None, address), file.read_bytes())


def _keep(name: tuple[StoreAccess | None, str], content: bytes) -> None:
    with _lock:
        _kept[name] = content
        while sum(map(len, _kept.values())) > _KEPT_BYTES:
            _kept.popitem(last=False)
