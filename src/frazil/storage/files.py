"""Files wherever they are: the address says which storage reads them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from frazil.spec.location import expand
from frazil.spec.stores import is_store, store_access
from frazil.storage.base import Entry, Storage, UnknownStoreError
from frazil.storage.local import LocalDisk
from frazil.storage.object_store import ObjectStore, StoreAddress

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def find(declared: str, folder: Path, endings: tuple[str, ...]) -> Iterator[Entry]:
    """List the files below a declared place, in no order: see :meth:`frazil.storage.base.Storage.find`.

    Args:
        declared: a folder, a file or a glob pattern, as the declaration has it.
        folder: where a relative path starts.
        endings: how names of interest end, in lower case; others are passed over.

    Raises:
        DeclarationError: a reference or a home folder leads nowhere.
        MissingFolderError: a place that is no pattern does not exist, or cannot be listed.
        UnknownStoreError: it is in a store that cannot be read.
    """
    place = expand(declared, setting="path", folder=folder)
    if is_store(place):
        raise UnknownStoreError(place.partition("://")[0])  # the formats read from this machine's disk only
    return storage_of(place).find(place, folder, endings)


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
