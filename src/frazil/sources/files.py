"""List files below folders, and read each new one once to know its content.

Nothing here knows what the files mean; ``sources.dms`` does.
"""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from frazil.errors import HistoryChangedError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

HIDDEN_PREFIXES: Final = (".", "_")
TEMPORARY_SUFFIXES: Final = (".tmp", "._COPYING_", ".part", ".crc")

_HASH_BYTES: Final = 1024 * 1024
_MAGIC: Final = "*?["
_LEADS_OUT: Final = "a link that leads out of the declared folder"


class MissingFolderError(SourceError):
    """A declared folder or file does not exist, or cannot be listed."""

    code = "FZ201"

    def __init__(self, declared: str, looked_at: str, why: str) -> None:
        self.declared, self.looked_at = declared, looked_at
        super().__init__(
            f"{looked_at}: {why}",
            hint=f"the declaration says {declared!r}; relative paths start from the declaration's folder",
        )


class FileChangedError(HistoryChangedError):
    """A file that was taken has other content now."""

    code = "FZ701"

    def __init__(self, path: str, before: str, now: str) -> None:
        self.path, self.before, self.now = path, before, now
        super().__init__(
            f"{path}: content changed after it was taken (sha256 {before[:12]} then, {now[:12]} now)",
            hint="put the old content back and deliver the new records under a new name; or, if the first upload was "
            "cut off, read all files of the table again: frazil drop --select TABLE, then frazil run",
        )


@dataclass(frozen=True, slots=True)
class Found:
    """A regular file: its absolute path, name, size in bytes and modification time in nanoseconds."""

    uri: str
    name: str
    size_bytes: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Refused:
    """An entry that is not taken, and why."""

    uri: str
    reason: str


@dataclass(frozen=True, slots=True)
class Passed:
    """A file of another kind than is looked for."""

    uri: str


def find(declared: str, folder: Path, endings: tuple[str, ...]) -> Iterator[Found | Refused | Passed]:
    """Find files below a declared path, in no order.

    Args:
        declared: a folder, a file or a glob pattern (``**``: any depth); a name that exists is no pattern.
        folder: where a relative path starts.
        endings: how names of interest end, in lower case; others are passed over.

    Yields:
        Regular files, refusals of what has such a name but may not be read (symbolic links that lead out
        of the declared folder, pipes, devices, names that are not UTF-8), and names that end otherwise. Hidden and
        temporary names are left out, and linked folders are not followed.

    Raises:
        MissingFolderError: a path that is no pattern does not exist, or cannot be listed.
    """
    if "://" in declared:
        raise MissingFolderError(declared, declared, "only local folders can be read")
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


def _literal_part(folder: Path, declared: str) -> Path:
    parts = Path(declared).parts
    plain = itertools.takewhile(lambda part: not any(sign in part for sign in _MAGIC), parts)
    return folder.joinpath(*plain)


def _find_below(declared: str, start: str, root: str, endings: tuple[str, ...]) -> Iterator[Found | Refused | Passed]:
    name = os.path.basename(start)  # noqa: PTH119 - strings here: a Path for each of many files is slow
    if not os.path.isdir(start):  # noqa: PTH112
        if _is_hidden(name):
            return
        is_ours = name.lower().endswith(endings)
        yield _entry(start, root, is_link=os.path.islink(start)) if is_ours else _passed(start)  # noqa: PTH114
        return
    folders = [start]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if _is_hidden(entry.name):
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
    return Found(uri, os.path.basename(uri), seen.st_size, seen.st_mtime_ns)  # noqa: PTH119


def _passed(uri: str) -> Passed:
    return Passed(os.fsencode(uri).decode(errors="backslashreplace"))  # its name need not be UTF-8


def _is_inside(path: str, root: str) -> bool:
    real = os.path.realpath(path)
    return real == root or real.startswith(root.rstrip(os.sep) + os.sep)


def _is_hidden(name: str) -> bool:
    return name.startswith(HIDDEN_PREFIXES) or name.endswith(TEMPORARY_SUFFIXES)


def stored_path(uri: str, folder: Path) -> str:
    """Path as it is shown and stored: relative to ``folder`` when below it, else absolute; parts by ``/``."""
    prefix = f"{str(folder).rstrip(os.sep)}{os.sep}"
    return uri.removeprefix(prefix).replace(os.sep, "/")


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
    with Path(uri).open("rb") as raw:
        return HashedFile(raw).sha256()
