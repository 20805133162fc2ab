"""Access to files by path or address: the address selects the storage; files on the local disk.

``os.scandir`` lists them, not a library: docs/decisions/0031 has the measurements.
"""

from __future__ import annotations

import glob
import gzip
import hashlib
import itertools
import os
import stat
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final, cast

from frazil.spec.location import expand
from frazil.spec.model.stores import NO_STORES, is_store, store_access
from frazil.storage.base import Entry, Found, MissingFolderError, Passed, Refused, Storage, UnknownStoreError, is_hidden
from frazil.storage.object_store import ObjectStore, StoreAddress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frazil.spec.model.stores import Store

_MAGIC: Final = "*?["
_LEADS_OUT: Final = "a link that leads out of the declared folder"


class LocalDisk:
    """The :class:`frazil.storage.base.Storage` of local paths.

    A symbolic link is read if it leads to a file in the declared folder and refused if it leads out of it. Linked
    folders are not followed. Pipes, devices and names that are not UTF-8 are refused.
    """

    def find(self, declared: str, folder: Path, endings: tuple[str, ...]) -> Iterator[Entry]:
        """List files, as :meth:`frazil.storage.base.Storage.find`.

        Args:
            declared: folder, file or glob pattern.
            folder: start of relative paths.
            endings: wanted endings of file names, in lower case.

        Cost: one ``stat`` for each file with a wanted ending.
        """
        full = os.path.abspath(folder / declared)  # noqa: PTH100 - resolve() would follow links and change stored paths
        if os.path.lexists(full):
            yield from _find_below(declared, full, os.path.realpath(full), endings)
            return
        if not any(sign in declared for sign in _MAGIC):
            raise MissingFolderError(declared, full, "no such folder or file")
        pattern = str(Path(glob.escape(str(folder))) / declared)
        literal = os.path.abspath(_literal_part(folder, declared))  # noqa: PTH100
        root = os.path.realpath(literal)
        for match in glob.iglob(pattern, recursive=True):  # noqa: PTH207 - Path.glob shows hidden files
            entry = os.path.abspath(match)  # noqa: PTH100
            place = entry if os.path.isdir(entry) else os.path.dirname(entry)  # noqa: PTH112, PTH120
            if os.path.realpath(place) == root + place.removeprefix(literal):
                yield from _find_below(declared, entry, root, endings)
            elif not _is_inside(entry, root):
                yield Refused(entry, _LEADS_OUT)

    def stat(self, uri: str) -> Found:
        """Return size, time and version of one file, as :meth:`frazil.storage.base.Storage.stat`."""
        return _found(uri, os.stat(uri))  # noqa: PTH116

    def names_version(self, uri: str) -> bool:
        """Return False: a path names no version."""
        del uri
        return False

    def open(self, uri: str) -> BinaryIO:
        """Open one file, as :meth:`frazil.storage.base.Storage.open`."""
        return Path(uri).open("rb")


def _literal_part(folder: Path, declared: str) -> Path:
    parts = Path(declared).parts
    plain = itertools.takewhile(lambda part: not any(sign in part for sign in _MAGIC), parts)
    return folder.joinpath(*plain)


def _find_below(declared: str, start: str, root: str, endings: tuple[str, ...]) -> Iterator[Entry]:
    name = os.path.basename(start)  # noqa: PTH119 - strings here: a Path for each of many files is slow
    if not os.path.isdir(start):  # noqa: PTH112
        if is_hidden(name):
            return
        is_ours = name.lower().endswith(endings)
        yield _entry(start, root, is_link=os.path.islink(start)) if is_ours else _passed(start)  # noqa: PTH114
        return
    folders = [start]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if is_hidden(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.name.lower().endswith(endings) or (entry.is_symlink() and entry.is_dir()):
                        yield from _below(entry, root)
                    elif entry.is_file(follow_symlinks=False):
                        yield _passed(entry.path)
        except OSError as error:
            raise MissingFolderError(declared, start, f"cannot list it: {error}") from error


def _below(entry: os.DirEntry[str], root: str) -> Iterator[Found | Refused]:
    if not entry.is_dir():
        yield _entry(entry.path, root, is_link=entry.is_symlink())
    elif not _is_inside(entry.path, root):
        yield Refused(entry.path, _LEADS_OUT)


def _entry(uri: str, root: str, *, is_link: bool) -> Found | Refused:
    if is_link and not _is_inside(uri, root):
        return Refused(uri, _LEADS_OUT)
    try:
        uri.encode()
    except UnicodeEncodeError:
        return Refused(os.fsencode(uri).decode(errors="backslashreplace"), "its name is not UTF-8")
    try:
        seen = os.stat(uri)  # noqa: PTH116
    except FileNotFoundError:
        return Refused(uri, "a link that leads nowhere" if is_link else "it went away while it was listed")
    if not stat.S_ISREG(seen.st_mode):
        return Refused(uri, "not a regular file")
    return _found(uri, seen)


def _found(uri: str, seen: os.stat_result) -> Found:
    # A copy can keep the time of modification; inode and time of change are its own. Only a file that is written in
    # place twice within one tick of the system's clock, some milliseconds, keeps its etag.
    etag = f"{seen.st_ino:x}-{seen.st_mtime_ns:x}-{seen.st_ctime_ns:x}"
    return Found(uri, os.path.basename(uri), seen.st_size, seen.st_mtime_ns, etag)  # noqa: PTH119


def _passed(uri: str) -> Passed:
    return Passed(os.fsencode(uri).decode(errors="backslashreplace"))  # its name need not be UTF-8


def _is_inside(path: str, root: str) -> bool:
    real = os.path.realpath(path)
    return real == root or real.startswith(root.rstrip(os.sep) + os.sep)


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
