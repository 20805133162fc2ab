"""Contents of the quarantine: counts by rule, and records with their reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from frazil.bronze import record as r
from frazil.catalog.catalogs import NoLakeError
from frazil.catalog.trouble import translated
from frazil.duck import cursor, duck_literal, scan
from frazil.errors import FrazilError
from frazil.serve.layers import layers
from frazil.serve.tables import read_snapshot, tables, verify_manifests
from frazil.silver.changes import CAST
from frazil.spec.sql.select import source_table
from frazil.spec.tables import source_tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

    from frazil.catalog.catalogs import Located
    from frazil.spec import Pipeline, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRule:
    """A rule that records of a table break.

    Attributes:
        table: the source table.
        rule: name such as ``cast``, ``null_key`` or ``not_null``.
        column: column of the rule; None for a record as a whole.
        records: number of records that break it. A record that breaks several rules counts for the first one.
        first_batch, last_batch: batches of the first and the last of these records.
        example: reason of the last record.
    """

    table: str
    rule: str
    column: str | None
    records: int
    first_batch: int
    last_batch: int
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRecord:
    """A record in quarantine.

    Attributes:
        file, row: its place.
        position: decides, with ``row``, the order of its change.
        batch: batch in which it arrived.
        rule, reason, column: the broken rule, and how; ``column`` is None for a record as a whole.
        raw: the record as text; its exact bytes are in bronze.
    """

    file: str
    row: int
    position: str
    batch: int
    rule: str
    reason: str
    column: str | None
    raw: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """Contents of the quarantine.

    Attributes:
        rules: broken rules, those with most records first.
        records: records of one table, newest batch first; empty if no table is given.
        retyped: table -> why its records wait for columns of another type, with the ways out.
    """

    rules: tuple[BrokenRule, ...]
    records: tuple[QuarantinedRecord, ...] = ()
    retyped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


Place: TypeAlias = tuple[int, str, int]
"""Batch, file and row of a record."""


def quarantine(
    pipeline: Pipeline,
    table: str | None = None,
    *,
    limit: int = 20,
    rule: str | None = None,
    after: Place | None = None,
) -> Quarantine:
    """Return the contents of the quarantine.

    Args:
        pipeline: the declaration.
        table: a source table, or one of its marts, for its rules and records; None for the rules of all tables.
        limit: maximum number of records.
        rule: only records that break this rule; None for all.
        after: only records after this one, for pages; None from the first.

    Raises:
        UnknownSelectionError: the table does not exist, or the word means several.
        NoLakeError: no table of the lake exists.
        DamagedTableError: a file of a quarantine is missing or damaged.

    Cost: one scan of each quarantine for its rules, which this process then knows, and one for the records; no file of
    a table without bad records is opened.
    """
    chosen = pipeline.tables if table is None else (source_table(pipeline, table),)
    names = {source_tables(pipeline, one).quarantine.key: one.name for one in chosen}
    located = tables(pipeline, only=names)
    if not located and not tables(pipeline):
        raise NoLakeError(pipeline.lake.warehouse)
    filled = {key: located[key] for key in names if key in located and read_snapshot(located[key]).records}
    rules: list[BrokenRule] = []
    found: list[QuarantinedRecord] = []
    for location in filled.values():
        verify_manifests(location)
    with translated(pipeline), cursor(filled, {}) as duck:
        for key, location in filled.items():
            rules += _rules(duck, names[key], location)
            found += _records(duck, location, limit, rule, after) if table is not None else []
    told = {name: retyped(pipeline, source_table(pipeline, name)) for name in sorted(_uncast(rules))}
    return Quarantine(
        rules=tuple(sorted(rules, key=lambda rule: -rule.records)),
        records=tuple(found),
        retyped={name: texts for name, texts in told.items() if texts},
    )


def _uncast(rules: Sequence[BrokenRule]) -> set[str]:
    return {rule.table for rule in rules if rule.rule == CAST}


def retyped(pipeline: Pipeline, table: Table, located: Located | None = None) -> tuple[str, ...]:
    """Return why records of a table wait in quarantine for columns of another type, with the ways out.

    Args:
        pipeline: the declaration.
        table: one of its tables.
        located: the tables of the lake, if the caller has them.

    Returns:
        One text for each column; empty too if the declaration does not fit the lake.
    """
    made = source_tables(pipeline, table)
    try:
        if located is None:
            located = tables(pipeline, only={one.key for one in (made.bronze, made.changes, made.quarantine)})
        return tuple(layers(pipeline, table, located).retyped)
    except FrazilError:
        return ()


_KNOWN: Final = 1_000
_known: dict[str, tuple[BrokenRule, ...]] = {}
"""Broken rules by the address of a quarantine's metadata file, whose rows never change."""


def _rules(duck: duckdb.DuckDBPyConnection, table: str, location: str) -> tuple[BrokenRule, ...]:
    found = _known.get(location)
    if found is None:
        found = tuple(_counted(duck, table, location))
        while len(_known) >= _KNOWN:
            _known.pop(next(iter(_known)), None)
        _known[location] = found
    return found


def _counted(duck: duckdb.DuckDBPyConnection, table: str, location: str) -> list[BrokenRule]:
    rows = duck.execute(
        f'SELECT rule, "column", count(*), min({r.BATCH}), max({r.BATCH}), '
        f"arg_max(reason, ({r.BATCH}, {r.FILE}, {r.ROW})) FROM {scan(location)} GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    return [
        BrokenRule(
            table=table, rule=rule, column=column, records=count, first_batch=first, last_batch=last, example=example
        )
        for rule, column, count, first, last, example in rows
    ]


def _records(
    duck: duckdb.DuckDBPyConnection, location: str, limit: int, rule: str | None, after: Place | None
) -> list[QuarantinedRecord]:
    # Literals, not parameters: for a parameter DuckDB imports pandas, which takes a second.
    wanted: list[str] = ["true"]
    if rule is not None:
        wanted = [f"rule = {duck_literal(rule)}"]
    if after is not None:
        batch, file, row = after
        same, later = f"{r.FILE} = {duck_literal(file)}", f"{r.FILE} > {duck_literal(file)}"
        place = f"({later} OR ({same} AND {r.ROW} > {int(row)}))"
        wanted.append(f"({r.BATCH} < {int(batch)} OR ({r.BATCH} = {int(batch)} AND {place}))")
    order = f"ORDER BY {r.BATCH} DESC, {r.FILE}, {r.ROW}"
    # The places first: texts of records are most of a quarantine, and a page has few of them.
    places = duck.execute(
        f"SELECT {r.BATCH}, {r.FILE}, {r.ROW} FROM {scan(location)} WHERE {' AND '.join(wanted)} {order} "
        f"LIMIT {int(limit)}"
    ).fetchall()
    if not places:
        return []
    batches, files, numbers = ({*values} for values in zip(*places, strict=True))
    wanted.append(f"{r.BATCH} IN ({', '.join(map(str, batches))}) AND {r.ROW} IN ({', '.join(map(str, numbers))})")
    wanted.append(f"{r.FILE} IN ({', '.join(map(duck_literal, sorted(files)))})")
    rows = duck.execute(
        f'SELECT {r.FILE}, {r.ROW}, {r.POSITION}, {r.BATCH}, rule, reason, "column", raw FROM {scan(location)} '
        f"WHERE {' AND '.join(wanted)} {order}"
    ).fetchall()
    chosen = {*places}
    rows = [row for row in rows if (row[3], row[0], row[1]) in chosen][:limit]
    return [
        QuarantinedRecord(
            file=file, row=row, position=position, batch=batch, rule=rule, reason=reason, column=column, raw=raw
        )
        for file, row, position, batch, rule, reason, column, raw in rows
    ]
