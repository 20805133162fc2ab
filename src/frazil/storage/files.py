"""Files wherever they are: the address says which storage reads them."""

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
    """Return the storage that reads an address; paths without a scheme are local.

    Args:
        uri: a path; or an address, which brings its login along where it is a :class:`StoreAddress`. Any other is
            reached as the environment says.

    Raises:
        UnknownStoreError: there is none for its scheme.
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
    """List the files below a declared place, in no order: see :meth:`frazil.storage.base.Storage.find`.

    Args:
        declared: a folder, a file or a glob pattern, as the declaration has it.
        folder: where a relative path starts.
        endings: how names of interest end, in lower case; others are passed over.
        stores: how object stores are reached, by the beginnings of addresses.

    Raises:
        DeclarationError: a reference or a home folder leads nowhere.
        MissingFolderError: a place that is no pattern does not exist, or cannot be listed.
        UnknownStoreError: it is in a store that cannot be read.
    """
    place = expand(declared, setting="path", folder=folder)
    return storage_of(address_of(place, folder, stores)).find(place, folder, endings)


def address_of(path: str, folder: Path, stores: Mapping[str, Store] = NO_STORES) -> str:
    """Return how to open a file by its path: one relative to ``folder``, or an address, which learns its login.

    Args:
        path: as :func:`frazil.sources.base.stored_path` returns it, or of a place.
        folder: the declaration's.
        stores: how object stores are reached, by the beginnings of addresses.

    Raises:
        DeclarationError: a reference in ``stores`` leads nowhere.
    """
    if is_store(path):
        return StoreAddress(path, store_access(path, stores, folder))
    return path if "://" in path else f"{folder / path}"


class _Unpacked(gzip.GzipFile):
    """A compressed file that closes what it reads from."""

    def close(self) -> None:
        stored: Any = self.fileobj
        super().close()
        if stored is not None:
            stored.close()


def unpacked(uri: str) -> IO[bytes]:
    """Open a gzip file for reading what was compressed."""
    return cast("IO[bytes]", _Unpacked(fileobj=storage_of(uri).open(uri)))


class HashedFile:
    """A file opened for reading that hashes its bytes on their way."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self._hash = raw, hashlib.sha256()
        self.size_bytes = 0

    def read(self, size: int = _HASH_BYTES) -> bytes:
        """Read up to ``size`` bytes; none at the end."""
        data = self._raw.read(_HASH_BYTES if size < 0 else size)
        self._hash.update(data)
        self.size_bytes += len(data)
        return data

    def sha256(self) -> str:
        """Hash of the whole file, in hex: reads what was not read yet."""
        while self.read():
            pass
        return self._hash.hexdigest()


def sha256_of(uri: str) -> str:
    """Hash a file, in hex."""
    with storage_of(uri).open(uri) as raw:
        return HashedFile(raw).sha256()
