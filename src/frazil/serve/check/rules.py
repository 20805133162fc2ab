"""``frazil test``: the rules of contracts over the rows that marts have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import duckdb

from frazil.catalog.catalogs import NoLakeError
from frazil.catalog.trouble import translated
from frazil.duck.database import connect
from frazil.duck.sql import identifier, literal
from frazil.errors import ContractError
from frazil.serve.check.marts import known_rows, living_rows
from frazil.serve.check.table_rules import TableLook
from frazil.serve.history_rules import OF_VERSIONS, unique_versions
from frazil.serve.tables.layers import layers
from frazil.serve.tables.manifests import verify_files
from frazil.serve.tables.tables import tables
from frazil.silver.rules import breaks, row_rules
from frazil.spec import Current, History
from frazil.spec.sql.names import backslashes
from frazil.spec.sql.select import selected

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from frazil.catalog.catalogs import Located
    from frazil.serve.tables.layers import Layer
    from frazil.silver.rules import RowRule
    from frazil.spec import Pipeline, Table
    from frazil.spec.model.rule import OnViolation

_SHOWN: Final = 3
"""Keys of rows that break a rule."""

_NOT_DUCKDB: Final = (
    duckdb.ParserException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.InvalidInputException,
)
"""What DuckDB raises for an expression of Spark that it has not, or a pattern."""

_TYPES: Final = {"timestamp": "timestamptz", "timestamp_ntz": "timestamp"}


class RulesBrokenError(ContractError):
    """``test`` found rows that break rules."""

    code = "FZ404"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTest:
    """What a rule says of a table.

    Attributes:
        source_table: the source table.
        table: the mart that was looked at.
        rule: name of the rule.
        column: whose rule it is; None for one over several columns, or none.
        on_violation: what is declared; of freshness what its age means.
        rows: rows that were looked at.
        broken: how many of them break it; 1 where it is the whole mart; None where that cannot be told.
        detail: keys of the first of them, in what the mart breaks it, or why nothing can be told.
    """

    source_table: str
    table: str
    rule: str
    column: str | None
    on_violation: OnViolation
    rows: int
    broken: int | None
    detail: str = ""

    @property
    def ok(self) -> bool | None:
        """Whether it is kept; None where it only warns, or cannot be told."""
        if self.broken is None:
            return None
        return True if not self.broken else None if self.on_violation == "warn" else False


class Duck:
    """DuckDB's SQL: a :class:`frazil.silver.rules.Dialect`."""

    def name(self, column: str) -> str:
        """Write the name of a column."""
        return identifier(column)

    def text(self, value: str) -> str:
        """Write a text."""
        return literal(value)

    def typed(self, value: str, type_name: str) -> str:
        """Write a value of a type."""
        return f"CAST({literal(value)} AS {_TYPES.get(type_name, type_name)})"

    def finds(self, text: str, pattern: str) -> str:
        """Write the condition that a pattern is found in a text."""
        return f"regexp_matches({text}, {pattern})"


def test_rules(pipeline: Pipeline, select: Sequence[str] = (), *, now: datetime) -> list[RuleTest]:
    """Test the rules of tables over the rows of their marts.

    Of several current marts the first is looked at: its living rows. Of each history all versions are, for the rules of
    rows and those of the columns that it adds; rules of whole marts are about living rows, which are the same in all.

    Args:
        pipeline: the declaration.
        select: tables, as for a run; all by default.
        now: what times are compared with where a rule says how fresh a mart is.

    Returns:
        A result for each rule, in the order of the declaration. A table without rules, or without marts, has none.

    Raises:
        NoLakeError: nothing was written yet.
        DamagedTableError: a file of a mart is missing or damaged.

    Cost: one scan of the columns that rules read, and another one for the keys of each that is broken. One for each
    rule where DuckDB cannot read one of them. For each rule of whole marts a scan of the columns that it names, here
    and in the mart that it refers to; of freshness without a column one of bronze's times.
    """
    names = selected(pipeline, select).tables
    located = tables(pipeline, of_others=True)
    if not located:
        raise NoLakeError(pipeline.lake.warehouse)
    with translated(pipeline), connect(located) as duck:
        return [
            result
            for table in pipeline.tables
            if table.name in names
            for result in _of_table(pipeline, table, located, duck, now)
        ]


def _of_table(
    pipeline: Pipeline, table: Table, located: Located, duck: duckdb.DuckDBPyConnection, now: datetime
) -> Iterator[RuleTest]:
    here = layers(pipeline, table, located)
    pairs = [pair for pair in here.marts if pair[1].exists]
    if not pairs or not here.bronze.exists:
        return
    rules = row_rules(here.contract)
    if not (rules or here.contract.rules):
        return
    mart, layer = next((pair for pair in pairs if isinstance(pair[0], Current)), pairs[0])
    histories = [(layer, known_rows(mart, layer)) for mart, layer in pairs if isinstance(mart, History)]
    tested = (layer, *(history for history, _ in histories))
    for one in (here.bronze, *tested):
        if one.damage is not None:
            raise one.damage
    for one in {id(one): one for one in tested}.values():
        verify_files(one.location or "")
    rows = living_rows(mart, layer)
    if isinstance(mart, Current):
        yield from _Tester(duck, table, layer, rows).results(rules)
    look = TableLook(duck=duck, pipeline=pipeline, located=located, here=here, layer=layer, rows=rows, now=now)
    for rule, verdict in look.verdicts():
        yield RuleTest(
            source_table=table.name,
            table=layer.name,
            rule=rule.name,
            column=rule.columns[0] if len(rule.columns) == 1 else None,
            on_violation=verdict.on_violation or rule.on_violation,
            rows=verdict.rows,
            broken=verdict.broken,
            detail=verdict.detail,
        )
    for history, known in histories:
        yield from _of_history(replace(look, layer=history, rows=f"{known} WHERE true"), rules)


def _of_history(look: TableLook, rules: Sequence[RowRule]) -> Iterator[RuleTest]:
    """Test the rules of rows, and those of the columns that a history adds, over all versions that are known."""
    table, layer = look.here.table, look.layer
    yield from _Tester(look.duck, table, layer, look.rows).results([*rules, *OF_VERSIONS])
    for name, rows, columns in unique_versions(look.rows, table.keys):
        verdict = replace(look, rows=rows).unique(columns)
        yield RuleTest(
            source_table=table.name,
            table=layer.name,
            rule=name,
            column=None,
            on_violation="fail",
            rows=verdict.rows,
            broken=verdict.broken,
            detail=verdict.detail,
        )


@dataclass(frozen=True, slots=True)
class _Tester:
    """Tests rules over ``rows``, what stands after FROM and ends in a condition."""

    duck: duckdb.DuckDBPyConnection
    table: Table
    layer: Layer
    rows: str

    def results(self, rules: Sequence[RowRule]) -> Iterator[RuleTest]:
        """Yield what each rule says."""
        present = {name.lower() for name in self.layer.snapshot.columns}
        missing = {rule: name for rule in rules for name in rule.columns if name.lower() not in present}
        known = [rule for rule in rules if rule not in missing]
        try:
            counts: dict[RowRule, tuple[int, int] | str] = dict(zip(known, self._counts(known), strict=True))
        except _NOT_DUCKDB:
            # Which of them DuckDB cannot read only shows one by one.
            counts = {rule: self._alone(rule) for rule in known}
        counts |= {rule: f"{self.layer.name} has no column {name} yet" for rule, name in missing.items()}
        for rule in rules:
            yield self._result(rule, counts[rule])

    def _counts(self, rules: Sequence[RowRule]) -> list[tuple[int, int]]:
        """Count all rows, and those that break each rule."""
        broken = "".join(f", count(*) FILTER (WHERE {_broken(rule)})" for rule in rules)
        [(count, *found)] = self.duck.execute(f"SELECT count(*){broken} FROM {self.rows}").fetchall()
        return [(count, one) for one in found]

    def _alone(self, rule: RowRule) -> tuple[int, int] | str:
        try:
            [found] = self._counts([rule])
        except _NOT_DUCKDB as error:
            return f"DuckDB cannot tell: {f'{error}'.strip().splitlines()[0]}"
        return found

    def _result(self, rule: RowRule, found: tuple[int, int] | str) -> RuleTest:
        rows, broken = (0, None) if isinstance(found, str) else found
        return RuleTest(
            source_table=self.table.name,
            table=self.layer.name,
            rule=rule.name,
            column=rule.column,
            on_violation=rule.on_violation,
            rows=rows,
            broken=broken,
            detail=found if isinstance(found, str) else self._keys(rule) if broken else "",
        )

    def _keys(self, rule: RowRule) -> str:
        """Show the first keys of rows that break a rule."""
        keys = ", ".join(map(identifier, self.table.keys))
        sql = f"SELECT {keys} FROM {self.rows} AND {_broken(rule)} ORDER BY ALL LIMIT {_SHOWN}"
        named = [zip(self.table.keys, row, strict=True) for row in self.duck.execute(sql).fetchall()]
        return "; ".join(", ".join(f"{name} = {value}" for name, value in row) for row in named)


def _broken(rule: RowRule) -> str:
    """Write the condition that a row breaks a rule, as DuckDB reads it."""
    if rule.expr is None:
        return breaks(rule, Duck())
    from sqlglot import transpile  # noqa: PLC0415 - rules without expressions do without it

    [expr] = transpile(backslashes(rule.expr), read="spark", write="duckdb")
    return f"coalesce(NOT TRY(({expr})::boolean), false)"
