"""What is measured: the works, their cases and who takes part in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from frazil.testing.sample_files import Keys

MILLION: Final = 1_000_000

PEERS: Final = ("delta-rs", "pyiceberg", "dlt-delta", "delta-spark", "dbt")
LIMITS: Final = ("limit-write", "limit-scan", "limit-copy")
CORE: Final = ("frazil-current", "recipe", "merge", "limit-scan")
EVERYONE: Final = (
    "frazil",
    "frazil-current",
    "frazil-guarded",
    "recipe",
    "recipe-all",
    "recipe-both",
    "merge",
    *PEERS,
    *LIMITS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One size and shape of work, and who takes part.

    Attributes:
        rows: rows of the full load, of each table.
        changes: records of each batch, of each table; 0 if only the load counts.
        keys: choice of the changing keys, as for the generator.
        late: share of changes older than their batch.
        columns: width of the tables.
        tables: number of tables in one run.
        contenders: names, in the order of their turns.
    """

    rows: int
    changes: int = 0
    keys: Keys = "mixed"
    late: float = 0.0
    columns: int = 9
    tables: int = 1
    contenders: tuple[str, ...] = CORE

    @property
    def title(self) -> str:
        """The case in words for people."""
        words = [f"{short(self.changes)} on {short(self.rows)}" if self.changes else f"{short(self.rows)} rows"]
        words += [f"{self.tables} tables"] if self.tables > 1 else []
        words += [f"{self.columns} columns"] if self.columns > 9 else []
        words += [f"{self.keys} keys"] if self.keys != "mixed" else []
        words += [f"{self.late:.0%} late"] if self.late else []
        return ", ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A kind of work: its cases, and how often.

    Attributes:
        about: one line for people.
        cases: the cases to run by default.
        rounds: turns that every contender gets, in processes of their own.
        warm: batches before the clock starts, in each of them.
        batches: batches under the clock.
        heap: memory of every JVM.
    """

    about: str
    cases: tuple[Case, ...]
    rounds: int = 3
    warm: int = 2
    batches: int = 3
    heap: str = "4g"


def _apply() -> tuple[Case, ...]:
    whole = Case(rows=5 * MILLION, changes=50_000, contenders=EVERYONE)
    sizes = [Case(rows=5 * MILLION, changes=n, contenders=(*CORE, "delta-rs")) for n in (16, 5_000, 500_000)]
    small = [
        Case(rows=MILLION, changes=50_000, contenders=(*CORE, "delta-rs")),
        # dlt upserts into Iceberg a thousand rows at a time, and reads the table for each.
        Case(rows=MILLION, changes=5_000, contenders=("frazil-current", "recipe", "merge", "delta-rs", "dlt-iceberg")),
    ]
    shapes = [Case(rows=5 * MILLION, changes=50_000, keys=keys) for keys in ("recent", "uniform", "hot")]
    late = Case(rows=5 * MILLION, changes=50_000, late=0.1, contenders=("frazil", *CORE))
    growth = [
        Case(rows=rows * MILLION, changes=10_000, keys=keys, contenders=("frazil-current", "recipe", "merge"))
        for rows in (1, 5, 20)
        for keys in ("mixed", "recent")
    ]
    return (whole, *sizes, *small, *shapes, late, *growth)


WORKS: Final = {
    "quick": Work(
        about="the current table, 1 M rows, in less than five minutes",
        cases=tuple(Case(rows=MILLION, changes=changes, contenders=(*CORE, "delta-rs")) for changes in (5_000, 50_000)),
        rounds=1,
        batches=3,
        heap="3g",
    ),
    "apply": Work(about="batches of changes on the current table", cases=_apply()),
    "history": Work(
        about="batches of changes on the history table",
        cases=tuple(
            Case(rows=rows, changes=changes, late=late, contenders=("frazil-history", "recipe-history"))
            for rows, changes, late in (
                (MILLION, 10_000, 0.0),
                (5 * MILLION, 50_000, 0.0),
                (5 * MILLION, 50_000, 0.1),
            )
        ),
    ),
    "wide": Work(
        about="batches of changes on a current table of 200 columns",
        cases=(Case(rows=200_000, changes=5_000, columns=200),),
    ),
    "many": Work(
        about="many tables in one run",
        cases=(
            Case(rows=10_000, changes=1_000, tables=100, contenders=("frazil-current", "frazil")),
            Case(rows=500_000, changes=100_000, tables=20, contenders=("frazil-current", "frazil")),
        ),
        rounds=1,
    ),
    "soak": Work(
        about="100 batches in a row, then reading beside a fresh copy",
        cases=(
            Case(rows=MILLION, changes=5_000, contenders=("frazil-current", "frazil-current-v3", "frazil-guarded")),
        ),
        rounds=1,
        batches=100,
    ),
    "load": Work(
        about="the first load through all layers, beside Spark writing the same CSV once",
        cases=tuple(
            Case(rows=rows * MILLION, contenders=("frazil", "spark-once", "recipe", "limit-write"))
            for rows in (1, 5, 20)
        ),
        heap="2g",
        batches=0,
        warm=0,
    ),
    "start": Work(
        about="from process start to published tables, beside a bare Spark session",
        cases=(Case(rows=10_000, changes=1_000, contenders=("frazil-command", "bare-session")),),
        rounds=5,
        batches=1,
        warm=1,
    ),
    "capture": Work(
        about="from changes in PostgreSQL to the current table",
        cases=tuple(
            Case(rows=rows, changes=50_000, contenders=("frazil-slot", "dlt-slot", "debezium-slot", "recipe-audit"))
            for rows in (200_000, 5 * MILLION)
        ),
        rounds=2,
        batches=4,
        heap="2g",
    ),
    "watch": Work(
        about="from a file's arrival to a readable row",
        cases=(Case(rows=10_000, changes=1_000, contenders=("frazil-watch",)),),
        rounds=1,
        batches=5,
    ),
}
"""Every work by name."""


def short(number: int) -> str:
    """Write a number as people say it: ``5 M``, ``10 k``."""
    if number >= MILLION and number % 100_000 == 0:
        return f"{number / MILLION:g} M"
    return f"{number // 1000} k" if number >= 1000 and number % 1000 == 0 else str(number)
