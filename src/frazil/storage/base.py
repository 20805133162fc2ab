"""The contract of a storage, and the entries that a listing yields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, TypeAlias

from frazil.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HIDDEN_PREFIXES: Final = (".", "_")
TEMPORARY_SUFFIXES: Final = (".tmp", "._COPYING_", ".part", ".crc")


class MissingFolderError(SourceError):
    """A declared folder or file does not exist or cannot be listed."""

    code = "FZ201"

    def __init__(self, declared: str, looked_at: str, why: str) -> None:
        self.declared, self.looked_at = declared, looked_at
        super().__init__(
            f"{looked_at}: {why}",
            hint=f"given as {declared!r}; relative paths in a declaration start from its folder",
        )


class UnknownStoreError(SourceError):
    """Frazil cannot read the kind of store that a declaration names."""

    code = "FZ204"
    retryable = False

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        super().__init__(
            f"files at {scheme}:// cannot be read or landed there",
            hint="files are read from folders, s3://, gs:// and abfss://; a capture lands in a local folder",
        )


@dataclass(frozen=True, slots=True)
class Found:
    """A regular file.

    Attributes:
        uri: absolute path or address.
        name: last part of the path.
        size_bytes: size of the file.
        modified_ns: modification time in nanoseconds since 1970, as set by the writer or the store. If the store names
            versions, the part below a second is a hash of the version, because some stores report whole seconds.
        etag: version of the content. It differs if the content may differ, even with equal size and time. Compare it
            within one store only.
    """

    uri: str
    name: str
    size_bytes: int
    modified_ns: int
    etag: str


@dataclass(frozen=True, slots=True)
class Refused:
    """An entry that must not be read, with the reason."""

    uri: str
    reason: str


@dataclass(frozen=True, slots=True)
class Passed:
    """A file whose name has none of the wanted endings."""

    uri: str


Entry: TypeAlias = Found | Refused | Passed


class Storage(Protocol):
    """A read-only storage whose files other programs write.

    Files may appear, grow and disappear during a listing or a read; nothing is locked. To read one version of a file,
    call :meth:`stat` before and after: equal ``size_bytes`` and ``etag`` mean that the content did not change. All
    methods may be called concurrently and repeatedly.
    """

    def find(self, declared: str, folder: Path, endings: tuple[str, ...]) -> Iterator[Entry]:
        """List the files below a declared place, in no particular order.

        Args:
            declared: folder, file or glob pattern (``**`` for any depth), as :func:`frazil.spec.location.expand`
                returns it. The name of an existing file or folder is never treated as a pattern.
            folder: start of relative paths.
            endings: wanted endings of file names, in lower case.

        Yields:
            Regular files with a wanted ending, refusals of entries with such a name that must not be read, and files
            with other endings. Hidden and temporary files are left out, and so is everything in such folders.

        Raises:
            MissingFolderError: the place cannot be listed, or it has no pattern and does not exist.
        """

    def stat(self, uri: str) -> Found:
        """Return size, time and version of one file.

        Raises:
            OSError: the file does not exist or access is denied.
        """

    def names_version(self, uri: str) -> bool:
        """Return True if a listed address names one version; :meth:`open` then fails if the file has changed."""

    def open(self, uri: str) -> BinaryIO:
        """Open a file for reading at its beginning. The result supports ``seek``; the caller closes it.

        Raises:
            OSError: the file does not exist or access is denied.
        """


def is_hidden(name: str) -> bool:
    """Return True for the name of a hidden or temporary file."""
    return name.startswith(HIDDEN_PREFIXES) or name.endswith(TEMPORARY_SUFFIXES)
