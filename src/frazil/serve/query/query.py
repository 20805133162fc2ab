"""SQL over the lake by DuckDB, in UTC; results as rows, Arrow tables, pandas and Polars frames."""

from __future__ import annotations

import datetime as dt
import json
import re
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa

from frazil.bronze import record as r
from frazil.catalog.trouble import translate_error, translated
from frazil.duck import confine, duck_literal, identifier, open_database, scan
from frazil.errors import DeclarationError, SetupError
from frazil.iceberg.time_travel import PointError
from frazil.serve.query.plain import json_text, plain
from frazil.serve.query.stop import Stop
from frazil.serve.tables import snapshots_at, tables, verify_manifests
from frazil.spec import CATALOG
from frazil.spec.amount import html_lines, html_table
from frazil.spec.contract import added_columns
from frazil.spec.tables import source_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pandas as pd
    import polars as pl

    from frazil.catalog.catalogs import Located
    from frazil.spec import Pipeline


_ZONED: Final = "TIMESTAMP WITH TIME ZONE"
_LOCAL: Final = "TIMESTAMP"

Rows = list[tuple[Any, ...]]

_SHOWN: Final = 50
"""Rows that a notebook shows."""


class QueryError(DeclarationError):
    """A query cannot be run: it is not SQL, does not only read, or uses unknown names."""

    code = "FZ104"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result of a query.

    Attributes:
        columns: names in order; repeated names get the suffixes ``_1``, ``_2`` and so on.
        types: DuckDB's names of the types.
        rows: Python values; timestamps with a time zone are in UTC.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: Rows

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table, with the types that DuckDB gives them.

        Raises:
            QueryError: Arrow has no such type, or cannot hold a value.
        """
        try:
            return arrow_of(self.columns, self.types, self.rows)
        except NoArrowError as error:
            hint = "cast the column to VARCHAR, DECIMAL or TIMESTAMP"
            raise QueryError(f"Arrow cannot hold this result: {error}", hint=hint) from error

    def df(self) -> pd.DataFrame:
        """Return the rows as a pandas frame with Arrow's types."""
        return pandas_of(self.to_arrow())

    def pl(self) -> pl.DataFrame:
        """Return the rows as a Polars frame."""
        return polars_of(self.to_arrow())

    def _repr_html_(self) -> str:
        shown = [[value if value is None else plain(value) for value in row] for row in self.rows[:_SHOWN]]
        more = [f"{len(self.rows) - _SHOWN:,} more rows"] if self.rows[_SHOWN:] else []
        return html_table(self.columns, shown) + html_lines(more)


def query(
    pipeline: Pipeline, sql: str, *, limit: int | None = None, as_of: str | None = None, stop: Stop | None = None
) -> Result:
    """Run one read-only statement of DuckDB's SQL on the current tables, or on those of a point in the past.

    Args:
        pipeline: the declaration.
        sql: a SELECT, DESCRIBE, SUMMARIZE, SHOW TABLES or similar statement. Tables are named ``marts.hosts`` or
            ``lake.marts.hosts``. ``hosts`` alone is the first match in marts, gold, silver and bronze. All tables of a
            query are read as of its start.
        limit: maximum number of rows; None for all.
        as_of: a time, a snapshot, a cut or a batch, see :mod:`frazil.iceberg.time_travel`; None for now.
        stop: stops the query from another thread, or after a time; None to let it end by itself.

    Raises:
        QueryError: the text has several statements, one that does not only read, or one that DuckDB refuses; or the
            query was stopped.
        PointError: ``as_of`` is not a point, or a table has no snapshot of that point.
        NoLakeError: no table of the lake exists.
        DamagedTableError: a file of a table is missing or damaged.
    """
    with asked(pipeline, sql, limit, as_of, stop) as relation:
        return result_of(relation)


@contextmanager
def asked(
    pipeline: Pipeline, sql: str, limit: int | None = None, as_of: str | None = None, stop: Stop | None = None
) -> Iterator[duckdb.DuckDBPyRelation]:
    """Run a query as :func:`query` does; its rows can be fetched within the block."""
    located = tables(pipeline, of_others=True)
    names = sorted(".".join(path) for path in with_live_views(pipeline, located))
    _check_reading(sql, names)
    sql = _TABLES if _SHOW_TABLES.fullmatch(sql) else sql
    with translated(pipeline):
        connection = connect_views(pipeline, located, sql, as_of)
    stop = stop or Stop()
    try:
        with stop.watching(connection):
            relation = connection.sql(sql)
            yield relation if limit is None else relation.limit(limit)
    except duckdb.InterruptException:
        raise QueryError(stop.reason, hint="ask for fewer rows, or for one key") from None
    except duckdb.Error as error:
        if (known := translate_error(error, pipeline)) is not None:
            raise known from error
        raise _told(error, names) from None
    finally:
        connection.close()


def is_star(sql: str) -> bool:
    """Return whether the outermost SELECT is a plain ``*``, so that bookkeeping columns can be hidden."""
    with duckdb.connect() as parser:
        row = parser.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
    statements = json.loads(row[0] if row else "{}").get("statements", ())
    if len(statements) != 1 or statements[0]["node"]["type"] != "SELECT_NODE":
        return False
    # COLUMNS('...') is a star in the parse tree too, but it names its columns.
    return all(
        item["class"] == "STAR" and not item["columns"] and item["expr"] is None
        for item in statements[0]["node"]["select_list"]
    )


def without_bookkeeping(result: Result) -> Result:
    """Return a result without its ``_cdc_`` columns, unless it has no other columns."""
    kept = [place for place, name in enumerate(result.columns) if not name.startswith(r.PREFIX)]
    if not kept:
        return result
    return Result(
        columns=tuple(result.columns[place] for place in kept),
        types=tuple(result.types[place] for place in kept),
        rows=[tuple(row[place] for place in kept) for row in result.rows],
    )


def as_json(result: Result) -> str:
    """Return a result as a JSON array of objects, one a line, with values in the form of ``serve.query.plain``."""
    lines = (json_text(dict(zip(result.columns, row, strict=True))) for row in result.rows)
    body = ",\n  ".join(lines)
    return f"[\n  {body}\n]" if body else "[]"


def result_of(relation: duckdb.DuckDBPyRelation) -> Result:
    """Fetch all rows of a relation; its connection must be in UTC."""
    types = tuple(f"{kind}" for kind in relation.types)
    rows = [row for some in rows_of(relation, None) for row in some]
    return Result(columns=distinct(relation.columns), types=types, rows=rows)


def rows_of(relation: duckdb.DuckDBPyRelation, at_once: int | None) -> Iterator[Rows]:
    """Yield the rows of a relation in lists of ``at_once``, or in one list for None; its connection must be in UTC."""
    types = [f"{kind}" for kind in relation.types]
    in_utc = [_in_utc(kind) for kind in relation.types]
    if any(in_utc):
        # DuckDB returns zoned timestamps only with pytz; local timestamps in UTC need no library.
        relation = relation.project(
            ", ".join(
                f"CAST({identifier(name)} AS {kind.replace(_ZONED, _LOCAL)}) AS {identifier(name)}"
                if _ZONED in kind
                else identifier(name)
                for name, kind in zip(relation.columns, types, strict=True)
            )
        )
    while rows := relation.fetchall() if at_once is None else relation.fetchmany(at_once):
        if any(in_utc):
            rows = [
                tuple(value if convert is None else convert(value) for convert, value in zip(in_utc, row, strict=True))
                for row in rows
            ]
        yield rows
        if at_once is None:
            return


def _in_utc(kind: Any) -> Callable[[Any], Any] | None:
    """Return a function that restores the time zone in values of a type; None if the type has no time zone."""
    if _ZONED not in f"{kind}":
        return None
    match kind.id:
        case "timestamp with time zone":
            return _moment_in_utc
        case "list" | "array":
            item = _in_utc(dict(kind.children)["child"])
            return lambda values: values if values is None or item is None else [*map(item, values)]
        case "struct":
            parts = {name: _in_utc(part) for name, part in kind.children}
            return lambda value: (
                None
                if value is None
                else {name: convert(value[name]) if convert else value[name] for name, convert in parts.items()}
            )
        case "map":
            item = _in_utc(dict(kind.children)["value"])
            return lambda pairs: (
                pairs if pairs is None or item is None else {name: item(value) for name, value in pairs.items()}
            )
        case _:
            return None


def _moment_in_utc(value: Any) -> Any:
    # A timestamp outside Python's range arrives as text.
    return value.replace(tzinfo=dt.UTC) if isinstance(value, dt.datetime) else value


def _check_reading(sql: str, names: Sequence[str]) -> None:
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        # A word of SQL, such as order, in place of a table's name.
        word = re.search(r'at or near "(\w+)"', f"{error}")
        raise QueryError(f"not SQL: {error}", hint=word and _meant(word[1], names)) from None
    if len(statements) != 1:
        found = "there is none" if not statements else f"there are {len(statements)}"
        raise QueryError(f"a query is one statement, {found}", hint='frazil query "select * from marts.hosts"')
    if statements[0].type != duckdb.StatementType.SELECT:
        raise QueryError(
            f"a query reads; {statements[0].type.name} is not for it",
            hint="write a SELECT; tables change by: frazil run",
        )


def _told(error: duckdb.Error, names: Sequence[str]) -> QueryError:
    text = f"{error}"
    if not isinstance(error, duckdb.CatalogException) or "Table with name" not in text:
        return QueryError(text)
    missing = text.partition("Table with name ")[2].split(" ", 1)[0]
    hint = _meant(missing.rpartition(".")[2], names) or f"the tables are {', '.join(names)}"
    return QueryError(f"no table '{missing}'", hint=hint)


def _meant(word: str, names: Iterable[str]) -> str | None:
    """Return the question whether a table of a similar name was meant; None if none is similar, or one is equal."""
    bare = {name.rpartition(".")[2]: name for name in names}
    near = get_close_matches(word, bare, n=1)
    return f"did you mean '{bare[near[0]]}'?" if near and near[0] != word else None


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Make names distinct: repeated names get the suffixes ``_1``, ``_2`` and so on."""
    taken: dict[str, None] = {}
    for name in names:
        number, free = 0, name
        while free in taken:
            number += 1
            free = f"{name}_{number}"
        taken[free] = None
    return tuple(taken)


_SHOW_TABLES: Final = re.compile(r"\s*show\s+tables\s*;?\s*", re.IGNORECASE)
_TABLES: Final = (
    "SELECT table_schema || '.' || table_name AS name FROM information_schema.tables "
    f"WHERE table_catalog = {duck_literal(CATALOG)} ORDER BY name"
)
"""What SHOW TABLES means: DuckDB names tables of several layers alike."""
_LISTING: Final = frozenset({"show", "information_schema", "duckdb_views", "duckdb_columns", "duckdb_tables"})
"""Words of queries that list tables."""


def connect_views(
    pipeline: Pipeline, located: Located, sql: str, as_of: str | None = None
) -> duckdb.DuckDBPyConnection:
    """Open DuckDB with a view for every table that a query may name.

    Views are named ``layer.name`` and ``lake.layer.name``; a name alone is the first match in marts, gold, silver and
    bronze. Soft marts have their live views as well. Tables whose name does not occur in ``sql`` are left out, because
    a view takes some milliseconds and a lake may have hundreds of tables.

    Args:
        pipeline: the declaration.
        located: the tables, each with the address of its metadata.
        sql: the query.
        as_of: a point in the past; None for now.

    Raises:
        ReaderError: DuckDB cannot read Iceberg on this machine.
        PointError: a table of the query has no snapshot of that point.
        NotOnThisMachineError: no client for a table's address is installed.
        DamagedTableError: a metadata file or manifest is missing or damaged.
    """
    words = {word.lower() for word in re.findall(r"\w+", sql)}
    everything = bool(words & _LISTING)
    connection = open_database({}, located)
    connection.execute(f"ATTACH ':memory:' AS {identifier(CATALOG)}")
    names = pipeline.lake.namespaces
    layers = (names.marts, names.gold, names.silver, names.bronze)
    for namespace in dict.fromkeys((*layers, *(namespace for namespace, _ in located))):
        connection.execute(f"CREATE SCHEMA {identifier(CATALOG, namespace)}")
    meant = {
        path: shown
        for path, shown in with_live_views(pipeline, located).items()
        if everything or path[1].lower() in words
    }
    at: dict[tuple[str, str], int] | None = None
    if as_of is not None:
        used = _used(meant, _names(connection, sql), layers)
        _verify_batch(pipeline, as_of, used)
        at = snapshots_at(as_of, {path: location for path, (location, _) in meant.items()}, used)
    for path, (location, selection) in meant.items():
        if at is None or path in at:
            snapshot = None if at is None else at[path]
            verify_manifests(location, snapshot)
            view = identifier(CATALOG, *path)
            connection.execute(f"CREATE VIEW {view} AS {selection.format(scan(location, snapshot))}")
    search = ",".join(identifier(CATALOG, layer) for layer in layers)
    connection.execute(f"SET search_path = {duck_literal(search)}")
    confine(connection, located)
    return connection


def _verify_batch(pipeline: Pipeline, as_of: str, used: set[tuple[str, str]]) -> None:
    """Refuse a batch as the point of a query over several source tables: each counts its own batches."""
    if not as_of.strip().startswith("batch:"):
        return
    made = {table.name: source_tables(pipeline, table) for table in pipeline.tables}
    sources = [name for name, of in made.items() if used & {one.key for one in (of.bronze, *of.computed, *of.views)}]
    if len(sources) > 1:
        raise PointError(
            f"each source table counts its own batches, and the query reads {' and '.join(sources)}",
            hint="name a time or a cut: frazil cut NAME",
        )


def _names(connection: duckdb.DuckDBPyConnection, sql: str) -> list[list[str]]:
    """Return the table names in a query, in parts; all its words if DuckDB cannot parse them without the tables."""
    try:
        named = connection.get_table_names(sql, qualified=True)
    except duckdb.Error:
        named = {*re.findall(r"\w+", sql)}
    return [[part.strip('"').lower() for part in re.findall(r'"(?:[^"]|"")*"|[^.]+', name)] for name in named]


def _used(meant: Iterable[tuple[str, str]], names: list[list[str]], layers: Iterable[str]) -> set[tuple[str, str]]:
    """Return the tables that a query reads; ``layers`` are the namespaces in the order of search."""
    paths = {(namespace.lower(), table.lower()): (namespace, table) for namespace, table in meant}
    found = set()
    for *before, table in names:
        spaces = before[-1:] or [layer.lower() for layer in layers]
        found |= {next((paths[space, table] for space in spaces if (space, table) in paths), None)}
    return {path for path in found if path is not None}


def with_live_views(pipeline: Pipeline, located: Located) -> dict[tuple[str, str], tuple[str, str]]:
    """Return all queryable names: path -> metadata file and its SELECT, with ``{}`` in place of the table."""
    shown = {path: (location, "SELECT * FROM {}") for path, location in located.items()}
    for table in pipeline.tables:
        made = source_tables(pipeline, table)
        for view in made.views:
            soft = next(mart for mart in made.marts if mart.mart is view.mart)
            if view.mart and (location := located.get(soft.key)):
                hidden = ", ".join(map(identifier, added_columns(view.mart)))
                shown[view.key] = (location, f"SELECT * EXCLUDE ({hidden}) FROM {{}} WHERE NOT is_deleted")
    return shown


_SHORTENED: Final = "TIMESTAMP_NS"
"""A type whose values Python shortens to microseconds."""


class NoArrowError(Exception):
    """Arrow cannot hold some values exactly."""


def arrow_of(names: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Return rows as an Arrow table, with the types that DuckDB gives them.

    Args:
        names: distinct names of the columns.
        types: DuckDB's names of their types.
        rows: values as DuckDB returns them.

    Raises:
        NoArrowError: Arrow has no such type, or cannot hold a value.
    """
    if any(_SHORTENED in kind for kind in types):
        raise NoArrowError("Python has shortened nanoseconds to microseconds")
    fields = ", ".join(f"CAST(NULL AS {kind}) AS {identifier(name)}" for name, kind in zip(names, types, strict=True))
    try:
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            schema = connection.sql(f"SELECT {fields} LIMIT 0").to_arrow_table().schema
        columns = [
            pa.array(_values(rows, place, is_uuid=kind == "UUID"), field.type)
            for place, (kind, field) in enumerate(zip(types, schema, strict=True))
        ]
    except (duckdb.Error, pa.ArrowException, OverflowError) as error:
        raise NoArrowError(f"{error}") from error
    return pa.Table.from_arrays(columns, schema=schema)


def _values(rows: Sequence[Sequence[Any]], place: int, *, is_uuid: bool) -> list[Any]:
    """Return the values of a column; Arrow takes an UUID as text."""
    values = [row[place] for row in rows]
    return [value if value is None else f"{value}" for value in values] if is_uuid else values


def pandas_of(table: pa.Table) -> pd.DataFrame:
    """Return a table as a pandas frame with Arrow's types: integers with NULL and decimals stay exact.

    Raises:
        SetupError: pandas is not installed.
    """
    try:
        import pandas as pd  # noqa: PLC0415 - optional, and half a second
    except ModuleNotFoundError as error:
        raise SetupError("pandas is not installed", hint="pip install pandas, or use .to_arrow()") from error
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def polars_of(table: pa.Table) -> pl.DataFrame:
    """Return a table as a Polars frame.

    Raises:
        SetupError: Polars is not installed.
    """
    try:
        import polars as pl  # noqa: PLC0415 - optional
    except ModuleNotFoundError as error:
        raise SetupError("Polars is not installed", hint="pip install polars, or use .df() or .to_arrow()") from error
    return pl.DataFrame(table)
