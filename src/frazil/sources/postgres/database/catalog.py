"""What the catalog of a PostgreSQL server says of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.sources.postgres.database.known import Column, Known

if TYPE_CHECKING:
    from frazil.sources.postgres.database.server import Server, ServerTable


def known_table(server: Server, table: ServerTable) -> Known:
    """Ask the server for what a table is now, in one query: it is asked at each turn."""
    described = zip(table.numbers, table.columns, table.types, table.altered, strict=True)
    columns = {
        number: Column(name=name, type=kind[0], modifier=kind[1], altered=altered)
        for number, name, kind, altered in described
    }
    types = [kind for kind, _ in table.types]
    [(filenode, partitions, attached, numbers, labels)] = server.rows(_KNOWN, table.oid, types, table.oid)
    return Known(
        oid=table.oid,
        place=(table.schema, table.name),
        columns=columns,
        last=max(columns, default=0),
        filled=table.filled,
        filenode=filenode or 0,
        partitions=dict(zip(partitions or (), attached or (), strict=True)),
        labels=dict(zip(numbers or (), labels or (), strict=True)),
        row_filter=table.row_filter,
        generated=table.generated,
        identity=table.identity,
    )


_KNOWN: Final = """
WITH RECURSIVE parts AS (
    SELECT t.relid::oid::int8 AS part, i.xmin::text::int8 AS attached
    FROM pg_partition_tree(%s::int8::oid) t JOIN pg_inherits i ON i.inhrelid = t.relid WHERE t.level > 0),
types AS (
    SELECT unnest(%s::int8[]::oid[]) AS oid
    UNION
    SELECT CASE WHEN y.typtype = 'd' THEN y.typbasetype ELSE y.typelem END
    FROM types JOIN pg_type y USING (oid) WHERE y.typtype = 'd' OR y.typelem <> 0),
labels AS (
    SELECT e.oid::int8 AS number, e.enumlabel::text AS label FROM pg_enum e JOIN types ON types.oid = e.enumtypid)
SELECT pg_relation_filenode(%s::int8::oid)::int8,
    (SELECT array_agg(part ORDER BY part) FROM parts), (SELECT array_agg(attached ORDER BY part) FROM parts),
    (SELECT array_agg(number ORDER BY number) FROM labels), (SELECT array_agg(label ORDER BY number) FROM labels)"""
"""A partition that was detached and attached again has another transaction; a label that was renamed its number."""
