"""Rules of whole marts: unique, references, row_count and freshness.

Dates and times without a zone are in UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from frazil.bronze import record as r
from frazil.duck import identifier
from frazil.serve.check.marts import living_rows_sql
from frazil.serve.layers import layers
from frazil.serve.tables import verify_data_files
from frazil.silver.rules import NOT_NULL, RowRule
from frazil.spec.amount import counted
from frazil.spec.model.column import TABLE_RULES
from frazil.spec.sql.sql import mart_named, referenced_fields

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime

    import duckdb

    from frazil.catalog.catalogs import Located
    from frazil.serve.layers import Layer, Layers
    from frazil.spec import Freshness, Pipeline, References, RowCount, Rule
    from frazil.spec.model.column import OnViolation

_SHOWN: Final = 3
"""Number of keys shown for a broken rule."""

_COUNT: Final = "_cdc_rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Outcome of a rule on a mart; see :class:`frazil.serve.check.rules.RuleTest`.

    Attributes:
        on_violation: replaces the rule's own, if not None.
    """

    rows: int
    broken: int | None
    detail: str = ""
    on_violation: OnViolation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLook:
    """Tests the rules of whole marts on one mart.

    Attributes:
        here: the tables of the mart's source table.
        layer: the mart.
        rows: FROM clause for the mart's living rows; it ends in a condition.
        now: the time that freshness is measured from.
    """

    duck: duckdb.DuckDBPyConnection
    pipeline: Pipeline
    located: Located
    here: Layers
    layer: Layer
    rows: str
    now: datetime

    def verdicts(self, kinds: Collection[str] = TABLE_RULES) -> Iterator[tuple[Rule, Verdict]]:
        """Yield the outcome of each rule of some kinds, in the order of the declaration."""
        present = {name.lower() for name in self.layer.snapshot.columns}
        for rule in self.here.contract.rules:
            if not {*kinds} & {*rule.kinds}:
                continue
            missing = next((name for name in rule.columns if name.lower() not in present), None)
            if missing is not None:
                yield rule, Verdict(rows=0, broken=None, detail=f"{self.layer.name} has no column {missing} yet")
            elif rule.unique is not None:
                yield rule, self.unique(rule.unique)
            elif rule.references is not None:
                yield rule, self._references(rule.references)
            elif rule.row_count is not None:
                yield rule, self._row_count(rule.row_count)
            elif rule.freshness is not None:
                yield rule, self._freshness(rule.freshness)

    def unique(self, columns: Sequence[str]) -> Verdict:
        """Test that no two rows have equal values in some columns. Rows with NULL in one of them are not tested."""
        names = _names(columns)
        shared = f"FROM {self.rows} AND {_known(columns)} GROUP BY {names} HAVING count(*) > 1"
        (rows,) = self._one(f"SELECT count(*) FROM {self.rows}")
        (broken,) = self._one(f"SELECT coalesce(sum({_COUNT}), 0) FROM (SELECT count(*) AS {_COUNT} {shared})")
        among = f"({names}) IN (SELECT ({names}) {shared})" if broken else ""
        return Verdict(rows=rows, broken=int(broken), detail=self._keys(among))

    def _references(self, reference: References) -> Verdict:
        found = mart_named(self.pipeline, reference.to)
        if found is None:
            raise LookupError(reference.to)  # the declaration was checked
        table, mart = found
        there = layers(self.pipeline, table, self.located)
        other = next(layer for one, layer in there.marts if one == mart)
        (rows,) = self._one(f"SELECT count(*) FROM {self.rows}")
        fields = referenced_fields(reference, table)
        present = {name.lower() for name in other.snapshot.columns}
        if missing := [name for name in fields if other.exists and name.lower() not in present]:
            return Verdict(rows=rows, broken=None, detail=f"{other.name} has no column {missing[0]}")
        dangling = _known(reference.columns)
        if other.exists:
            verify_data_files(other.location or "")
            same = " AND ".join(
                f"o.{identifier(field)} = t.{identifier(name)}"
                for name, field in zip(reference.columns, fields, strict=True)
            )
            dangling += (
                f" AND NOT EXISTS (SELECT 1 FROM (SELECT * FROM {living_rows_sql(mart, other)}) AS o WHERE {same})"
            )
        (broken,) = self._one(f"SELECT count(*) FROM (SELECT * FROM {self.rows}) AS t WHERE {dangling}")
        return Verdict(rows=rows, broken=broken, detail=self._keys(dangling if broken else ""))

    def _row_count(self, bounds: RowCount) -> Verdict:
        (rows,) = self._one(f"SELECT count(*) FROM {self.rows}")
        too = [
            f"{counted(rows, 'row')}, {what} is {bound:,}"
            for what, bound, is_passed in (
                ("min", bounds.min, bounds.min is not None and rows < bounds.min),
                ("max", bounds.max, bounds.max is not None and rows > bounds.max),
            )
            if is_passed
        ]
        if bounds.min is None and bounds.max is None:
            return Verdict(rows=rows, broken=None, detail="judged when a batch is taken")
        return Verdict(rows=rows, broken=len(too), detail="".join(too))

    def _freshness(self, freshness: Freshness) -> Verdict:
        if freshness.column is None:
            sql, what = f"SELECT epoch(max({r.ARRIVED_AT})) FROM {self.here.bronze.rows}", "the last batch"
        else:
            sql, what = f"SELECT epoch(max({identifier(freshness.column)})) FROM {self.rows}", freshness.column
        (newest,) = self._one(sql)
        (rows,) = self._one(f"SELECT count(*) FROM {self.rows}")
        worst: OnViolation = "fail" if freshness.error_after is not None else "warn"
        if newest is None:
            return Verdict(rows=rows, broken=1, detail=f"no row has a {what}", on_violation=worst)
        seconds = self.now.timestamp() - newest
        for age, outcome in ((freshness.error_after, "fail"), (freshness.warn_after, "warn")):
            if age is not None and seconds > age.seconds:
                setting = "error_after" if outcome == "fail" else "warn_after"
                detail = f"{what} is {_aged(seconds)} old, {setting} is {age}"
                return Verdict(rows=rows, broken=1, detail=detail, on_violation="fail" if outcome == "fail" else "warn")
        return Verdict(rows=rows, broken=0, on_violation=worst)

    def _keys(self, condition: str) -> str:
        """Return the first keys of rows that meet a condition over the alias ``t``; empty without a condition."""
        if not condition:
            return ""
        keys = self.here.table.keys
        sql = (
            f"SELECT {_names(keys)} FROM (SELECT * FROM {self.rows}) AS t WHERE {condition} ORDER BY ALL LIMIT {_SHOWN}"
        )
        named = [zip(keys, row, strict=True) for row in self.duck.execute(sql).fetchall()]
        return "; ".join(", ".join(f"{name} = {value}" for name, value in row) for row in named)

    def _one(self, sql: str) -> tuple[Any, ...]:
        [row] = self.duck.execute(sql).fetchall()
        return tuple(row)


def _names(columns: Sequence[str]) -> str:
    return ", ".join(map(identifier, columns))


def _known(columns: Sequence[str]) -> str:
    return " AND ".join(f"{identifier(name)} IS NOT NULL" for name in columns)


def _aged(seconds: float) -> str:
    for unit, length in (("day", 86400), ("hour", 3600)):
        if seconds >= 2 * length:
            return counted(int(seconds // length), unit)
    return counted(int(seconds // 60), "minute")


OF_VERSIONS: Final = (
    # An event without a time does not break the table.
    RowRule(name=NOT_NULL, column="valid_from", columns=("valid_from",), on_violation="warn"),
    RowRule(name=NOT_NULL, column="is_current", columns=("is_current",), on_violation="fail"),
    RowRule(name=NOT_NULL, column="is_deleted", columns=("is_deleted",), on_violation="fail"),
    RowRule(
        name="current_is_open",
        column=None,
        columns=("is_current", "valid_to"),
        on_violation="fail",
        expr="is_current = (valid_to IS NULL)",
    ),
    # A version that a delete ends may be empty.
    RowRule(
        name="ends_after_it_begins",
        column=None,
        columns=("valid_from", "valid_to"),
        on_violation="fail",
        expr="valid_to IS NULL OR valid_from IS NULL OR valid_to >= valid_from",
    ),
)
"""Row rules of the columns that a history adds."""


def unique_versions(rows: str, keys: Sequence[str]) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Return the uniqueness rules of a history: rule name, FROM clause of the rows, and unique columns.

    Args:
        rows: FROM clause for all versions; it ends in a condition.
        keys: columns that identify a row of the source table.
    """
    return (
        # An empty version, which a delete leaves, begins at the same time as the next one.
        ("unique_version", f"{rows} AND coalesce(valid_to > valid_from, true)", (*keys, "valid_from")),
        ("one_current_version", f"{rows} AND is_current", (*keys,)),
    )
