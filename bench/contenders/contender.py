"""The interface of contenders, and their task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.meter import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a contender works on.

    Attributes:
        home: an empty folder, or one that an earlier process of the same contender loaded; all it writes goes here.
        columns: names and types of the columns of every table; ``id`` is the key, ``updated_at`` the sequence.
        tables: names of the tables.
        heap: memory of a JVM, as Spark writes it.
    """

    home: Path
    columns: Mapping[str, str]
    tables: tuple[str, ...]
    heap: str


class Contender(Protocol):
    """One way from DMS files to tables.

    In one process: ``open`` once, then ``load`` once unless the home is loaded already, then ``apply`` any
    number of times, then ``read`` and ``export``. The order of files is the order of their names. The same
    change file is never given twice.
    """

    marts: tuple[str, ...]
    """The tables it keeps: ``current``, ``history``; none when it leaves no table that could be checked."""

    tables_folder: Path
    """Where its tables lie on disk, for the count of bytes."""

    def open(self) -> None:
        """Start the engine. Not counted."""

    def load(self, files: Sequence[Path]) -> None:
        """Make the tables from the full load."""

    def apply(self, files: Sequence[Path]) -> Mapping[str, Reading]:
        """Bring the tables up to date with one batch; what is named in the answer was also measured by itself."""

    def read(self) -> None:
        """Read every column of every row of the first mart, with the contender's own engine."""

    def export(self, mart: str, folder: Path) -> None:
        """Write the rows of a mart as Parquet files, for the check. Not counted."""

    def jobs(self) -> int | None:
        """Spark jobs since ``open``; None without Spark."""

    def close(self) -> None:
        """Stop the engine."""
