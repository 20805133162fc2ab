"""What a kind owes Frazil whose changes come from a server: it lands them as files, and the files are its source."""

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
"""Key of the Spark type of a column in the metadata of its field in a Parquet file that a capture landed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """What one turn of a capture brought.

    Attributes:
        files: how many files it landed.
        records: how many records are in them.
        behind_bytes: what the server still has to offer, in bytes; None where it does not tell.
        behind_seconds: age of the oldest change that is not landed; None where nothing is missing or nobody knows.
        busy: who captures instead, where another process does; then nothing was landed.
        failed: table, as declared -> why it stops; what its slot has for others is landed all the same.
    """

    files: int = 0
    records: int = 0
    behind_bytes: int | None = None
    behind_seconds: float | None = None
    busy: str | None = None
    failed: Mapping[str, FrazilError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far landing files are behind their server.

    Attributes:
        behind_bytes: what the server still has to offer, in bytes; None where it does not tell.
        behind_seconds: age of the oldest change that is not landed, at most; 0 where nothing is missing, None where
            nobody knows.
        begun: something was landed before.
    """

    behind_bytes: int | None = None
    behind_seconds: float | None = None
    begun: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What waits at a server and is not landed.

    Attributes:
        counts: table, as declared -> number of its changes; None where it was not loaded yet.
        failed: table -> why the next turn lands nothing of it.
    """

    counts: Mapping[str, int | None] = field(default_factory=dict)
    failed: Mapping[str, FrazilError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """One thing that a look at a server found.

    Attributes:
        ok: True; False if a capture fails for it; None if one may soon.
        detail: what was found, without a secret.
        hint: the way out, where there is something to do: a command as it is typed.
    """

    ok: bool | None
    detail: str
    hint: str | None = None


class Capture(Protocol):
    """Lands what a server has to offer, for one or more tables that share a slot, a log or a topic.

    The delivery contract, on which :class:`frazil.sources.base.Source` stands:

    - **Landing files are whole or absent**, see :func:`land_file`, and never change, but for :class:`EmptiesRecords`.
    - **They are named by position.** What was landed before a crash is found by its name; a range that is landed again
      gives the same files, or other files of which the records have the same positions.
    - **Land, then confirm.** The server is told what it may forget only after the files are durable.
    - **One reader at a time.** Where another process captures, a turn lands nothing and says so.
    """

    @property
    def name(self) -> str:
        """Return what is captured, for people, without a secret: ``slot frazil of 127.0.0.1:5432/shop``."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the names of the source tables, as declared."""

    def land(self, folder: Path, progress: Callable[[str], None]) -> Landed:
        """Land what the server has now.

        Args:
            folder: the declaration's; relative landing folders start from it.
            progress: is told how far it is.

        Raises:
            SourceError: the server cannot be reached, or has not what is declared; says the way out.
            HistoryChangedError: the server no longer has what comes after the last landed position.

        Cost: memory of one file; no JVM.
        """

    def behind(self, folder: Path) -> Lag | None:
        """Return how far the landing files are behind the server; None for a kind that cannot tell.

        Reads little, changes nothing there, and disturbs no capture that is at work.
        """

    def examine(self, folder: Path) -> Iterator[Looked]:
        """Look at what a capture needs of the server; change nothing there, and disturb no capture that is at work.

        Yields:
            Everything that is wrong; what the server is where all is right; nothing where there is no server.

        Raises:
            SourceError: the server cannot be reached.
        """


@runtime_checkable
class Reloads(Protocol):
    """A capture that can read tables again whose rows were landed before."""

    def reload(self, folder: Path, names: Collection[str], progress: Callable[[str], None]) -> Landed:
        """Land all rows of some of its tables again, so that the lake comes to hold what the server has.

        Args:
            folder: the declaration's.
            names: names of the tables, as declared.
            progress: is told how far it is.

        Raises:
            SourceError: the server cannot be reached, or has not what is declared; says the way out.

        Cost: one scan of each table; a change in the lake for each of its rows.
        """


@runtime_checkable
class CountsWaiting(Protocol):
    """A capture that can count what waits at its server."""

    def waiting(self, folder: Path) -> Waiting:
        """Return how many changes of each table are not landed, and which tables a turn would stop.

        Changes nothing there. Cost: the server reads what is not landed once more.
        """


@runtime_checkable
class LeavesOutColumns(Protocol):
    """A source whose landing files lack columns that the table has at its server."""

    def left_out(self, folder: Path) -> tuple[str, ...]:
        """Return the names of these columns, as far as is known without asking the server."""


@runtime_checkable
class EmptiesRecords(Protocol):
    """A source whose landing files can be written again with nothing left of some records but their places."""

    def is_emptied(self, path: Path, rows: Collection[int]) -> bool:
        """Return whether nothing is left of the records of some rows, which count from 1 on."""

    def empty(self, path: Path, rows: Collection[int], before: str) -> None:
        """Leave nothing of some records but their places; the file is there whole at any time.

        Args:
            path: a landing file that bronze has.
            rows: their rows, from 1 on.
            before: hash of the file as bronze has taken it, for :meth:`emptied_from`.
        """

    def emptied_from(self, uri: str) -> str | None:
        """Return ``before`` of a file that was emptied; None of any other.

        By it a file is known between being emptied and its new hash being in the ledger.
        """


@runtime_checkable
class LandsTogether(Protocol):
    """A capture whose landing files of several tables are to be read together: a transaction may span them."""

    def is_whole(self, folder: Path) -> bool:
        """Return whether the landing files of all its tables reach one position, with whole transactions.

        They do not where a capture was killed, or is at work. Reads the landing folder only; ``folder`` is the
        declaration's.
        """


@runtime_checkable
class ForgetsFiles(Protocol):
    """A capture that can do without landing files that bronze has."""

    def forgettable(self, folder: Path, files: Collection[Path]) -> dict[Path, tuple[str, ...]]:
        """Return which of some files :meth:`forget` removes, in their order; look only.

        Args:
            folder: the declaration's.
            files: any files; those that are not its own, or are gone, are passed over.

        Returns:
            Each with the names of the tables that are made of it. A file that is still needed to go on from is not
            among them. Whether another process captures is not asked.
        """

    def forget(self, folder: Path, files: Collection[Path]) -> list[Path]:
        """Remove those of some files that are :meth:`forgettable`, and keep where the capture stands.

        Returns:
            Those that were removed; none while another process captures.
        """


def reload_capture(capture: Capture, folder: Path, names: Collection[str], progress: Callable[[str], None]) -> Landed:
    """Land all rows of some tables again, as :meth:`Reloads.reload`.

    Raises:
        DeclarationError: what lands their changes has not their rows.
    """
    if not isinstance(capture, Reloads):
        raise DeclarationError(
            f"{capture.name}: has changes only, and no rows that could be read again",
            hint="tables of kind postgres can be read again",
        )
    return capture.reload(folder, names, progress)


@contextmanager
def try_lock(lock: Path) -> Iterator[bool]:
    """Take the lock of a landing folder; yield False where another process has it.

    It is free again when the process ends, however it ends.
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
    """Write a landing file so that it is there whole, durable, or not at all.

    Args:
        path: its name; what stands there is replaced.
        write: writes it under the name it is given.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.tmp")
    write(hidden)
    reveal(hidden, path)


def reveal(hidden: Path, path: Path) -> None:
    """Let what was written under a hidden name appear, durably; ``hidden`` is a file, or a folder of durable files."""
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
    """What servers answer to a question that is put to all of them at once.

    Args:
        captures: what is captured of each server.
        question: asks one; runs in a thread.
        seconds: how long all of them together may take, from now on.
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
        """Return the answer of one of them, once it has answered or had its time.

        Raises:
            SourceError: it has not answered.
            Exception: what the question raised.
        """
        self._threads[number].join(max(0.0, self._until - time.monotonic()))
        if number in self._failed:
            raise self._failed[number]
        if number not in self._found:
            raise SourceError(
                f"{self.captures[number].name}: no answer within {self._seconds:.0f} s",
                hint="see that the server runs and may be reached from here",
            )
        return self._found[number]

    def _ask(self, number: int, capture: Capture) -> None:
        try:
            self._found[number] = self._question(capture)
        except Exception as error:  # noqa: BLE001 - raised where the answer is wanted
            self._failed[number] = error


_FEW_ROWS: Final = 10
"""Of tables as small as this any share may go."""

_HINT: Final = (
    "is it whole, and of the right place? If so, raise max_delete_fraction in the source, run the same again, and set "
    "it back"
)


class TooManyDeletesError(ContractError):
    """A copy of a table lacks more of its rows than is allowed."""

    code = "FZ402"


def verify_deletes(
    copy: str, before: int, gone: int, limit: float, *, of: str = "the one before", hint: str = _HINT
) -> None:
    """Refuse a copy of a table that lacks too many rows.

    Args:
        copy: names the table and the copy, for people.
        before: how many rows the table had.
        gone: how many of them the copy lacks.
        limit: the share of them that may be gone.
        of: what had these rows.
        hint: the way out.

    Raises:
        TooManyDeletesError: more are.
    """
    if before > _FEW_ROWS and gone > limit * before:
        raise TooManyDeletesError(
            f"{copy} lacks {gone:,} of {counted(before, 'row')} of {of}; "
            f"max_delete_fraction {limit:g} allows {int(limit * before):,}",
            hint=hint,
        )
