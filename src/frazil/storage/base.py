"""What a place of files can do, and what is found there."""

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
    """A declared folder or file does not exist, or cannot be listed."""

    code = "FZ201"

    def __init__(self, declared: str, looked_at: str, why: str) -> None:
        self.declared, self.looked_at = declared, looked_at
        super().__init__(
            f"{looked_at}: {why}",
            hint=f"given as {declared!r}; relative paths in a declaration start from its folder",
        )


class UnknownStoreError(SourceError):
    """Files are declared to be in a kind of store that cannot be read."""

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
        uri: its absolute path or address.
        name: the last part of it.
        size_bytes: its size.
        modified_ns: time of its last change in nanoseconds since 1970, as its writer or its store sets it. Where the
            store names versions, what is below a second is a hash of the version: some stores only tell seconds.
        etag: differs where the content may differ, also if size and time are the same. Says nothing across stores.
    """

    uri: str
    name: str
    size_bytes: int
    modified_ns: int
    etag: str


@dataclass(frozen=True, slots=True)
class Refused:
    """An entry that is not taken, and why."""

    uri: str
    reason: str


@dataclass(frozen=True, slots=True)
class Passed:
    """A file of another kind than is looked for."""

    uri: str


Entry: TypeAlias = Found | Refused | Passed


class Storage(Protocol):
    """A place of files that others write and Frazil only reads.

    Files may come, grow and go while they are listed and read; nothing is locked. A caller that needs a whole file
    takes its :meth:`stat` before and after reading: the same ``size_bytes`` and ``etag`` mean that it read one version.
    All methods may be called at the same time, and again.
    """

    def find(self, declared: str, folder: Path, endings: tuple[str, ...]) -> Iterator[Entry]:
        """List the files below a declared place, in no order.

        Args:
            declared: a folder, a file or a glob pattern (``**``: any depth), as :func:`frazil.spec.location.expand`
                returns it; a name that exists is no pattern.
            folder: where a relative path starts.
            endings: how names of interest end, in lower case; others are passed over.

        Yields:
            Regular files, refusals of what has such a name but may not be read, and names that end otherwise. Hidden
            and temporary names are left out, and what stands in a hidden or temporary folder.

        Raises:
            MissingFolderError: a place that is no pattern does not exist, or cannot be listed.
        """

    def stat(self, uri: str) -> Found:
        """Look at one file.

        Raises:
            OSError: there is none, or it may not be looked at.
        """

    def names_version(self, uri: str) -> bool:
        """Return whether an address that was listed means one version, so that :meth:`open` fails for any other."""

    def open(self, uri: str) -> BinaryIO:
        """Open a file for reading from its beginning; close it. It can be searched by ``seek``.

        Raises:
            OSError: there is none, or it may not be read.
        """


def is_hidden(name: str) -> bool:
    """Return whether a name means that its file is not finished, or not meant for readers."""
    return name.startswith(HIDDEN_PREFIXES) or name.endswith(TEMPORARY_SUFFIXES)
