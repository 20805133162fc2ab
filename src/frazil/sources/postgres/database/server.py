"""Sessions with a PostgreSQL server, and queries about tables, keys, slots and positions."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import psycopg
from psycopg import sql
from psycopg.pq import ExecStatus

from frazil.sources.postgres.errors import ServerError, ServerSetupError
from frazil.sources.postgres.landed.landing import lsn_of, server_lsn
from frazil.spec.contract import declared_columns, final_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec import Table

_CONNECT_SECONDS: Final = 20
_COLUMN_LISTS: Final = 150_000
"""First server version with column lists and row filters in publications."""

_GENERATED: Final = 180_000
"""First server version with generated columns in publications."""

_TEXTS: Final = {
    "datestyle": "ISO, YMD",
    "timezone": "UTC",
    "intervalstyle": "iso_8601",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "lock_timeout": "0",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "row_security": "off",
}
"""Settings of a session: output formats, no timeouts, and an error in place of rows that a policy hides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTable:
    """A table at the server.

    Attributes:
        place: declared schema and name, under which it is landed even after the table was renamed.
        schema, name: current schema and name.
        oid: number of the table, independent of its name.
        sql_name: schema and name, quoted if necessary.
        columns: published columns, in order.
        numbers: numbers of these columns in the catalog.
        altered: transactions that last altered these columns.
        filled: numbers of columns that may have given older rows a value when they were added.
        generated: columns that the server computes and does not publish.
        types: number and modifier of each column's type.
        row_filter: SQL condition of the published rows; None for all.
        identity: columns of the replica identity.
        is_full: True if the identity is the whole row.
        is_partitioned: True if the table has partitions.
        is_published: True if the publication contains the table.
        pages: number of pages with rows; 0 for a partitioned table.
        children: (number, full name) of tables that inherit from it; empty for a partitioned table.
        unlisted: numbers of the columns that the column list of the publication leaves out.
        entry: number of its entry in the publication, or that of its schema; 0 if all tables, or those of a parent, are
            published.
        publication: number of the publication, transaction that last altered it, and its settings.
    """

    place: tuple[str, str]
    schema: str
    name: str
    oid: int
    sql_name: str
    columns: tuple[str, ...]
    numbers: tuple[int, ...]
    altered: tuple[int, ...]
    filled: frozenset[int]
    generated: tuple[str, ...]
    types: tuple[tuple[int, int], ...]
    row_filter: str | None
    identity: tuple[str, ...]
    is_full: bool
    is_partitioned: bool
    is_published: bool
    pages: int
    children: tuple[tuple[int, str], ...] = ()
    unlisted: frozenset[int] = frozenset()
    entry: int = 0
    publication: tuple[int, int, str] = (0, 0, "")

    @property
    def itself(self) -> sql.Composed:
        """Return its name in SQL, with ONLY: rows of inheriting tables are not its rows."""
        only = sql.SQL("" if self.is_partitioned else "ONLY ")
        return sql.SQL("{}{}").format(only, sql.Identifier(self.schema, self.name))

    @property
    def full_name(self) -> str:
        """Return the declared schema and name, for people and for the state."""
        return ".".join(self.place)


class Server:
    """A session with a server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.session = open_session(url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()

    @property
    def version(self) -> int:
        """Return the server version as a number: 150018 is 15.18."""
        return self.session.info.server_version

    def rows(self, query: str, *given: object) -> list[Any]:
        """Run a query and return its rows."""
        return self.session.execute(query.encode(), given).fetchall()

    def one(self, query: str, *given: object) -> Any:
        """Run a query and return its first value; None without a row."""
        rows = self.rows(query, *given)
        return rows[0][0] if rows else None

    def tell(self, command: sql.Composed) -> None:
        """Run a command without a result."""
        self.session.execute(command)

    def flushed(self) -> int:
        """Return the position up to which the WAL can be read."""
        return lsn_of(self.one("SELECT pg_current_wal_flush_lsn()::text"))

    def lock(self, name: str) -> bool:
        """Take a lock for the lifetime of this session; return False if another session holds it."""
        return bool(self.one("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", f"frazil {name}"))

    def wait_for_lock(self, name: str) -> None:
        """Take the same lock and wait for it; this call has priority over :meth:`lock`."""
        self.one("SELECT pg_advisory_lock(hashtextextended(%s, 0))::text", f"frazil {name}")

    def domains(self) -> dict[int, tuple[int, int]]:
        """Return number of a domain -> number and modifier of its base type."""
        found = self.rows("SELECT oid::int8, typbasetype::int8, typtypmod FROM pg_type WHERE typtype = 'd'")
        return {oid: (base, modifier) for oid, base, modifier in found}

    def place_of(self, oid: int) -> tuple[str, str] | None:
        """Return schema and name of the table with this number; None if it does not exist."""
        found = self.rows(_PLACE, oid)
        return (found[0][0], found[0][1]) if found else None

    def table(
        self, place: tuple[str, str], publication: str, landed_as: tuple[str, str] | None = None
    ) -> ServerTable | None:
        """Return a table as published; None if it does not exist.

        Args:
            place: schema and name.
            publication: name of the publication; empty for the unfiltered table, which may then be a view.
            landed_as: schema and name under which it is landed, if they differ.
        """
        schema, name = place
        lists = self.version >= _COLUMN_LISTS
        published = self.rows(_PUBLISHED_LISTS if lists else _PUBLISHED, publication, schema, name)
        found = self.rows(_TABLE, schema, name, [*"rp"] if publication else [*"rpv"])
        if not found:
            return None
        oid, identity, kind, pages, sql_name, heirs, heir_names = found[0]
        row: tuple[Any, ...] = published[0] if published else (None, None, None, 0, 0, "")
        names, row_filter, entry, *made = row
        generated = self.version >= _GENERATED and names is not None
        every = self.rows(_COLUMNS, oid)
        columns = [
            (column, base, modifier, number, is_filled, altered)
            for column, base, modifier, is_generated, number, is_filled, altered in every
            if (names is None or column in names) and (generated or not is_generated)
        ]
        own = {column for column, *_ in columns}
        keys = self.rows(_IDENTITY, {"d": "p", "i": "i"}.get(identity, ""), oid)
        return ServerTable(
            place=landed_as or place,
            schema=schema,
            name=name,
            oid=oid,
            sql_name=sql_name,
            columns=tuple(column for column, *_ in columns),
            numbers=tuple(number for *_, number, _, _ in columns),
            altered=tuple(altered for *_, altered in columns),
            filled=frozenset(number for *_, number, is_filled, _ in columns if is_filled),
            generated=tuple(column for column, _, _, is_generated, *_ in every if is_generated and column not in own),
            types=tuple((base, modifier) for _, base, modifier, *_ in columns),
            row_filter=row_filter,
            identity=tuple(column for column, *_ in columns) if identity == "f" else tuple(key for (key,) in keys),
            is_full=identity == "f",
            is_partitioned=kind == "p",
            is_published=bool(published),
            entry=entry or 0,
            publication=(made[0], made[1], made[2]),
            pages=pages,
            children=tuple(zip(heirs, heir_names, strict=True)) if kind == "r" else (),
            unlisted=frozenset(
                number for column, *_, number, _, _ in every if names is not None and column not in names
            ),
        )

    def peek(self, slot: str, publication: str, end: int) -> Iterator[bytes]:
        """Yield the messages of transactions that commit before a position, without consuming them.

        Args:
            slot: name of the slot.
            publication: name of the publication.
            end: position of the WAL; not included.

        Cost: the server buffers the messages first, on disk if there are many; the client holds some at a time.
        """
        with self.session.transaction(), self.session.cursor("messages", binary=True) as cursor:
            cursor.execute(_PEEK, (slot, server_lsn(end), publication))
            # Reading rows one by one takes a lock for each.
            while rows := cursor.fetchmany(10_000):
                for (message,) in rows:
                    yield message

    def advance(self, slot: str, end: int) -> None:
        """Allow the server to discard WAL before a position."""
        self.one("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)::text", slot, server_lsn(end))


_TABLE: Final = """
SELECT c.oid::int8, c.relreplident::text, c.relkind::text,
    CASE WHEN c.relkind = 'r' THEN pg_relation_size(c.oid) / current_setting('block_size')::int ELSE 0 END,
    format('%%I.%%I', n.nspname, c.relname),
    ARRAY(SELECT inhrelid::int8 FROM pg_inherits WHERE inhparent = c.oid ORDER BY inhrelid),
    ARRAY(SELECT m.nspname || '.' || h.relname FROM pg_inherits JOIN pg_class h ON h.oid = inhrelid
        JOIN pg_namespace m ON m.oid = h.relnamespace WHERE inhparent = c.oid ORDER BY inhrelid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND c.relkind::text = ANY (%s)"""

_PLACE: Final = """
SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = %s::int8::oid AND c.relkind IN ('r', 'p')"""

_COLUMNS: Final = """
SELECT attname::text, atttypid::int8, atttypmod, attgenerated <> '', attnum::int,
    attidentity <> '' OR atthasdef OR atthasmissing OR typdefault IS NOT NULL, pg_attribute.xmin::text::int8
FROM pg_attribute JOIN pg_type t ON t.oid = atttypid
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""

_IDENTITY: Final = """
SELECT a.attname::text
FROM pg_index i
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[:i.indnkeyatts - 1])
WHERE CASE %s WHEN 'p' THEN i.indisprimary AND i.indimmediate WHEN 'i' THEN i.indisreplident END AND i.indrelid = %s"""

_PUBLISHED: Final = """
SELECT NULL, NULL, r.oid::int8, p.oid::int8, p.xmin::text::int8, (to_jsonb(p) - 'oid')::text
FROM pg_publication_tables t JOIN pg_publication p USING (pubname)
LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = format('%%I.%%I', schemaname, tablename)::regclass
WHERE pubname = %s AND schemaname = %s AND tablename = %s"""

_PUBLISHED_LISTS: Final = """
SELECT attnames::text[], rowfilter, coalesce(r.oid, n.oid)::int8, p.oid::int8, p.xmin::text::int8,
    (to_jsonb(p) - 'oid')::text
FROM pg_publication_tables t JOIN pg_publication p USING (pubname)
LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = format('%%I.%%I', schemaname, tablename)::regclass
LEFT JOIN pg_publication_namespace n ON n.pnpubid = p.oid AND n.pnnspid = quote_ident(schemaname)::regnamespace
WHERE pubname = %s AND schemaname = %s AND tablename = %s"""

_PEEK: Final = """
SELECT data FROM pg_logical_slot_peek_binary_changes(
    %s, %s::pg_lsn, NULL, 'proto_version', '1', 'publication_names', quote_ident(%s))"""


@contextmanager
def exported_snapshot(url: str, number: str) -> Iterator[tuple[int, str]]:
    """Hold a snapshot of the database; yield its position and its name.

    The snapshot contains exactly the transactions that were committed before the position. A temporary slot provides
    it, which ends with its session.
    """
    with open_session(url, replication="database") as session:
        command = f'CREATE_REPLICATION_SLOT "frazil_load_{number}" TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT'
        result = session.pgconn.exec_(command.encode())
        if result.status != ExecStatus.TUPLES_OK:
            raise psycopg.errors.error_from_result(result)
        point, name = result.get_value(0, 1), result.get_value(0, 2)
        if point is None or name is None:
            raise ServerError("the server exports no snapshot")
        yield lsn_of(point.decode()), name.decode()


def end_of_timeline(url: str, timeline: int, now: int) -> int:
    """Return the position at which a server left a timeline; 0 if the current timeline does not descend from it.

    Args:
        url: address of the database.
        timeline: former timeline.
        now: current timeline.
    """
    if now == 1:
        return 0
    with open_session(url, replication="database") as session:
        result = session.pgconn.exec_(f"TIMELINE_HISTORY {now}".encode())
        if result.status != ExecStatus.TUPLES_OK:
            raise psycopg.errors.error_from_result(result)
        text = (result.get_value(0, 1) or b"").decode()
    # Such as: 1	0/3000000	no recovery target specified
    lines = (line.split("\t") for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return next((lsn_of(line[1]) for line in lines if int(line[0]) == timeline), 0)


def open_session(url: str, **settings: str) -> psycopg.Connection[Any]:
    """Open a session whose output formats match the landing files."""
    session = psycopg.connect(
        url,
        autocommit=True,
        application_name="frazil",
        client_encoding="UTF8",
        connect_timeout=_CONNECT_SECONDS,
        prepare_threshold=None,
        **settings,  # type: ignore[arg-type]
    )
    if not settings:
        for name, value in _TEXTS.items():
            session.execute("SELECT set_config(%s, %s, false)", (name, value))
    return session


_MOST_REPEATED: Final = 0.001
"""Allowed share of repeated keys: a table without a unique key may contain a few rows twice."""


def missing_key(where: str, table: ServerTable, declaration: Table) -> ServerSetupError | None:
    """Return an error for a key that is not a column; None if all keys are columns or derived from columns.

    Args:
        where: name of the slot, for messages.
        table: table at the server.
        declaration: declared table.
    """
    columns = {column.lower() for column in table.columns}
    made = {name.lower() for name, column in declared_columns(declaration).items() if column.expr is not None}
    made |= {name.lower() for name in final_names(declaration).values()}
    missing = [key for key in declaration.keys if key.lower() not in columns | made]
    if not missing:
        return None
    key, hint = missing[0], f"its columns are {', '.join(table.columns)}"
    if key.lower() in {column.lower() for column in table.generated}:
        hint = f"the server computes it, and does not send it; {hint}"
    elif table.identity and not table.is_full:
        hint = f"declare keys: [{', '.join(table.identity)}]; {hint}"
    return ServerSetupError(
        f"{where}: key '{key}' of table '{declaration.name}' is not a column of {table.full_name}", hint=hint
    )


def repeated_key(where: str, server: Server, table: ServerTable, declaration: Table) -> ServerSetupError | None:
    """Return an error if several rows share a declared key; None if the keys are unique.

    Args:
        where: name of the slot, for messages.
        server: session with the server.
        table: table at the server.
        declaration: declared table.

    Cost: one scan of the table, unless a unique index covers some of the keys.
    """
    keys, unique = _key_columns(table, declaration), _unique_columns(server, table)
    if not keys or any(columns <= {*keys} for columns in unique):
        return None
    conditions = [sql.SQL("{} IS NOT NULL").format(sql.Identifier(key)) for key in keys]
    if table.row_filter is not None:
        conditions.append(sql.SQL("({})").format(sql.SQL(table.row_filter)))
    query = sql.SQL(_REPEATED).format(
        place=table.itself,
        keys=sql.SQL(", ").join(map(sql.Identifier, keys)),
        conditions=sql.SQL(" AND ").join(conditions),
    )
    [(repeated, count)] = server.session.execute(query).fetchall()
    if repeated <= _MOST_REPEATED * count:
        return None
    better = [[column for column in table.columns if column in columns] for columns in unique]
    hint = f"declare keys: [{', '.join(better[0])}]" if better else "declare the columns that together name a row"
    return ServerSetupError(
        f"{where}: {', '.join(keys)} of table '{declaration.name}' does not name a row of {table.full_name}: "
        f"{repeated:,} of {count:,} values have several",
        hint=hint,
    )


def unwatched_key(server: Server, table: ServerTable, declaration: Table) -> list[str]:
    """Return the key columns if no unique index of the server covers some of them; else an empty list.

    Args:
        server: session with the server.
        table: table at the server.
        declaration: declared table.
    """
    keys = _key_columns(table, declaration)
    return [] if any(columns <= {*keys} for columns in _unique_columns(server, table)) else keys


def _key_columns(table: ServerTable, declaration: Table) -> list[str]:
    """Return the columns of the declared keys; empty unless every key is a column."""
    names = {column.lower(): column for column in table.columns}
    keys = [names[key.lower()] for key in declaration.keys if key.lower() in names]
    return keys if len(keys) == len(declaration.keys) else []


def _unique_columns(server: Server, table: ServerTable) -> list[set[str]]:
    return [set(columns) for (columns,) in server.rows(_UNIQUE, table.oid)]


_UNIQUE: Final = """
SELECT (SELECT array_agg(a.attname::text) FROM pg_attribute a
    WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[:i.indnkeyatts - 1]))
FROM pg_index i
WHERE i.indrelid = %s::int8::oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
ORDER BY i.indisprimary DESC, i.indexrelid"""

_REPEATED: Final = """
SELECT count(*) FILTER (WHERE times > 1), count(*)
FROM (SELECT count(*) AS times FROM {place} WHERE {conditions} GROUP BY {keys}) AS counted"""
