"""Talking with a PostgreSQL server: connections, what it is asked, and what its errors mean."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import psycopg
from psycopg import sql
from psycopg.pq import ExecStatus

from frazil.sources.postgres.errors import ServerError
from frazil.sources.postgres.landed.landing import lsn_of, server_lsn

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONNECT_SECONDS: Final = 20
_COLUMN_LISTS: Final = 150_000
"""Version from which publications have column lists and row filters."""

_GENERATED: Final = 180_000
"""Version from which publications may have generated columns."""

_TEXTS: Final = {
    "datestyle": "ISO, YMD",
    "timezone": "UTC",
    "intervalstyle": "iso_8601",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "lock_timeout": "0",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
"""How a session prints values, and that it waits as long as it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTable:
    """A table as the server has it.

    Attributes:
        place: schema and name under which it is landed: those that are declared, also after the table was renamed.
        schema, name: of the table now.
        oid: number by which the database knows it, whatever its name.
        sql_name: schema and name, quoted where they must be.
        columns: those that are published, in order.
        numbers: the numbers by which the database knows these columns.
        altered: the transactions that last altered them.
        filled: those of these numbers whose columns may have given older rows a value when they were added.
        generated: columns that are not published because the server computes them.
        types: number and modifier of each column's type.
        row_filter: SQL of the rows that are published; None for all.
        identity: names of the columns of its replica identity.
        is_full: the identity is the whole row.
        is_partitioned: it has partitions.
        is_published: it is in the publication.
        pages: pages that its rows are on; 0 where it has partitions.
        children: numbers and full names of the tables that inherit from it; none for partitions.
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

    @property
    def itself(self) -> sql.Composed:
        """Its name in SQL, without the tables that inherit from it: their changes are not its changes."""
        only = sql.SQL("" if self.is_partitioned else "ONLY ")
        return sql.SQL("{}{}").format(only, sql.Identifier(self.schema, self.name))

    @property
    def full_name(self) -> str:
        """Schema and name as they are declared, for people and for the state."""
        return ".".join(self.place)


class Server:
    """A session with a server, and what is asked in it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.session = open_session(url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()

    @property
    def version(self) -> int:
        """Version as a number: 150018 is 15.18."""
        return self.session.info.server_version

    def rows(self, query: str, *given: object) -> list[Any]:
        """Ask a query; return its rows."""
        return self.session.execute(query.encode(), given).fetchall()

    def one(self, query: str, *given: object) -> Any:
        """Ask for one value; None where there is no row."""
        rows = self.rows(query, *given)
        return rows[0][0] if rows else None

    def tell(self, command: sql.Composed) -> None:
        """Give an order."""
        self.session.execute(command)

    def flushed(self) -> int:
        """Return up to where the WAL can be read."""
        return lsn_of(self.one("SELECT pg_current_wal_flush_lsn()::text"))

    def lock(self, name: str) -> bool:
        """Take a lock for the life of this session; return False where another session has it."""
        return bool(self.one("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", f"frazil {name}"))

    def wait_for_lock(self, name: str) -> None:
        """Take the same lock, and wait until no other session has it: before those that only try."""
        self.one("SELECT pg_advisory_lock(hashtextextended(%s, 0))::text", f"frazil {name}")

    def domains(self) -> dict[int, tuple[int, int]]:
        """Return number of a domain -> number and modifier of what it is made of."""
        found = self.rows("SELECT oid::int8, typbasetype::int8, typtypmod FROM pg_type WHERE typtype = 'd'")
        return {oid: (base, modifier) for oid, base, modifier in found}

    def place_of(self, oid: int) -> tuple[str, str] | None:
        """Return schema and name of the table with a number; None where there is none."""
        found = self.rows(_PLACE, oid)
        return (found[0][0], found[0][1]) if found else None

    def table(
        self, place: tuple[str, str], publication: str, landed_as: tuple[str, str] | None = None
    ) -> ServerTable | None:
        """Return a table as it is published; None where there is none.

        Args:
            place: schema and name.
            publication: empty for the table as it is, which may then be a view.
            landed_as: schema and name under which it is landed, where they are others.
        """
        schema, name = place
        lists = self.version >= _COLUMN_LISTS
        published = self.rows(_PUBLISHED_LISTS if lists else _PUBLISHED, publication, schema, name)
        found = self.rows(_TABLE, schema, name, [*"rp"] if publication else [*"rpv"])
        if not found:
            return None
        oid, identity, kind, pages, sql_name, heirs, heir_names = found[0]
        names, row_filter = published[0] if published else (None, None)
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
            pages=pages,
            children=tuple(zip(heirs, heir_names, strict=True)) if kind == "r" else (),
        )

    def peek(self, slot: str, publication: str, end: int) -> Iterator[bytes]:
        """Yield the messages of the transactions that end before a position, without consuming them.

        Cost: the server keeps them aside first, on its disk if they are many; here some are in memory at a time.
        """
        with self.session.transaction(), self.session.cursor("messages", binary=True) as cursor:
            cursor.execute(_PEEK, (slot, server_lsn(end), publication))
            # Rows one by one are asked for with a lock each.
            while rows := cursor.fetchmany(10_000):
                for (message,) in rows:
                    yield message

    def advance(self, slot: str, end: int) -> None:
        """Let the server forget what is before a position."""
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
SELECT NULL, NULL FROM pg_publication_tables WHERE pubname = %s AND schemaname = %s AND tablename = %s"""

_PUBLISHED_LISTS: Final = """
SELECT attnames::text[], rowfilter FROM pg_publication_tables
WHERE pubname = %s AND schemaname = %s AND tablename = %s"""

_PEEK: Final = """
SELECT data FROM pg_logical_slot_peek_binary_changes(
    %s, %s::pg_lsn, NULL, 'proto_version', '1', 'publication_names', quote_ident(%s))"""


@contextmanager
def exported_snapshot(url: str, number: str) -> Iterator[tuple[int, str]]:
    """Hold a snapshot of the database: yield its position and its name.

    What was committed before the position is in the snapshot, and nothing else. It comes from a slot that is gone with
    its session.
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
    """Return the position at which a server left a timeline; 0 where its present one does not come of it."""
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
    """Open a session that prints values as landing files have them."""
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
