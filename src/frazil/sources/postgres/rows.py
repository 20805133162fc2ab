"""The current rows of a PostgreSQL table, for comparison with a mart."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import sql

from frazil.sources.comparison import BUCKET_DIGITS, SUM_DIGITS
from frazil.sources.postgres.database.server import Server
from frazil.sources.postgres.errors import ServerSetupError, translate_server_errors
from frazil.sources.postgres.landed.landing import lsn_of
from frazil.sources.postgres.types import base_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from frazil.sources.comparison import Compared, Sums
    from frazil.sources.postgres.database.server import ServerTable

_AT_ONCE: Final = 10_000
_MOST_AT_ONCE: Final = 20
"""A function takes a hundred arguments; a column needs up to four, with its separator."""

_ALL_BUCKETS: Final = 16**BUCKET_DIGITS

_BYTEA, _FLOATS, _DATE, _NTZ, _TZ = 17, {700: "float", 701: "double"}, 1082, 1114, 1184
_WHOLE, _NUMERIC, _BOOL = {20, 21, 23}, 1700, 16
_TEXTS: Final = {25, 1042, 1043, 2950}
"""text, char(n), varchar and uuid, which have the same text in JSON."""


_PIECES: Final = {
    "plain": "{c}",
    "numeric": "trim_scale({c})",
    "moment": "{c} AT TIME ZONE 'UTC'",
    "float4": "CASE WHEN {c} = 'NaN' THEN 'NaN' ELSE encode(float4send({c}), 'hex') END",
    "float8": "CASE WHEN {c} = 'NaN' THEN 'NaN' ELSE encode(float8send({c}), 'hex') END",
    "text": "length({c}), ':', {c}",
    "printed": "CASE WHEN {c} IS NOT NULL THEN length(concat({c})) END, ':', {c}",
    "bytes": "'x' || encode({c}, 'hex')",
}
"""Source form of a column -> arguments of ``concat``, which prints values as COPY does."""


@dataclass(slots=True)
class TableRows:
    """The :class:`frazil.sources.comparison.SourceRows` of a table in one snapshot of its database.

    Attributes:
        server: session in a transaction with a snapshot.
        table: table at the server.
        name: table and moment, for people.
        as_printed: True if texts in the lake are the server's output for any type. If False, only types with the same
            text in JSON are compared with texts.
        find_uncaptured: implementation of :meth:`uncaptured`; receives the folder and ``position``.
        position: position of the WAL after the snapshot.
        enums: numbers of enum types.
        types: lower-case name of a column -> number of its type.
        is_utf8: True if the server stores texts in UTF-8, as the lake does.
    """

    server: Server
    table: ServerTable
    name: str
    as_printed: bool
    find_uncaptured: Callable[[Path, int], str | None]
    position: int
    enums: frozenset[int]
    types: dict[str, int]
    is_utf8: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of the table."""
        return self.table.columns

    def forms(self, types: Mapping[str, str]) -> dict[str, str]:
        """Return the forms of the columns that server and lake can both write."""
        found = {name: self._form(self.types.get(name.lower(), 0), kind) for name, kind in types.items()}
        return {name: form for name, form in found.items() if form is not None}

    def _form(self, oid: int, kind: str) -> str | None:
        is_text = oid in _TEXTS or oid in self.enums or (self.as_printed and oid != _BYTEA)
        fits = {
            "boolean": (oid == _BOOL, "truth"),
            "int": (oid in _WHOLE or oid == _NUMERIC, "number"),
            "bigint": (oid in _WHOLE or oid == _NUMERIC, "number"),
            "decimal": (oid in _WHOLE or oid == _NUMERIC, "number"),
            "float": (_FLOATS.get(oid) == "float", "float"),
            "double": (_FLOATS.get(oid) == "double", "float"),
            "date": (oid == _DATE, "date"),
            "timestamp": (oid in {_NTZ, _TZ}, "moment"),
            "timestamp_ntz": (oid == _NTZ, "moment"),
            "binary": (oid == _BYTEA, "bytes"),
            "string": (bool(oid) and is_text, "text"),
        }
        fit, form = fits[kind.partition("(")[0]]
        return form if fit else None

    def sums(self, keys: Sequence[Compared], columns: Sequence[Compared]) -> Sums:
        """Count the rows of each bucket and sum the hashes of their columns."""
        query = sql.SQL("SELECT {}, count(*), sum({}) FROM {} GROUP BY 1").format(
            self._bucket(keys), self._digest(columns), self._rows
        )
        found = self.server.session.execute(query).fetchall()
        return {bucket: (count, int(total)) for bucket, count, total in found}

    def digests(
        self, keys: Sequence[Compared], columns: Sequence[Compared], buckets: Sequence[str]
    ) -> Iterator[list[tuple[str, int]]]:
        """Yield keys and hashes of the rows in some buckets.

        Args:
            keys: key columns.
            columns: columns to hash.
            buckets: buckets to read.
        """
        query = sql.SQL("SELECT {}, {} FROM {}").format(self._text(keys), self._digest(columns), self._rows)
        if len(buckets) < _ALL_BUCKETS:
            query = sql.SQL("{} AND {} = ANY ({})").format(query, self._bucket(keys), sql.Literal([*buckets]))
        with self.server.session.cursor("frazil") as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(query)
            while rows := cursor.fetchmany(_AT_ONCE):
                yield rows

    def values(
        self, keys: Sequence[Compared], columns: Sequence[Compared], texts: Sequence[str]
    ) -> dict[str, tuple[str | None, ...]]:
        """Return the values of the rows with some keys.

        Args:
            keys: key columns.
            columns: columns whose values are returned.
            texts: texts of the wanted keys.
        """
        query = sql.SQL("SELECT {key}, {values} FROM {rows} AND {key} = ANY ({texts})").format(
            key=self._text(keys),
            values=sql.SQL(", ").join(
                sql.SQL("CASE WHEN {column} IS NOT NULL THEN {text} END").format(
                    column=self._column(column),
                    text=sql.SQL("concat({})").format(
                        self._column(column) if column.form == "text" else self._piece(column)
                    ),
                )
                for column in columns
            ),
            rows=self._rows,
            texts=sql.Literal([*texts]),
        )
        return {key: tuple(values) for key, *values in self.server.session.execute(query).fetchall()}

    def uncaptured(self, into: Path) -> str | None:
        """Write the changes that are not captured yet."""
        return self.find_uncaptured(into, self.position)

    @property
    def _rows(self) -> sql.Composed:
        condition = sql.SQL("true" if self.table.row_filter is None else f"({self.table.row_filter})")
        place = sql.Identifier(self.table.schema, self.table.name)
        return sql.SQL("{} WHERE {}").format(self.table.itself if self.table.is_published else place, condition)

    def _bucket(self, keys: Sequence[Compared]) -> sql.Composed:
        return sql.SQL("left({}, {})").format(self._md5(keys), sql.Literal(BUCKET_DIGITS))

    def _digest(self, columns: Sequence[Compared]) -> sql.Composed:
        return sql.SQL("('x' || left({}, {}))::bit({})::bigint").format(
            self._md5(columns), sql.Literal(SUM_DIGITS), sql.Literal(4 * SUM_DIGITS)
        )

    def _md5(self, columns: Sequence[Compared]) -> sql.Composed:
        return sql.SQL("md5({})" if self.is_utf8 else "md5(convert_to({}, 'UTF8'))").format(self._text(columns))

    def _text(self, columns: Sequence[Compared]) -> sql.Composed:
        separator = sql.SQL(", '|', ")
        parts = [
            sql.SQL("concat({})").format(separator.join(map(self._piece, columns[first : first + _MOST_AT_ONCE])))
            for first in range(0, len(columns), _MOST_AT_ONCE)
        ]
        return parts[0] if len(parts) == 1 else sql.SQL("concat({})").format(separator.join(parts))

    def _piece(self, column: Compared) -> sql.Composed:
        """Write the arguments of ``concat`` for the text of one column."""
        return sql.SQL(_PIECES[self._source_form(column)]).format(c=self._column(column))

    def _source_form(self, column: Compared) -> str:
        if column.value is not None:
            return "text"
        oid = self.types[column.name.lower()]
        if column.form == "number":
            return "numeric" if oid == _NUMERIC else "plain"
        if column.form == "moment":
            return "moment" if oid == _TZ else "plain"
        if column.form == "float":
            return "float4" if _FLOATS[oid] == "float" else "float8"
        if column.form == "text":
            return "text" if oid in {25, 1043} else "printed"
        return "bytes" if column.form == "bytes" else "plain"

    def _column(self, column: Compared) -> sql.Composable:
        if column.value is not None:
            return sql.SQL("{}::text").format(sql.Literal(column.value))
        here = {name.lower(): name for name in self.table.columns}
        return sql.Identifier(here[column.name.lower()])


@contextmanager
def table_rows(
    url: str,
    place: tuple[str | None, str],
    where: str,
    find_uncaptured: Callable[[Path, int], str | None],
    publication: str | None = None,
    *,
    oid: int | None = None,
) -> Iterator[TableRows]:
    """Open the current rows of a table.

    Args:
        url: address of the database.
        place: schema (None if unknown) and name of the table.
        where: address for people, without secrets.
        find_uncaptured: see :class:`TableRows`.
        publication: name of the publication whose columns and rows are compared. Empty for the unfiltered table; None
            for a table whose changes arrive as JSON.
        oid: number of the table, used if no table has its name any more.

    Raises:
        ServerSetupError: the table does not exist, or its name is ambiguous.
        ServerError: the server does not answer.
    """
    with (
        translate_server_errors(where),
        Server(url) as server,
        locked_table(server, where, _now(server, place, oid), publication or "") as table,
    ):
        # The snapshot precedes the position, so all transactions in it were committed before the position.
        position = server.one(_POSITION)
        domains = server.domains()
        types = [base_type(*kind, domains)[0] for kind in table.types]
        yield TableRows(
            server=server,
            table=table,
            name=f"{table.full_name} of {where} at {position}{_generated(table)}",
            as_printed=publication is not None,
            find_uncaptured=find_uncaptured,
            position=lsn_of(position),
            enums=frozenset(oid for (oid,) in server.rows("SELECT oid::int8 FROM pg_type WHERE typtype = 'e'")),
            types={column.lower(): oid for column, oid in zip(table.columns, types, strict=True)},
            is_utf8=server.one("SHOW server_encoding") == "UTF8",
        )


def _generated(table: ServerTable) -> str:
    names = ", ".join(table.generated)
    return f" (generated there and in no copy: {names})" if names else ""


def _now(server: Server, place: tuple[str | None, str], oid: int | None) -> tuple[str | None, str]:
    """Return the current place of a table, found by its number if no table has its name."""
    if oid is None or server.one("SELECT to_regclass(format('%%I.%%I', %s::text, %s::text)) IS NOT NULL", *place):
        return place
    return server.place_of(oid) or place


@contextmanager
def locked_table(
    server: Server, where: str, place: tuple[str | None, str], publication: str = ""
) -> Iterator[ServerTable]:
    """Open a transaction with a snapshot and lock a table against changes of its definition.

    Args:
        server: session with the server.
        where: address for people, without secrets.
        place: schema (None if unknown) and name of the table.
        publication: name of the publication; empty for the unfiltered table.

    Raises:
        ServerSetupError: the table does not exist, or its name is ambiguous.
    """
    schema, name = place
    found = (schema, name) if schema is not None else _only(server, where, name)
    with server.session.transaction():
        server.session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            # Before the snapshot, because a TRUNCATE or a rewriting ALTER TABLE would hide rows from it.
            server.tell(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(sql.Identifier(*found)))
        except psycopg.errors.UndefinedTable:
            raise _missing(where, found) from None
        table = server.table(found, publication)
        if table is None:
            raise _missing(where, found)
        yield table


def _missing(where: str, place: tuple[str, str]) -> ServerSetupError:
    return ServerSetupError(f"{where}: table {'.'.join(place)} does not exist")


def _only(server: Server, where: str, name: str) -> tuple[str, str]:
    """Find the schema of a table by its name."""
    found = [schema for (schema,) in server.rows(_SCHEMAS, name)]
    if len(found) != 1:
        seen = f"in {' and '.join(found)}" if found else "in no schema"
        raise ServerSetupError(f"{where}: table {name} is {seen}", hint=f"declare the table as schema.{name}")
    return found[0], name


_POSITION: Final = """
SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END::text"""

_SCHEMAS: Final = """
SELECT nspname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = %s AND c.relkind IN ('r', 'p') AND nspname !~ '^pg_' ORDER BY 1"""
