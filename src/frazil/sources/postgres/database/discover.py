"""Find the tables of a PostgreSQL database, with their keys, replica identities and types."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from psycopg import sql

from frazil.errors import SourceError
from frazil.sources.postgres.database.server import Server
from frazil.sources.postgres.types import base_type, spark_type_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_IDENTITIES: Final = {"d": "default", "f": "full", "i": "index", "n": "nothing"}


class UnknownTableError(SourceError):
    """A database has no table of a given name or pattern that can be captured."""

    code = "FZ214"
    retryable = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTable:
    """A table of a database that can be captured.

    Attributes:
        schema, name: schema and name.
        rows: the server's estimate of its rows; None if it was never counted.
        keys: columns that name a row, in the order of their index; empty if no index says so.
        index: the name of this index; empty without keys.
        is_primary: whether it is the primary key.
        identity: ``default`` (the primary key), ``full``, ``index`` or ``nothing``.
        columns: (name, type of PostgreSQL, type of Spark) of each column that is sent.
        generated: columns that the server computes and does not send.
    """

    schema: str
    name: str
    rows: int | None
    keys: tuple[str, ...]
    index: str
    is_primary: bool
    identity: str
    columns: tuple[tuple[str, str, str], ...]
    generated: tuple[str, ...]

    @property
    def full_name(self) -> str:
        """Return schema and name."""
        return f"{self.schema}.{self.name}"

    @property
    def keys_from(self) -> str:
        """Return where the keys were found; empty without keys."""
        return "primary key" if self.is_primary else f"unique index {self.index}" if self.keys else ""

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return what a reader of the declaration should know, one sentence each."""
        return tuple(self._doubts())

    @property
    def _identity_command(self) -> str:
        if self.identity in ("full", "index"):
            return ""
        table, index = (sql.Identifier(*names).as_string() for names in ((self.schema, self.name), (self.index,)))
        return f"; ALTER TABLE {table} REPLICA IDENTITY USING INDEX {index}"

    def _doubts(self) -> Iterator[str]:
        if not self.keys:
            yield "no primary key and no unique index without NULL: name the columns that together name a row"
        elif not self.is_primary:
            yield f"no primary key: keys are those of {self.keys_from}{self._identity_command}"
        texts = [f"{name} {kind}" for name, kind, own in self.columns if own == "string" and not _is_text(kind)]
        if texts:
            yield f"come as text: {', '.join(texts)}"
        if self.generated:
            yield f"computed by the server, which does not send them: {', '.join(self.generated)}"


def _is_text(kind: str) -> bool:
    return kind == "text" or kind.startswith(("character", "uuid", "name", "citext"))


def find_tables(url: str, wanted: Sequence[str] = ()) -> list[FoundTable]:
    """Return the tables of a database that can be captured, by schema and name.

    Partitions, tables of extensions, and temporary and unlogged tables are left out.

    Args:
        url: address of the database.
        wanted: names or patterns, with or without the schema; empty for all tables.

    Raises:
        UnknownTableError: the database has no table, or none for a name or pattern.

    Cost: reads the catalog only.
    """
    with Server(url) as server:
        domains = server.domains()
        found = [
            FoundTable(
                schema=schema,
                name=name,
                rows=None if rows < 0 else rows,
                keys=tuple(keys or ()),
                index=index or "",
                is_primary=bool(is_primary),
                identity=_IDENTITIES[identity],
                columns=tuple(
                    (column, kind, spark_type_of(*base_type(base, modifier, domains)))
                    for column, base, modifier, kind, is_generated in server.rows(_COLUMNS, oid)
                    if not is_generated
                ),
                generated=tuple(column for column, *_, is_generated in server.rows(_COLUMNS, oid) if is_generated),
            )
            for oid, schema, name, rows, identity, keys, index, is_primary in server.rows(_TABLES)
        ]
    return chosen_tables(found, wanted)


def chosen_tables(found: Sequence[FoundTable], wanted: Sequence[str]) -> list[FoundTable]:
    """Return the tables that some names or patterns mean; all without any.

    Raises:
        UnknownTableError: a name or pattern means none of them, or there is none.
    """
    if not found:
        raise UnknownTableError("the database has no table that can be captured", hint="is it the right database?")
    for word in wanted:
        if not any(_means(word, table) for table in found):
            names = ", ".join(table.full_name for table in found[:_SHOWN])
            more = ", …" if len(found) > _SHOWN else ""
            raise UnknownTableError(f"the database has no table {word!r}", hint=f"it has {names}{more}")
    return [table for table in found if not wanted or any(_means(word, table) for word in wanted)]


def _means(word: str, table: FoundTable) -> bool:
    return fnmatchcase(table.full_name, word) or fnmatchcase(table.name, word)


_SHOWN: Final = 20

_TABLES: Final = r"""
SELECT c.oid::int8, n.nspname::text, c.relname::text, c.reltuples::int8, c.relreplident::text,
    k.keys, k.index, k.indisprimary
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN LATERAL (
    SELECT array_agg(a.attname::text ORDER BY place) AS keys, x.relname::text AS index,
        i.indisprimary
    FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
    CROSS JOIN LATERAL unnest((i.indkey::int2[])[:i.indnkeyatts - 1]) WITH ORDINALITY AS of_key (number, place)
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = of_key.number
    WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
        AND i.indexprs IS NULL
    GROUP BY i.indexrelid, i.indisprimary, i.indisreplident, x.relname
    HAVING bool_and(a.attnotnull)
    ORDER BY (c.relreplident = 'i' AND i.indisreplident) DESC, i.indisprimary DESC, x.relname
    LIMIT 1
) k ON true
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
    AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\_%%'
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.classid = 'pg_class'::regclass
        AND d.deptype = 'e')
ORDER BY 2, 3"""

_COLUMNS: Final = """
SELECT attname::text, atttypid::int8, atttypmod, format_type(atttypid, atttypmod), attgenerated <> ''
FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
