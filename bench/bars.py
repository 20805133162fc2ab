"""The bars that Frazil sets itself, each measured from the results as far as they go."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from bench.cases import short
from bench.summary import case_of, middle, name_of, times_less

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Row = dict[str, Any]
    Rows = Mapping[str, Sequence[Row]]

_M = 1_000_000
_APPLY = "frazil-current · apply"
_WINDOW = 10
"""Batches at either end, or in the middle, of a soak that are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One promise in numbers.

    Attributes:
        what: in words.
        limit: the number to reach.
        at_least: whether more is better; otherwise the number must not be passed.
        unit: what the number counts: ``x`` for ratios.
        measure: takes the rows of all works and gives the number, None where they do not tell.
    """

    what: str
    limit: float
    at_least: bool
    measure: Callable[[Rows], float | None]
    unit: str = "x"

    def met(self, number: float) -> bool:
        """Whether a number reaches the bar."""
        return number >= self.limit if self.at_least else number <= self.limit


def bars() -> tuple[Bar, ...]:
    """List all bars that results can tell of."""
    whole, growth = _case(5 * _M, 50_000), _case(20 * _M, 10_000)
    return (
        *_current("Current table, 50 k on 5 M: CPU, against the recipe", whole, "recipe", 8),
        *_current("Current table, 50 k on 5 M: wall, against the recipe", whole, "recipe", 8, field="wall_s"),
        *_current(
            "Current table, 50 k on 5 M: bytes written, against the recipe", whole, "recipe", 50, field="written_bytes"
        ),
        *_current("The same: CPU, against delta-rs", whole, "delta-rs", 1.5),
        *_current("The same: CPU, against PyIceberg", whole, "pyiceberg", 4),
        *_current("The same: CPU, against Delta Lake on Spark", whole, "delta-spark", 8),
        *_current("The same: CPU, against dbt", whole, "dbt", 1),
        *_current("The same: CPU, against dlt to Delta", whole, "dlt-delta", 1),
        *_current("The same: CPU, against a careful MERGE", whole, "merge", 1),
        *_current("10 k on 20 M: CPU, against the recipe", growth, "recipe", 25),
        _growth("Growth from 5 M to 20 M rows, 10 k changes, mixed keys", "mixed", 3),
        _growth("… recent keys", "recent", 1.5),
        Bar(
            what="Late guard and tombstones, 50 k on 5 M: their share of a batch's CPU in the marts' part",
            limit=25,
            at_least=False,
            unit="%",
            measure=lambda works: _share(
                times_less(works.get("apply", ()), whole, _APPLY, "frazil-guarded · apply"),
            ),
        ),
        Bar(
            what="Warm floor, 5 k on 5 M: CPU, against the DuckDB scan limit",
            limit=6,
            at_least=False,
            measure=lambda works: _inverse(
                times_less(works.get("apply", ()), _case(5 * _M, 5_000), _APPLY, "limit-scan")
            ),
        ),
        _less(
            "History, 50 k on 5 M: CPU, against the recipe's",
            whole,
            "frazil-history · apply",
            "recipe-history",
            4,
            work="history",
        ),
        _less(
            "… bytes written by the mart's part",
            whole,
            "frazil-history · apply",
            "recipe-history",
            40,
            field="written_bytes",
            work="history",
        ),
        _less(
            "The whole way, 50 k on 5 M: CPU, against the recipe's to both tables", whole, "frazil", "recipe-both", 4
        ),
        *(
            _less(
                f"From PostgreSQL to the current table, 50 k on {short(rows)}: CPU, against {whom}",
                _case(rows, 50_000),
                "frazil-slot",
                theirs,
                5,
                work="capture",
            )
            for rows in (200_000, 5 * _M)
            for whom, theirs in (
                ("dlt from a slot", "dlt-slot"),
                ("Debezium in Python", "debezium-slot"),
                ("the recipe from an audit table", "recipe-audit"),
            )
        ),
        Bar(
            what="First load of 5 M rows: CPU, against Spark writing the CSV once",
            limit=4,
            at_least=False,
            measure=lambda works: _inverse(
                times_less(works.get("load", ()), _case(5 * _M, 0), "frazil", "spark-once", phase="load")
            ),
        ),
        *(_peak(millions) for millions in (5, 20)),
        *_soak("frazil-current", "format 2"),
        *_soak("frazil-current-v3", "format 3"),
        *_soak("frazil-guarded", "batches compared with all before"),
        Bar(
            what="100 small tables in one warm run: wall a table",
            limit=0.6,
            at_least=False,
            unit="s",
            measure=_many,
        ),
        Bar(
            what="Process start to published tables, against a bare Spark session",
            limit=3,
            at_least=False,
            measure=lambda works: _start(works.get("start", ())),
        ),
        Bar(
            what="Warm watch, from file to readable row",
            limit=3,
            at_least=False,
            unit="s",
            measure=lambda works: middle(works.get("watch", ()), "wall_s"),
        ),
    )


def _current(what: str, case: tuple[Any, ...], theirs: str, limit: float, *, field: str = "cpu_s") -> tuple[Bar, Bar]:
    """Two readings of one bar: the marts' part alone, and the whole way from the files, which is what others do."""
    return (
        _less(f"{what}, the marts' part", case, _APPLY, theirs, limit, field=field),
        _less(f"{what}, from the files on", case, "frazil-current", theirs, limit, field=field),
    )


def _less(
    what: str, case: tuple[Any, ...], ours: str, theirs: str, limit: float, *, field: str = "cpu_s", work: str = "apply"
) -> Bar:
    return Bar(
        what=what,
        limit=limit,
        at_least=True,
        measure=lambda works: times_less(works.get(work, ()), case, ours, theirs, field=field),
    )


def _growth(what: str, keys: str, limit: float) -> Bar:
    def measure(works: Rows) -> float | None:
        small, large = (
            middle(_of(works.get("apply", ()), _case(rows * _M, 10_000, keys), _APPLY), "cpu_s") for rows in (5, 20)
        )
        return large / small if small and large is not None else None

    return Bar(what=what, limit=limit, at_least=False, measure=measure)


def _soak(name: str, form: str) -> tuple[Bar, ...]:
    def series(works: Rows, field: str) -> list[float]:
        rows = [row for row in works.get("soak", ()) if name_of(row) == name and row["phase"] == "apply"]
        return [row[field] for row in sorted(rows, key=lambda row: row["batch"])]

    def drift(field: str) -> Callable[[Rows], float | None]:
        def measure(works: Rows) -> float | None:
            numbers = series(works, field)
            return median(numbers[-_WINDOW:]) / median(numbers[:_WINDOW]) if len(numbers) >= 2 * _WINDOW else None

        return measure

    def leak(works: Rows) -> float | None:
        numbers = series(works, "rss_bytes")
        half = len(numbers) // 2
        return median(numbers[-_WINDOW:]) / median(numbers[half:][:_WINDOW]) if half >= 2 * _WINDOW else None

    def reading(works: Rows) -> float | None:
        rows = [row for row in works.get("soak", ()) if row["contender"] == name]
        here, copy = (
            middle((row for row in rows if row["phase"] == phase), "cpu_s") for phase in ("read", "read-copy")
        )
        return here / copy if copy and here is not None else None

    return (
        Bar(
            what=f"Soak, {form}: CPU of the last ten batches, against the first ten",
            limit=1.2,
            at_least=False,
            measure=drift("cpu_s"),
        ),
        Bar(what="… memory", limit=1.1, at_least=False, measure=drift("rss_bytes")),
        Bar(what="… memory, against the ten after the fiftieth", limit=1.05, at_least=False, measure=leak),
        Bar(what="… reading, against a fresh copy", limit=1.3, at_least=False, measure=reading),
    )


def _many(works: Rows) -> float | None:
    rows = [row for row in works.get("many", ()) if row["tables"] == 100 and row["phase"] == "apply"]
    run = middle((row for row in rows if name_of(row) == "frazil-current"), "wall_s")
    return None if run is None else run / 100


def _start(rows: Sequence[Row]) -> float | None:
    ours, bare = (
        middle((row for row in rows if row["contender"] == name), "wall_s")
        for name in ("frazil-command", "bare-session")
    )
    return ours / bare if bare and ours is not None else None


def _peak(millions: int) -> Bar:
    def measure(works: Rows) -> float | None:
        loads = _of(works.get("load", ()), _case(millions * _M, 0), "frazil")
        seen = [row["peak_bytes"] for row in loads if row["phase"] == "load"]
        return max(seen) / 2**30 if seen else None

    return Bar(
        what=f"… peak memory at {millions} M rows, 2 GiB heap", limit=3.0, at_least=False, unit="GiB", measure=measure
    )


def _of(rows: Sequence[Row], case: tuple[Any, ...], name: str) -> list[Row]:
    return [
        row
        for row in rows
        if case_of(row) == case and name_of(row) == name and row["phase"] in {"apply", "load"} and row["right"]
    ]


def _case(rows: int, changes: int, keys: str = "mixed") -> tuple[Any, ...]:
    return (rows, changes, keys, 0.0, 9, 1)


def _share(times: float | None) -> float | None:
    """Percentage of a whole that is more than a part of it, where the whole is so many times that part."""
    return None if times is None else 100 * (1 - 1 / times)


def _inverse(ratio: float | None) -> float | None:
    return 1 / ratio if ratio else None


BARS: Final = bars()
"""All bars, in the order of the docs."""
