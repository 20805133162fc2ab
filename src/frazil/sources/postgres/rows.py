"""The rows of a table of PostgreSQL as they are now, to be compared with a mart."""

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
"""A function takes a hundred arguments; a column is four at most, with its separator."""

_ALL_BUCKETS: Final = 16**BUCKET_DIGITS

_BYTEA, _FLOATS, _DATE, _NTZ, _TZ = 17, {700: "float", 701: "double"}, 1082, 1114, 1184
_WHOLE, _NUMERIC, _BOOL = {20, 21, 23}, 1700, 16
_TEXTS: Final = {25, 1042, 1043, 2950}
"""text, char(n), varchar and uuid: their text is the same in JSON."""


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
"""Arguments of ``concat``, which prints values as COPY does, by how a column is written."""


@dataclass(slots=True)
class TableRows:
    """A table, in one snapshot of its database: a :class:`frazil.sources.comparison.SourceRows`.

    Attributes:
        server: a session in a transaction whose snapshot is taken.
        table: as the server has it.
        name: which table it is, and of which moment.
        as_printed: texts in the lake are what the server prints, whatever the type; else only types that JSON has as
            text are compared with texts.
        enums: numbers of the types that are enums.
        find_uncaptured: see :meth:`uncaptured`; takes the folder, and the position of the WAL behind the snapshot.
        position: that position.
        types: name of a column in lower case -> number of its type.
        is_utf8: the server keeps texts in UTF-8, as the lake does.
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
        """Return the table's columns."""
        return self.table.columns

    def forms(self, types: Mapping[str, str]) -> dict[str, str]:
        """Return the forms of the columns that the server and the lake write alike."""
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
        """Count the rows of each bucket and sum up the hashes of their columns."""
        query = sql.SQL("SELECT {}, count(*), sum({}) FROM {} GROUP BY 1").format(
            self._bucket(keys), self._digest(columns), self._rows
        )
        found = self.server.session.execute(query).fetchall()
        return {bucket: (count, int(total)) for bucket, count, total in found}

    def digests(
        self, keys: Sequence[Compared], columns: Sequence[Compared], buckets: Sequence[str]
    ) -> Iterator[list[tuple[str, int]]]:
        """Yield keys and hashes of the rows in some buckets."""
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
        """Return the values of the rows of some keys."""
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
        """Write what is not captured yet."""
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
        """Write the arguments of ``concat``, which prints values as COPY does, that make the text of one column."""
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
    """Open a table as it is now.

    Args:
        url: address of the database.
        place: schema, None where it is not known, and name of the table.
        where: the address for people.
        find_uncaptured: see :class:`TableRows`.
        publication: the table is compared as it is published; empty for a table as it is, None for one of which JSON
            arrives.
        oid: number of the table, which is taken where none has its name any more.

    Raises:
        ServerSetupError: there is no such table, or several.
        ServerError: the server does not answer.
    """
    with (
        translate_server_errors(where),
        Server(url) as server,
        locked_table(server, where, _now(server, place, oid), publication or "") as table,
    ):
        # The snapshot was taken before the position is read: all that it shows was committed before.
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
    """Return where a table is now: its number finds it where its name does not."""
    if oid is None or server.one("SELECT to_regclass(format('%%I.%%I', %s::text, %s::text)) IS NOT NULL", *place):
        return place
    return server.place_of(oid) or place


@contextmanager
def locked_table(
    server: Server, where: str, place: tuple[str | None, str], publication: str = ""
) -> Iterator[ServerTable]:
    """Open a transaction with a snapshot in which a table stays as it is.

    Raises:
        ServerSetupError: there is no such table, or several.
    """
    schema, name = place
    found = (schema, name) if schema is not None else _only(server, where, name)
    with server.session.transaction():
        server.session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            # Before the snapshot: a TRUNCATE, or an ALTER TABLE that rewrites rows, hides them from it too.
            server.tell(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(sql.Identifier(*found)))
        except psycopg.errors.UndefinedTable:
            raise _missing(where, found) from None
        table = server.table(found, publication)
        if table is None:
            raise _missing(where, found)
        yield table


def _missing(where: str, place: tuple[str, str]) -> ServerSetupError:
    return ServerSetupError(f"{where}: there is no table {'.'.join(place)}")


def _only(server: Server, where: str, name: str) -> tuple[str, str]:
    """Find the schema of a table that is named alone."""
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
