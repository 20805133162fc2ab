"""Access to files by path or address: the address selects the storage."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

from frazil.spec.location import expand
from frazil.spec.model.stores import NO_STORES, is_store, store_access
from frazil.storage.base import Entry, Storage, UnknownStoreError
from frazil.storage.local import LocalDisk
from frazil.storage.object_store import ObjectStore, StoreAddress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frazil.spec.model.stores import Store

_HASH_BYTES: Final = 1024 * 1024
_LOCAL: Final = LocalDisk()


def storage_of(uri: str) -> Storage:
    """Return the storage for a path or address; paths without a scheme are local.

    Args:
        uri: path or address. A :class:`StoreAddress` holds its login; for other addresses the environment provides it.

    Raises:
        UnknownStoreError: no storage reads this scheme.
    """
    if isinstance(uri, StoreAddress):
        return ObjectStore(uri.access)
    scheme, sign, _ = uri.partition("://")
    if not sign:
        return _LOCAL
    if not is_store(uri):
        raise UnknownStoreError(scheme)
    return ObjectStore(store_access(uri, {}, Path()))


def find(
    declared: str, folder: Path, endings: tuple[str, ...], stores: Mapping[str, Store] = NO_STORES
) -> Iterator[Entry]:
    """List the files below a declared place: see :meth:`frazil.storage.base.Storage.find`.

    Args:
        declared: folder, file or glob pattern, as declared.
        folder: start of relative paths.
        endings: wanted endings of file names, in lower case.
        stores: prefix of addresses -> settings of the object store.

    Raises:
        DeclarationError: a reference or a home folder cannot be resolved.
        MissingFolderError: the place cannot be listed, or it has no pattern and does not exist.
        UnknownStoreError: no storage reads this kind of store.
    """
    place = expand(declared, setting="path", folder=folder)
    return storage_of(address_of(place, folder, stores)).find(place, folder, endings)


def address_of(path: str, folder: Path, stores: Mapping[str, Store] = NO_STORES) -> str:
    """Return the path or address to open a file by; an address in an object store gets its login.

    Args:
        path: path as :func:`frazil.sources.base.stored_path` returns it, or the address of a place.
        folder: folder of the declaration; start of relative paths.
        stores: prefix of addresses -> settings of the object store.

    Raises:
        DeclarationError: a reference in ``stores`` cannot be resolved.
    """
    if is_store(path):
        return StoreAddress(path, store_access(path, stores, folder))
    return path if "://" in path else f"{folder / path}"


class _Unpacked(gzip.GzipFile):
    """A compressed file that also closes the file it reads from."""

    def close(self) -> None:
        stored: Any = self.fileobj
        super().close()
        if stored is not None:
            stored.close()


def unpacked(uri: str) -> IO[bytes]:
    """Open a gzip file and return its decompressed content."""
    return cast("IO[bytes]", _Unpacked(fileobj=storage_of(uri).open(uri)))


class HashedFile:
    """An open file that hashes the bytes as they are read."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self._hash = raw, hashlib.sha256()
        self.size_bytes = 0

    def read(self, size: int = _HASH_BYTES) -> bytes:
        """Read up to ``size`` bytes; return empty bytes at the end."""
        data = self._raw.read(_HASH_BYTES if size < 0 else size)
        self._hash.update(data)
        self.size_bytes += len(data)
        return data

    def sha256(self) -> str:
        """Return the hash of the whole file, in hex; reads the remaining bytes."""
        while self.read():
            pass
        return self._hash.hexdigest()


def sha256_of(uri: str) -> str:
    """Return the hash of a file, in hex."""
    with storage_of(uri).open(uri) as raw:
        return HashedFile(raw).sha256()
