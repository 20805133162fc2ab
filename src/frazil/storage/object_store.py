"""Files in object stores: S3 and compatible stores, Google Cloud Storage and Azure Data Lake Storage.

The library obstore reads them: docs/decisions/0031 has the measurements.
"""

from __future__ import annotations

import fnmatch
import hashlib
import io
import itertools
import re
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self, cast

from frazil.spec.model.stores import StoreAccess, split
from frazil.storage import store_client
from frazil.storage.base import Entry, Found, Passed, is_hidden

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_MAGIC: Final = "*?["
_PART_BYTES: Final = 8 * 1024 * 1024
"""Size of one request; smaller objects are read in one piece, and some of them are cached."""
_KEPT_BYTES: Final = 64 * 1024 * 1024
_NS: Final = 1_000_000_000


class StoreAddress(str):
    """An address in an object store with the access to its bucket; as a string it is the address.

    Attributes:
        access: endpoint and login of the bucket.
        etag: version of the object; empty for the current version.
        size_bytes: size of the object; None if unknown.
    """

    __slots__ = ("access", "etag", "size_bytes")

    access: StoreAccess
    etag: str
    size_bytes: int | None

    def __new__(cls, text: str, access: StoreAccess, etag: str = "", size_bytes: int | None = None) -> Self:
        """Build an address.

        Args:
            text: the address.
            access: endpoint and login of the bucket.
            etag: version of the object; empty for the current version.
            size_bytes: size of the object; None if unknown.
        """
        made = super().__new__(cls, text)
        made.access, made.etag, made.size_bytes = access, etag, size_bytes
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return the arguments from which an executor rebuilds the address."""
        return f"{self}", self.access, self.etag, self.size_bytes

    @property
    def key(self) -> str:
        """Return the object's key in its bucket."""
        return split(self)[1]

    def beside(self, other: str) -> StoreAddress:
        """Return another address in the same store."""
        return StoreAddress(other, self.access)


class ObjectStore:
    """The :class:`frazil.storage.base.Storage` of the objects of one bucket.

    Objects appear at once. A listed address names one version; opening it fails if the object has changed. Names that
    end with a slash mark folders and are not files.
    """

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def find(self, declared: str, folder: Path, endings: tuple[str, ...]) -> Iterator[Entry]:
        """List objects, as :meth:`frazil.storage.base.Storage.find`; an empty prefix is an empty folder, not an error.

        Args:
            declared: address of a prefix or an object, or a glob pattern.
            folder: not used; addresses are absolute.
            endings: wanted endings of object names, in lower case.

        Cost: a request for each thousand objects below the part of the address before its first pattern.
        """
        del folder
        key = split(declared)[1].strip("/")
        fixed = "/".join(itertools.takewhile(lambda part: not set(part) & set(_MAGIC), key.split("/")))
        wanted = _pattern(key) if fixed != key else None
        if wanted is None and key.lower().endswith(endings) and (one := self._one(key)) is not None:
            yield one
            return
        for listed in store_client.keys(self._access, fixed):
            yield from self._entries(listed, fixed, wanted, endings)

    def _one(self, key: str) -> Found | None:
        try:
            return None if is_hidden(key.rpartition("/")[2]) else self._found(store_client.describe(self._access, key))
        except FileNotFoundError:
            return None

    def _entries(
        self, listed: Iterable[dict[str, Any]], fixed: str, wanted: re.Pattern[str] | None, endings: tuple[str, ...]
    ) -> Iterator[Entry]:
        for one in listed:
            key: str = one["path"]
            below = key.removeprefix(fixed).split("/")
            if key.endswith("/") or any(part and is_hidden(part) for part in below):
                continue
            if wanted is not None and not wanted.fullmatch(key):
                continue
            if key.lower().endswith(endings):
                yield self._found(one)
            elif one["size"]:  # some stores list the folders that they know as empty objects
                yield Passed(f"{self._access.root}/{key}")

    def _found(self, one: dict[str, Any]) -> Found:
        key, etag = one["path"], one["e_tag"] or ""
        address = StoreAddress(f"{self._access.root}/{key}", self._access, etag, one["size"])
        version = int.from_bytes(hashlib.sha256(etag.encode()).digest()[:8], "big") % _NS
        modified_ns = int(one["last_modified"].timestamp()) * _NS + version
        return Found(address, key.rpartition("/")[2], one["size"], modified_ns, etag)

    def stat(self, uri: str) -> Found:
        """Return size, time and version of one object, as :meth:`frazil.storage.base.Storage.stat`."""
        return self._found(store_client.describe(self._access, split(uri)[1]))

    def names_version(self, uri: str) -> bool:
        """Return True if the store reported an ETag for the object when it was listed."""
        return isinstance(uri, StoreAddress) and bool(uri.etag)

    def open(self, uri: str) -> BinaryIO:
        """Open one object, as :meth:`frazil.storage.base.Storage.open`.

        Cost: memory for a few parts at any size. A large object of unknown size takes a second request.
        """
        version = uri if isinstance(uri, StoreAddress) else StoreAddress(uri, self._access)
        size_bytes = version.size_bytes
        if size_bytes is None:
            # Not a HEAD: the body of a refusal has the reason.
            answer = store_client.get(version.access, version.key, **_matching(version))
            size_bytes = cast("int", answer.meta["size"])
            if size_bytes <= _PART_BYTES:
                with store_client.answering(f"{uri}"):
                    return io.BytesIO(bytes(answer.bytes()))
            version = StoreAddress(uri, version.access, answer.meta["e_tag"] or "", size_bytes)
        if size_bytes > _PART_BYTES:
            return cast("BinaryIO", io.BufferedReader(_Parts(version, size_bytes), _PART_BYTES))
        return cast("BinaryIO", io.BufferedReader(cast("io.RawIOBase", io.BytesIO(_kept.of(version)))))

    def read(self, uri: str) -> bytes:
        """Return the whole content of an object."""
        return bytes(store_client.get(self._access, split(uri)[1]).bytes())


class _Parts(io.RawIOBase):
    """An object read in parts, all of the same version."""

    def __init__(self, address: StoreAddress, size_bytes: int) -> None:
        super().__init__()
        self._address, self._size, self._at = address, size_bytes, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        until = min(self._at + len(buffer), self._size)
        if until <= self._at:
            return 0
        wanted = {"range": (self._at, until), **_matching(self._address)}
        answer = store_client.get(self._address.access, self._address.key, **wanted)
        with store_client.answering(f"{self._address}"):
            data = memoryview(answer.bytes()).cast("B")
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


@dataclass(slots=True)
class _Kept:
    """A cache of recent small objects: a run inspects each file and then reads it."""

    _content: OrderedDict[tuple[StoreAccess, str, str], bytes]
    _size: int
    _lock: Lock

    def of(self, address: StoreAddress) -> bytes:
        name = (address.access, address.key, address.etag)
        with self._lock:
            if name in self._content:
                self._content.move_to_end(name)
                return self._content[name]
        answer = store_client.get(address.access, address.key, **_matching(address))
        with store_client.answering(f"{address}"):
            content = bytes(answer.bytes())
        if address.etag and len(content) <= _PART_BYTES:
            self._keep(name, content)
        return content

    def _keep(self, name: tuple[StoreAccess, str, str], content: bytes) -> None:
        with self._lock:
            if name not in self._content:
                self._content[name] = content
                self._size += len(content)
            while self._size > _KEPT_BYTES:
                self._size -= len(self._content.popitem(last=False)[1])


_kept: Final = _Kept(OrderedDict(), 0, Lock())


def _matching(address: StoreAddress) -> dict[str, Any]:
    return {"if_match": address.etag} if address.etag else {}


def _pattern(key: str) -> re.Pattern[str]:
    """Return a regular expression for the keys that a glob pattern matches, and the keys below them."""
    written = ""
    for part in key.split("/"):
        written += "(?:[^/]+/)*" if part == "**" else f"{_part(part)}/"
    return re.compile(
        f"{written.removesuffix('/')}(?:/.*)?" if not written.endswith(")*") else f"{written}.*", re.DOTALL
    )


def _part(text: str) -> str:
    """Return one part of a pattern as a regular expression; ``*`` and ``?`` do not cross a slash."""
    return "".join(_piece(piece) for piece in re.findall(r"\[!?.[^\]]*\]|.", text, re.DOTALL))


def _piece(piece: str) -> str:
    if piece in {"*", "?"}:
        return "[^/]*" if piece == "*" else "[^/]"
    if len(piece) == 1:
        return re.escape(piece)
    # As on a disk, a range that ends before it begins matches no letter. The text around the brackets varies.
    return f"(?!/){fnmatch.translate(piece).removeprefix('(?s:').rpartition(')')[0]}"
