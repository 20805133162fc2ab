"""What the catalog of a PostgreSQL server says of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.sources.postgres.known import Column, Known

if TYPE_CHECKING:
    from frazil.sources.postgres.server import Server, ServerTable


def known_table(server: Server, table: ServerTable) -> Known:
    """Ask the server for what a table is now."""
    described = zip(table.numbers, table.columns, table.types, strict=True)
    columns = {number: Column(name=name, type=kind[0], modifier=kind[1]) for number, name, kind in described}
    return Known(
        oid=table.oid,
        place=(table.schema, table.name),
        columns=columns,
        last=max(columns, default=0),
        filled=table.filled,
        filenode=server.one("SELECT coalesce(pg_relation_filenode(%s::int8::oid), 0)::int8", table.oid),
        partitions=dict(server.rows(_PARTITIONS, table.oid)),
        labels=dict(server.rows(_LABELS, [kind for kind, _ in table.types])),
        row_filter=table.row_filter,
        generated=table.generated,
    )


_PARTITIONS: Final = """
SELECT t.relid::oid::int8, i.xmin::text::int8
FROM pg_partition_tree(%s::int8::oid) t JOIN pg_inherits i ON i.inhrelid = t.relid WHERE t.level > 0"""
"""A partition that was detached and attached again has another transaction."""

_LABELS: Final = """
WITH RECURSIVE types AS (
    SELECT unnest(%s::int8[])::oid AS oid
    UNION
    SELECT CASE WHEN y.typtype = 'd' THEN y.typbasetype ELSE y.typelem END
    FROM types JOIN pg_type y USING (oid) WHERE y.typtype = 'd' OR y.typelem <> 0)
SELECT e.oid::int8, e.enumlabel::text FROM pg_enum e JOIN types ON types.oid = e.enumtypid"""
