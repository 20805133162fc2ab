"""The contract of a capture: it lands the changes of a server as files, and the files are the source.

Optional abilities, such as reading tables again, are protocols of their own.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar, runtime_checkable

from frazil.errors import ContractError, DeclarationError, SourceError
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from frazil.errors import FrazilError

TYPE_KEY: Final = b"spark_type"
"""Metadata key of the Spark type of a field, in Parquet files that a capture landed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """Result of one turn of a capture.

    Attributes:
        files: number of landed files.
        records: number of records in them.
        behind_bytes: bytes at the server that are not landed yet; None if the server does not report them.
        behind_seconds: age of the oldest change that is not landed; None without such a change, or if its age is
            unknown.
        busy: name of the other process that captures; nothing was landed then. None if this process captured.
        failed: declared table -> why it stopped. Changes of the other tables of its slot are landed.
    """

    files: int = 0
    records: int = 0
    behind_bytes: int | None = None
    behind_seconds: float | None = None
    busy: str | None = None
    failed: Mapping[str, FrazilError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Distance between the landing files and their server.

    Attributes:
        behind_bytes: bytes at the server that are not landed yet; None if the server does not report them.
        behind_seconds: upper bound of the age of the oldest change that is not landed; 0 without such a change, None if
            the age is unknown.
        begun: True if something was landed before.
    """

    behind_bytes: int | None = None
    behind_seconds: float | None = None
    begun: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Changes that wait at a server.

    Attributes:
        counts: declared table -> number of its changes; None if its rows were not loaded yet.
        failed: declared table -> why the next turn will not land its changes.
    """

    counts: Mapping[str, int | None] = field(default_factory=dict)
    failed: Mapping[str, FrazilError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """One finding about a server.

    Attributes:
        ok: True if all is well, False if a capture fails because of it, None if one may fail soon.
        detail: the finding, without secrets.
        hint: command to type, or None if there is nothing to do.
    """

    ok: bool | None
    detail: str
    hint: str | None = None


class Capture(Protocol):
    """Lands the changes of one or more tables that share a slot, a log or a topic.

    The delivery contract, on which :class:`frazil.sources.base.Source` relies:

    - **Landing files are complete or absent**, see :func:`land_file`. Only :class:`EmptiesRecords` rewrites one.
    - **Files are named by position.** After a crash a capture finds landed ranges by name. A range that is landed again
      gives the same files, or other files whose records have the same positions.
    - **Land, then confirm.** A capture lets the server discard changes only after the files are durable.
    - **One reader at a time.** If another process captures, a turn lands nothing and reports it.
    """

    @property
    def name(self) -> str:
        """Return a name for people, without secrets: ``slot frazil of 127.0.0.1:5432/shop``."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the names of the declared tables."""

    def land(self, folder: Path, progress: Callable[[str], None]) -> Landed:
        """Land the changes that the server has now.

        Args:
            folder: folder of the declaration; relative landing folders start there.
            progress: callback that receives texts about the progress.

        Raises:
            SourceError: the server cannot be reached or lacks a declared object; the hint says what to do.
            HistoryChangedError: the server no longer has the changes after the last landed position.

        Cost: memory for one file; needs no JVM.
        """

    def behind(self, folder: Path) -> Lag | None:
        """Return the distance to the server; None for a kind that cannot measure it.

        Reads little, changes nothing, and does not disturb a running capture.
        """

    def examine(self, folder: Path) -> Iterator[Looked]:
        """Check the preconditions of a capture. It changes nothing and does not disturb a running capture.

        Yields:
            Every problem found; without problems a description of the server; nothing without a server.

        Raises:
            SourceError: the server cannot be reached.
        """


@runtime_checkable
class Reloads(Protocol):
    """A capture that can read all rows of a loaded table again."""

    def reload(self, folder: Path, names: Collection[str], progress: Callable[[str], None]) -> Landed:
        """Land all rows of some tables again, so that the lake matches the server.

        Args:
            folder: folder of the declaration.
            names: names of the declared tables.
            progress: callback that receives texts about the progress.

        Raises:
            SourceError: the server cannot be reached or lacks a declared object; the hint says what to do.

        Cost: one scan of each table, and one change in the lake for each row.
        """


@runtime_checkable
class CountsWaiting(Protocol):
    """A capture that can count the changes that wait at its server."""

    def waiting(self, folder: Path) -> Waiting:
        """Count the changes of each table that are not landed, and find the tables that would stop.

        Changes nothing at the server. Cost: the server reads these changes once more.
        """


@runtime_checkable
class LeavesOutColumns(Protocol):
    """A source whose landing files lack columns that the table has at its server."""

    def left_out(self, folder: Path) -> tuple[str, ...]:
        """Return the names of these columns, as far as known without a request to the server."""


@runtime_checkable
class EmptiesRecords(Protocol):
    """A source that can remove the content of records from its landing files. The positions of the records stay."""

    def is_emptied(self, path: Path, rows: Collection[int]) -> bool:
        """Return True if the records at ``rows`` (counted from 1) have no content left."""

    def empty(self, path: Path, rows: Collection[int], before: str) -> None:
        """Remove the content of some records and keep their positions. The file is complete at any time.

        Args:
            path: landing file that bronze has.
            rows: row numbers of the records, from 1.
            before: hash of the file as bronze took it, for :meth:`emptied_from`.
        """

    def emptied_from(self, uri: str) -> str | None:
        """Return ``before`` of an emptied file; None for any other file.

        It identifies the file until the ledger has its new hash.
        """


@runtime_checkable
class LandsTogether(Protocol):
    """A capture whose tables must be read together, because a transaction may span them."""

    def is_whole(self, folder: Path) -> bool:
        """Return True if the landing files of all tables reach one position, with complete transactions.

        It is False while a capture runs and after one was killed. Reads the landing folder only; ``folder`` is the
        folder of the declaration.
        """


@runtime_checkable
class ForgetsFiles(Protocol):
    """A capture that can remove landing files that bronze has."""

    def forgettable(self, folder: Path, files: Collection[Path]) -> dict[Path, tuple[str, ...]]:
        """Return the files that :meth:`forget` would remove, in their order; removes nothing.

        Args:
            folder: folder of the declaration.
            files: any files; missing files and files of other sources are ignored.

        Returns:
            Each file with the names of its tables, without files that the capture needs to continue. A running
            capture is not considered.
        """

    def forget(self, folder: Path, files: Collection[Path]) -> list[Path]:
        """Remove the files that are :meth:`forgettable` and keep the position of the capture.

        Returns:
            The removed files; empty while another process captures.
        """


@runtime_checkable
class BeginsOnce(Protocol):
    """A capture whose server forgets what was landed, so that a landing folder that was lost cannot be filled again.

    Before the first turn in an empty folder it is asked whether the lake was made of another one.
    """

    def begins(self, folder: Path) -> Path | None:
        """Return the landing folder while nothing is landed in it, ``folder`` being the declaration's; else None."""

    def lost(self, folder: Path, taken: Mapping[str, Collection[str]]) -> FrazilError | None:
        """Return why no turn may begin in an empty landing folder; None where one may.

        Args:
            folder: the declaration's.
            taken: table -> paths of the files that bronze has of it.
        """

    def remember(self, folder: Path, taken: Mapping[str, Collection[str]]) -> None:
        """Note in an empty landing folder that the lake was made of another one: from then on every turn is refused.

        A reload goes on from what is noted. Arguments as of :meth:`lost`; nothing is noted where a turn may begin.
        """


@runtime_checkable
class VerifiesLanding(Protocol):
    """A source that can tell by their names that landing files do not go on where those that bronze has end."""

    def verify_landing(self, folder: Path, taken: Collection[str], new: Collection[str]) -> None:
        """Stop where the landing folder was lost, or is another one.

        Args:
            folder: the declaration's.
            taken: paths of the files that bronze has.
            new: paths of the other files that are landed.

        Raises:
            HistoryChangedError: with the way out.
        """


def reload_capture(capture: Capture, folder: Path, names: Collection[str], progress: Callable[[str], None]) -> Landed:
    """Land all rows of some tables again, as :meth:`Reloads.reload`.

    Args:
        capture: capture of the tables.
        folder: folder of the declaration.
        names: names of the declared tables.
        progress: callback that receives texts about the progress.

    Raises:
        DeclarationError: the capture lands changes only and cannot read rows.
    """
    if not isinstance(capture, Reloads):
        raise DeclarationError(
            f"{capture.name}: captures changes only and cannot read rows again",
            hint="only tables of kind postgres can be read again",
        )
    return capture.reload(folder, names, progress)


@contextmanager
def try_lock(lock: Path) -> Iterator[bool]:
    """Take the lock of a landing folder; yield False if another process holds it.

    The operating system releases the lock when the process ends, even if it is killed.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def land_file(path: Path, write: Callable[[Path], object]) -> None:
    """Write a landing file atomically and durably.

    Args:
        path: path of the file; an existing file is replaced.
        write: function that writes the file at the path it receives.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.tmp")
    write(hidden)
    reveal(hidden, path)


def reveal(hidden: Path, path: Path) -> None:
    """Rename a hidden file, or a hidden folder of durable files, to ``path`` durably."""
    if hidden.is_dir():
        _flush(hidden)
    else:
        with hidden.open("rb+") as written:
            os.fsync(written.fileno())
    hidden.replace(path)
    _flush(path.parent)


def _flush(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


T = TypeVar("T")


class Answers(Generic[T]):
    """Answers of several servers, asked in parallel; a silent server does not delay the others.

    Args:
        captures: captures to ask.
        question: function that asks one capture; it runs in a thread.
        seconds: time limit for all answers together, from now on.
    """

    def __init__(self, captures: Sequence[Capture], question: Callable[[Capture], T], seconds: float) -> None:
        self.captures = captures
        self._question, self._seconds = question, seconds
        self._until = time.monotonic() + seconds
        self._found: dict[int, T] = {}
        self._failed: dict[int, Exception] = {}
        # A thread that waits for a silent server must not keep the process from ending.
        self._threads = [Thread(target=self._ask, args=numbered, daemon=True) for numbered in enumerate(captures)]
        for thread in self._threads:
            thread.start()

    def of(self, number: int) -> T:
        """Return the answer of the capture at index ``number``; waits until the time limit.

        Raises:
            SourceError: it did not answer in time.
            Exception: the error that the question raised.
        """
        self._threads[number].join(max(0.0, self._until - time.monotonic()))
        if number in self._failed:
            raise self._failed[number]
        if number not in self._found:
            raise SourceError(
                f"{self.captures[number].name}: no answer within {self._seconds:.0f} s",
                hint="check that the server runs and is reachable from here",
            )
        return self._found[number]

    def _ask(self, number: int, capture: Capture) -> None:
        try:
            self._found[number] = self._question(capture)
        except Exception as error:  # noqa: BLE001 - raised where the answer is wanted
            self._failed[number] = error


_FEW_ROWS: Final = 10
"""Tables with at most this many rows may lose any share of them."""

_HINT: Final = (
    "check that it is complete and from the right place. If so, raise max_delete_fraction in the source, run the same "
    "command again, and restore the setting"
)


class TooManyDeletesError(ContractError):
    """A copy of a table lacks more rows than ``max_delete_fraction`` allows."""

    code = "FZ402"


def verify_deletes(
    copy: str, before: int, gone: int, limit: float, *, of: str = "the one before", hint: str = _HINT
) -> None:
    """Refuse a copy of a table that lacks too many rows.

    Args:
        copy: name of the table and the copy, for people.
        before: number of rows that the table had.
        gone: number of these rows that the copy lacks.
        limit: largest allowed share of ``before``, from 0 to 1.
        of: name of the earlier version, for people.
        hint: what the reader can do.

    Raises:
        TooManyDeletesError: the share is greater than ``limit``.
    """
    if before > _FEW_ROWS and gone > limit * before:
        raise TooManyDeletesError(
            f"{copy} lacks {gone:,} of {counted(before, 'row')} of {of}; "
            f"max_delete_fraction {limit:g} allows {int(limit * before):,}",
            hint=hint,
        )
