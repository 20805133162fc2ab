"""Queries for the records of an audit log that may not be landed yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.sources.audit_log.landing import Bookmark
    from frazil.spec.model.kinds.audit_log import AuditLog

_EPOCH: Final = 1 << 32


class UnlandedRecords:
    """Queries for records that the snapshot of a bookmark did not see, or may not have seen.

    Args:
        sources: sources of the tables, all in one log.
        before: bookmark of the last turn.
    """

    def __init__(self, sources: Sequence[AuditLog], before: Bookmark) -> None:
        from psycopg import sql  # noqa: PLC0415 - see connected

        self._sql, self._sources, self._before = sql, sources, before
        self._spec = sources[0]
        self._log = log_name(self._spec)
        self._id = sql.Identifier(self._spec.event_id)

    def query(self, snapshot: str) -> tuple[Any, list[Any]]:
        """Write the query for records that may not be landed: columns as text, then the xid, ordered by number."""
        sql = self._sql
        condition, values = self.condition(snapshot)
        texts = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in self.columns())
        query = sql.SQL("SELECT {}, {} FROM {} WHERE {} ORDER BY {}").format(
            texts, self._xid(snapshot), self._log, condition, self._id
        )
        return query, values

    def age_query(self, snapshot: str) -> tuple[Any, list[Any]]:
        """Write the query for the age of the oldest unlanded record, in seconds."""
        sql = self._sql
        condition, values = self.condition(snapshot)
        query = sql.SQL(
            "SELECT extract(epoch FROM clock_timestamp() - min({time})::timestamptz)::float8 FROM {log} "
            "WHERE {condition} AND NOT {id} = ANY(%s)"
        ).format(time=sql.Identifier(self._spec.timestamp), log=self._log, condition=condition, id=self._id)
        return query, [*values, self._before.seen]

    def passed_query(self, snapshot: str) -> tuple[Any, list[Any]]:
        """Write the query that finds a new transaction with an old number.

        Cost: reads the whole log.
        """
        query = self._sql.SQL("SELECT EXISTS (SELECT FROM {log} WHERE {x} >= %s AND {id} <= %s)").format(
            log=self._log, x=self._xid(snapshot), id=self._id
        )
        return query, [int((self._before.snapshot or "0:0").split(":")[1]), self._before.greatest]

    def columns(self) -> list[str]:
        """Return the columns of the log that landing files contain."""
        spec = self._spec
        columns = [spec.event_id, spec.operation, spec.timestamp, spec.schema_name, spec.table_name, spec.data]
        return [*columns, spec.old_data] if spec.old_data else columns

    def _xid(self, snapshot: str) -> Any:
        """Write the SQL of a record's transaction number, extended so that it does not wrap around."""
        sql = self._sql
        if self._spec.xid is not None:
            return sql.SQL("{}::text::bigint").format(sql.Identifier(self._spec.xid))
        end = int(snapshot.split(":")[1])
        base = end // _EPOCH * _EPOCH
        here, lower = sql.Literal(base), sql.Literal(base - _EPOCH)
        return sql.SQL("CASE WHEN {b} + xmin::text::bigint < {e} THEN {b} ELSE {l} END + xmin::text::bigint").format(
            b=here, e=sql.Literal(end), l=lower
        )

    def _of_tables(self, sources: Sequence[AuditLog]) -> tuple[Any, list[str]]:
        """Write the condition that selects the records of some tables."""
        sql, parts, values = self._sql, [], []
        for source in sources:
            schema, table = source.schema_and_table
            one = sql.SQL("{} = %s").format(sql.Identifier(source.table_name))
            values.append(table)
            if schema is not None:
                one = sql.SQL("({} AND {} = %s)").format(one, sql.Identifier(source.schema_name))
                values.append(schema)
            parts.append(one)
        return (sql.SQL("(") + sql.SQL(" OR ").join(parts) + sql.SQL(")") if parts else sql.SQL("false")), values

    def condition(self, snapshot: str) -> tuple[Any, list[Any]]:
        """Write the condition that selects records that may not be landed."""
        sql, before = self._sql, self._before
        level = [source for source in self._sources if before.snapshot and source.table in before.tables]
        others = [source for source in self._sources if source not in level]
        known, values = self._of_tables(level)
        new, more = self._of_tables(others)
        begin = (before.snapshot or "0").split(":")[0]
        if self._spec.xid is not None:
            xid = sql.Identifier(self._spec.xid)
            since = sql.SQL("{x} >= %s::xid8 AND NOT pg_visible_in_snapshot({x}, %s::pg_snapshot)").format(x=xid)
            bounds: list[Any] = [begin, before.snapshot or "1:1:"]
        else:
            since = sql.SQL("{x} >= %s AND {i} > %s").format(x=self._xid(snapshot), i=self._id)
            bounds = [int(begin), before.low]
        return sql.SQL("(({} AND {}) OR {})").format(known, since, new), [*values, *bounds, *more]


def log_name(spec: AuditLog) -> Any:
    """Return the quoted name of a log."""
    from psycopg import sql  # noqa: PLC0415 - see connected

    return sql.Identifier(*(spec.log or "").split("."))
