"""Count what a run did to a mart in plain Python, from the rows before and after it and its changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from frazil.runner.report import RunReport

    Row = Mapping[str, Any]


class Counts(NamedTuple):
    """The counts of a ``MartReport``."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    late: int = 0


@dataclass(frozen=True)
class Picture:
    """The rows of silver, and of each mart by name, at one time."""

    changes: list[Row]
    marts: Mapping[str, list[Row]]

    @classmethod
    def of(cls, session: SparkSession, table: str, marts: Iterable[str]) -> Picture:
        """Read all rows; a missing table is empty."""

        def rows(name: str) -> list[Row]:
            found: list[Row] = session.table(name).toArrow().to_pylist() if session.catalog.tableExists(name) else []
            return found

        return cls(rows(f"lake.silver.{table}_changes"), {mart: rows(f"lake.marts.{mart}") for mart in marts})

    def where(self, name: str, value: object) -> Picture:
        """Keep the rows with a value in a column."""

        def only(rows: Iterable[Row]) -> list[Row]:
            return [row for row in rows if row[name] == value]

        return Picture(only(self.changes), {mart: only(rows) for mart, rows in self.marts.items()})


def reported(report: RunReport) -> dict[str, Counts]:
    """Give what a run reports of each mart."""
    marts = (mart for table in report.tables for mart in table.marts)
    return {mart.mart: Counts(mart.inserted, mart.updated, mart.deleted, mart.late) for mart in marts}


def counted(before: Picture, after: Picture, keys: Sequence[str], sequence_by: Sequence[str]) -> dict[str, Counts]:
    """Count what became of each mart's keys between two pictures."""
    order = (*sequence_by, "_cdc_position", "_cdc_row")
    late = _late(before, after, keys, order)
    found = {}
    for mart, rows in after.marts.items():
        old, new = (_living(some, keys, order) for some in (before.marts[mart], rows))
        found[mart] = Counts(
            inserted=len(new.keys() - old.keys()),
            updated=sum(old[key] != new[key] for key in old.keys() & new.keys()),
            deleted=len(old.keys() - new.keys()),
            late=late,
        )
    return found


def _living(rows: Iterable[Row], keys: Sequence[str], order: Sequence[str]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return the change that each living key represents."""
    living = [row for row in rows if row.get("is_current", True) and not row.get("is_deleted")]
    found = {_values(row, keys): _values(row, order) for row in living}
    assert len(found) == len(living)
    return found


def _late(before: Picture, after: Picture, keys: Sequence[str], order: Sequence[str]) -> int:
    since = max((change["_cdc_batch"] for change in before.changes), default=0)
    held: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for change in after.changes:
        if change["_cdc_batch"] <= since:
            key, at = _values(change, keys), _values(change, order)
            held[key] = max(held.get(key, at), at)
    new = [change for change in after.changes if change["_cdc_batch"] > since]
    return sum(_values(change, order) <= held[key] for change in new if (key := _values(change, keys)) in held)


def _values(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)
