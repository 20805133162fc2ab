"""``frazil status TABLE``: the columns of a table, and the layouts of its source's files."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.catalog.catalogs import NoLakeError
from frazil.catalog.trouble import translated
from frazil.duck import connect
from frazil.errors import FrazilError, SchemaError, SourceError
from frazil.serve.layers import layers
from frazil.serve.tables import read_snapshot, tables, verify_manifests
from frazil.silver.contract import MissingFieldError, settle
from frazil.silver.evolution import evolved, later_fields, renamed_bookmark, renamed_fields
from frazil.sources.capture import LeavesOutColumns
from frazil.sources.kinds import source_of
from frazil.spec import EmbeddedCatalog
from frazil.spec.load.problem import Problem
from frazil.spec.sql.select import source_table
from frazil.spec.tables import source_tables

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import duckdb

    from frazil.catalog.catalogs import Located
    from frazil.serve.layers import Layers
    from frazil.silver.contract import Contract
    from frazil.spec import Column, Pipeline, Table

Field = tuple[str, str]
"""Name and type of a field."""

_LAYOUTS: Final = """
WITH files AS (
    SELECT {file} AS file, {position} AS position, {batch} AS batch, {arrived} AT TIME ZONE 'UTC' AS arrived,
        {ledger}.columns AS columns
    FROM {bronze} WHERE {kind} = '{is_file}' AND {ledger}.same_as IS NULL AND len({ledger}.columns) > 0
)
SELECT file, batch, arrived, columns FROM files
QUALIFY columns IS DISTINCT FROM lag(columns) OVER (ORDER BY position, file) ORDER BY position, file"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column of silver and the marts.

    Attributes:
        name: name of the column.
        type: its type in silver; a mart that is behind may have a narrower type.
        comes_from: ``field``, ``expr``, or ``source`` for a value that the source makes for each record.
        is_declared: whether the declaration names it; otherwise it follows the source.
        since_batch: batch that first had its youngest field; 1 for original fields.
    """

    name: str
    type: str
    comes_from: str
    is_declared: bool
    since_batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """The first file of a new layout, in the order of the source.

    Attributes:
        file: path of the file.
        batch: batch in which it arrived.
        arrived_at: when Frazil ingested it.
        added: fields that the file before it lacks.
        removed: fields of the file before that it lacks.
        retyped: name, type before and type now of changed fields.
        fields: number of its fields.
    """

    file: str
    batch: int
    arrived_at: dt.datetime
    added: tuple[Field, ...] = ()
    removed: tuple[str, ...] = ()
    retyped: tuple[tuple[str, str, str], ...] = ()
    fields: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """The schema of a source table.

    Attributes:
        table: the source table.
        columns: columns of silver and the marts, in order.
        changes: layouts of the source's files, including the first one.
        undeclared: fields in bronze that no column reads.
        left_out: columns at the server that no file has, such as generated columns.
    """

    table: str
    columns: tuple[TableColumn, ...]
    changes: tuple[SchemaChange, ...]
    undeclared: tuple[Field, ...]
    left_out: tuple[str, ...] = ()


def schema(pipeline: Pipeline, table: str) -> TableSchema:
    """Return the columns of a table, and the layouts of its source's files.

    Args:
        pipeline: the declaration.
        table: a source table, or one of its marts.

    Raises:
        UnknownSelectionError: the table does not exist.
        NoLakeError: no layer of the table exists.
        DamagedTableError: a file of bronze is missing or damaged.

    Cost: one scan of the ledger of files.
    """
    declared = source_table(pipeline, table)
    located = tables(pipeline)
    with translated(pipeline), connect(located) as duck:
        here = layers(pipeline, declared, located)
        if not here.bronze.exists:
            raise NoLakeError(here.bronze.name)
        if here.bronze.damage is not None:
            raise here.bronze.damage
        verify_manifests(here.bronze.location or "")
        changes = tuple(_changes(duck, here))
    bookmark = renamed_bookmark(declared, here.bronze.snapshot.bookmark)
    fields: Mapping[str, str] = bookmark.get("fields", {})
    since = {name.lower(): batch for name, batch in bookmark.get("since", {}).items()}
    contract = here.contract
    names, lower = {column.name for column in declared.columns or ()}, {*map(str.lower, fields)}
    columns = tuple(
        TableColumn(
            name=column.name,
            type=column.type,
            comes_from=_origin(column, lower, is_declared=column.name in names),
            is_declared=column.name in names,
            since_batch=max((since.get(field, 1) for field in contract.needs(column)), default=1),
        )
        for column in contract.columns
    )
    taken = {field for column in contract.columns for field in contract.needs(column)}
    rest = tuple(
        (name, kind)
        for name, kind in fields.items()
        if name.lower() not in taken and not declared.source.is_bookkeeping(name)
    )
    source = source_of(declared)
    left_out = source.left_out(pipeline.folder) if isinstance(source, LeavesOutColumns) else ()
    return TableSchema(table=declared.name, columns=columns, changes=changes, undeclared=rest, left_out=left_out)


def _origin(column: Column, fields: Collection[str], *, is_declared: bool) -> str:
    if is_declared and column.expr is not None:
        return "expr"
    # An undeclared column is a field, renamed if a mart adds a column of the same name.
    return "field" if not is_declared or column.name.lower() in fields else "source"


def _changes(duck: duckdb.DuckDBPyConnection, here: Layers) -> Iterable[SchemaChange]:
    names = {"file": r.FILE, "position": r.POSITION, "batch": r.BATCH, "arrived": r.ARRIVED_AT, "ledger": r.LEDGER}
    sql = _LAYOUTS.format(**names, bronze=here.bronze.rows, kind=r.KIND, is_file=r.LEDGER_ROW)
    before: dict[str, str] = {}
    for file, batch, arrived, columns in duck.execute(sql).fetchall():
        now = {one["name"]: one["type"] for one in columns}
        yield SchemaChange(
            file=file,
            batch=batch,
            arrived_at=arrived.replace(tzinfo=dt.UTC),
            added=tuple((name, kind) for name, kind in now.items() if before and name not in before),
            removed=tuple(name for name in before if name not in now),
            retyped=tuple((name, before[name], kind) for name, kind in now.items() if before.get(name, kind) != kind),
            fields=len(now),
        )
        before = now


MOST_FILES: Final = 200
"""The fields of a source with more files are unknown: only a scan of all files could find a missing field."""


def known_sources(pipeline: Pipeline) -> tuple[dict[str, Contract], list[Problem]]:
    """Resolve the contract of every table, from the headers of its source's files and the fields in the lake.

    Returns:
        Table -> contract, and the problems found. A table has no contract if its files are too many or unreadable, or
        if its catalog is a service. Problems are missing places, files in another form than declared, and declared
        columns without a field.

    Cost: reads the header of each file, at most ``MOST_FILES`` a table.
    """
    is_read, located = isinstance(pipeline.lake.catalog, EmbeddedCatalog), {}
    if is_read:
        with suppress(FrazilError):
            located = tables(pipeline)
    contracts: dict[str, Contract] = {}
    problems = []
    for index, table in enumerate(pipeline.tables):
        try:
            contract = _contract(pipeline, table, located if is_read else None)
        except (SourceError, SchemaError) as error:
            place = "columns" if isinstance(error, SchemaError) else "source"
            problems.append(Problem(("tables", index, place), error.message, error.hint))
        except FrazilError:
            continue  # an unreachable store or catalog is not a problem of the declaration
        else:
            contracts |= {} if contract is None else {table.name: contract}
    return contracts, problems


def _contract(pipeline: Pipeline, table: Table, located: Located | None) -> Contract | None:
    source, made = source_of(table), source_tables(pipeline, table)
    listed = source.list(pipeline.folder).files
    named = [source.named_fields(file) for file in listed[:MOST_FILES]]
    if located is None or len(listed) > MOST_FILES or None in named:
        return None
    bronze, silver = (read_snapshot(located.get(one.key)).bookmark for one in (made.bronze, made.changes))
    files = [fields for fields in named if fields is not None]
    called = renamed_fields(table, source.known_fields(bronze.get("fields", {}), files))
    if not called:
        return None
    known = bronze if bronze.get("fields") else {**bronze, "later": later_fields(files)}
    now = evolved(table, renamed_bookmark(table, known), silver, called)
    try:
        return settle(table, called, now)
    except MissingFieldError as error:
        error.hint = source.advice(files) or error.hint
        raise
