"""``frazil test``: the rules of contracts on the rows of marts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import duckdb

from frazil.catalog.catalogs import NoLakeError
from frazil.catalog.trouble import translated
from frazil.duck import connect, duck_literal, identifier
from frazil.errors import ContractError
from frazil.serve.check.marts import known_rows, living_rows_sql
from frazil.serve.check.table_rules import OF_VERSIONS, TableLook, unique_versions
from frazil.serve.layers import layers
from frazil.serve.tables import tables, verify_data_files
from frazil.silver.rules import breaks, row_rules
from frazil.spec import Current, History
from frazil.spec.model.column import TABLE_RULES
from frazil.spec.sql.names import backslashes
from frazil.spec.sql.select import selected

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime

    from frazil.catalog.catalogs import Located
    from frazil.serve.layers import Layer, Layers
    from frazil.silver.rules import RowRule
    from frazil.spec import Pipeline, Table
    from frazil.spec.model.column import OnViolation

_SHOWN: Final = 3
"""Number of keys shown for a broken rule."""

_NOT_DUCKDB: Final = (
    duckdb.ParserException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.InvalidInputException,
)
"""Errors of DuckDB for a Spark expression or a pattern that it does not support."""

_TYPES: Final = {"timestamp": "timestamptz", "timestamp_ntz": "timestamp"}


class RulesBrokenError(ContractError):
    """``test`` found rows that break rules."""

    code = "FZ404"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTest:
    """Result of one rule on one mart.

    Attributes:
        source_table: the source table.
        table: the tested mart.
        rule: name of the rule.
        column: column of the rule; None for a rule over several columns, or over the whole mart.
        on_violation: as declared; for freshness, the outcome for its age.
        rows: number of tested rows.
        broken: number of rows that break the rule; 1 if the whole mart breaks it; None if the rule cannot be tested.
        detail: the first keys that break the rule, how the mart breaks it, or why it cannot be tested.
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
        """Whether the rule holds; None if a broken rule only warns, or if the rule cannot be tested."""
        if self.broken is None:
            return None
        return True if not self.broken else None if self.on_violation == "warn" else False


class Duck:
    """DuckDB's SQL: a :class:`frazil.silver.rules.Dialect`."""

    def name(self, column: str) -> str:
        """Return a quoted column name."""
        return identifier(column)

    def text(self, value: str) -> str:
        """Return a text literal."""
        return duck_literal(value)

    def typed(self, value: str, type_name: str) -> str:
        """Return a literal of a type."""
        return f"CAST({duck_literal(value)} AS {_TYPES.get(type_name, type_name)})"

    def finds(self, text: str, pattern: str) -> str:
        """Return the condition that a text contains a match of a pattern."""
        return f"regexp_matches({text}, {pattern})"


def test_rules(pipeline: Pipeline, select: Sequence[str] = (), *, now: datetime) -> list[RuleTest]:
    """Test the rules of tables on the rows of their marts.

    Row rules are tested on the living rows of a table's first current mart, and on all versions of each history. A
    history is also tested by the rules of the columns that it adds. Rules of whole marts are tested on living rows,
    which are equal in all marts.

    Args:
        pipeline: the declaration.
        select: tables, as for a run; empty for all.
        now: the time that freshness is measured from.

    Returns:
        A result for each rule, in the order of the declaration. Tables without rules or marts have no results.

    Raises:
        NoLakeError: no table of the lake exists.
        DamagedTableError: a file of a mart is missing or damaged.

    Cost: one scan of the columns that row rules read, and one more for the keys of each broken rule. If DuckDB rejects
    a rule, one scan for each rule. Each rule of a whole mart scans the columns that it names, also in the mart that it
    references; freshness without a column scans bronze's arrival times.
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


def test_freshness(pipeline: Pipeline, names: Collection[str], *, now: datetime) -> list[RuleTest]:
    """Test only the rules on freshness of some tables.

    Args:
        pipeline: the declaration.
        names: source tables.
        now: the time that freshness is measured from.

    Returns:
        As :func:`test_rules`; empty without a lake.

    Cost: nothing without such rules; else a scan of each named column, or of bronze's arrival times.
    """
    chosen = [one for one in pipeline.tables if one.name in names and any(rule.freshness for rule in one.rules)]
    located = tables(pipeline, of_others=True) if chosen else {}
    if not located:
        return []
    with translated(pipeline), connect(located) as duck:
        looks = [_look(layers(pipeline, table, located), pipeline, located, duck, now) for table in chosen]
        return [one for look in looks if look is not None for one in _of_mart(look, {"freshness"})]


def _look(
    here: Layers, pipeline: Pipeline, located: Located, duck: duckdb.DuckDBPyConnection, now: datetime
) -> TableLook | None:
    """Return the look at the mart that the rules of a table are tested on; None before its first batch."""
    pairs = [pair for pair in here.marts if pair[1].exists]
    if not pairs or not here.bronze.exists:
        return None
    mart, layer = next((pair for pair in pairs if isinstance(pair[0], Current)), pairs[0])
    rows = living_rows_sql(mart, layer)
    return TableLook(duck=duck, pipeline=pipeline, located=located, here=here, layer=layer, rows=rows, now=now)


def _of_mart(look: TableLook, kinds: Collection[str] = TABLE_RULES) -> Iterator[RuleTest]:
    """Test the rules of a whole mart."""
    for rule, verdict in look.verdicts(kinds):
        yield RuleTest(
            source_table=look.here.table.name,
            table=look.layer.name,
            rule=rule.name,
            column=rule.columns[0] if len(rule.columns) == 1 else None,
            on_violation=verdict.on_violation or rule.on_violation,
            rows=verdict.rows,
            broken=verdict.broken,
            detail=verdict.detail,
        )


def _of_table(
    pipeline: Pipeline, table: Table, located: Located, duck: duckdb.DuckDBPyConnection, now: datetime
) -> Iterator[RuleTest]:
    here = layers(pipeline, table, located)
    look, rules = _look(here, pipeline, located, duck, now), row_rules(here.contract)
    if look is None or not (rules or here.contract.rules):
        return
    histories = [
        (layer, known_rows(mart, layer)) for mart, layer in here.marts if layer.exists and isinstance(mart, History)
    ]
    tested = (look.layer, *(history for history, _ in histories))
    for one in (here.bronze, *tested):
        if one.damage is not None:
            raise one.damage
    for one in {id(one): one for one in tested}.values():
        verify_data_files(one.location or "")
    if any(layer is look.layer and isinstance(mart, Current) for mart, layer in here.marts):
        yield from _Tester(duck, table, look.layer, look.rows).results(rules)
    yield from _of_mart(look)
    for history, known in histories:
        yield from _of_history(replace(look, layer=history, rows=f"{known} WHERE true"), rules)


def _of_history(look: TableLook, rules: Sequence[RowRule]) -> Iterator[RuleTest]:
    """Test the row rules and the rules of a history's own columns, on all versions that are known today."""
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
    """Tests row rules; ``rows`` is a FROM clause that ends in a condition."""

    duck: duckdb.DuckDBPyConnection
    table: Table
    layer: Layer
    rows: str

    def results(self, rules: Sequence[RowRule]) -> Iterator[RuleTest]:
        """Yield the result of each rule."""
        present = {name.lower() for name in self.layer.snapshot.columns}
        missing = {rule: name for rule in rules for name in rule.columns if name.lower() not in present}
        known = [rule for rule in rules if rule not in missing]
        try:
            counts: dict[RowRule, tuple[int, int] | str] = dict(zip(known, self._counts(known), strict=True))
        except _NOT_DUCKDB:
            # DuckDB rejects at least one rule; only one by one shows which.
            counts = {rule: self._alone(rule) for rule in known}
        counts |= {rule: f"{self.layer.name} has no column {name} yet" for rule, name in missing.items()}
        for rule in rules:
            yield self._result(rule, counts[rule])

    def _counts(self, rules: Sequence[RowRule]) -> list[tuple[int, int]]:
        """Return the number of rows, and of rows that break it, for each rule."""
        broken = "".join(f", count(*) FILTER (WHERE {_broken(rule)})" for rule in rules)
        [(count, *found)] = self.duck.execute(f"SELECT count(*){broken} FROM {self.rows}").fetchall()
        return [(count, one) for one in found]

    def _alone(self, rule: RowRule) -> tuple[int, int] | str:
        try:
            [found] = self._counts([rule])
        except _NOT_DUCKDB as error:
            return f"DuckDB cannot test it: {f'{error}'.strip().splitlines()[0]}"
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
        """Return the first keys of rows that break a rule, as text."""
        keys = ", ".join(map(identifier, self.table.keys))
        sql = f"SELECT {keys} FROM {self.rows} AND {_broken(rule)} ORDER BY ALL LIMIT {_SHOWN}"
        named = [zip(self.table.keys, row, strict=True) for row in self.duck.execute(sql).fetchall()]
        return "; ".join(", ".join(f"{name} = {value}" for name, value in row) for row in named)


def _broken(rule: RowRule) -> str:
    """Return the condition that a row breaks a rule, in DuckDB's SQL."""
    if rule.expr is None:
        return breaks(rule, Duck())
    from sqlglot import transpile  # noqa: PLC0415 - only rules with expressions need it

    [expr] = transpile(backslashes(rule.expr), read="spark", write="duckdb")
    return f"coalesce(NOT TRY(({expr})::boolean), false)"
