"""SQL of an audit log's database: the trigger that writes it without losing a commit, queries for unlanded records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from frazil.sources.audit_log.source import Bookmark
    from frazil.spec.model.kinds.audit_log import AuditLog


def audit_trigger(log: str, tables: Iterable[str], *, rows: bool = False) -> str:
    """Return a script that creates an audit log and triggers that write to it. Running it again changes nothing.

    The log has an ``xid8`` column, so that a capture misses no commit. Its sequence has no cache, so that the records
    of one row are numbered in the order of its changes. The trigger fires after each row, while the row is locked. Rows
    of a partition are logged under the name of the given table.

    Args:
        log: the log, as ``schema.table``.
        tables: the tables, each as ``schema.table``.
        rows: True to log the existing rows of a table as inserts when it gets the trigger. The table is locked against
            writes meanwhile.
    """
    schema, name = _parts(log)
    place, function = f"{_quoted(schema)}.{_quoted(name)}", f"{_quoted(schema)}.{_quoted(f'write_{name}')}"
    made = _LOG.format(schema=_quoted(schema), log=place, index=_quoted(f"{name}_xid"), function=function)
    template = f"{_ROWS}{_TRIGGERS}COMMIT;\n" if rows else _TRIGGERS
    for schema, name in map(_parts, tables):
        table = f"{_quoted(schema)}.{_quoted(name)}"
        names = {"of": f"{_text(schema)}, {_text(name)}", "known": _text(table)}
        made += template.format(table=table, function=function, log=place, **names)
    return made


def _parts(text: str) -> tuple[str, str]:
    schema, dot, name = text.rpartition(".")
    return (schema, name) if dot else ("public", text)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


_LOG = """\
-- An audit log that Frazil captures without losing a commit. PostgreSQL 14 or newer.
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {log} (
    audit_event_id bigint GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
    audit_operation text NOT NULL,
    audit_timestamp timestamptz NOT NULL DEFAULT clock_timestamp(),
    audit_txid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    tbl_schema text NOT NULL,
    tbl_name text NOT NULL,
    raw_data jsonb,
    old_data jsonb
);
CREATE INDEX IF NOT EXISTS {index} ON {log} (audit_txid, audit_event_id);

CREATE OR REPLACE FUNCTION {function}() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    INSERT INTO {log} (audit_operation, tbl_schema, tbl_name, raw_data, old_data)
    SELECT left(TG_OP, 1), coalesce(TG_ARGV[0], TG_TABLE_SCHEMA), coalesce(TG_ARGV[1], TG_TABLE_NAME),
        CASE WHEN TG_OP IN ('INSERT', 'UPDATE') THEN to_jsonb(NEW) WHEN TG_OP = 'DELETE' THEN to_jsonb(OLD) END,
        CASE WHEN TG_OP = 'UPDATE' THEN to_jsonb(OLD) END;
    RETURN NULL;
END
$body$;
"""

_ROWS = """
BEGIN;
LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE;
INSERT INTO {log} (audit_operation, tbl_schema, tbl_name, raw_data)
    SELECT 'I', {of}, to_jsonb(one.*) FROM {table} AS one WHERE NOT EXISTS (
        SELECT FROM pg_trigger WHERE tgrelid = {known}::regclass AND tgname = 'frazil_audit_rows');"""
"""CREATE TRIGGER takes the same lock: it waits for transactions that wrote to the table and blocks new writes."""

_TRIGGERS = """
CREATE OR REPLACE TRIGGER frazil_audit_rows AFTER INSERT OR UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION {function}({of});
CREATE OR REPLACE TRIGGER frazil_audit_truncate AFTER TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION {function}({of});
"""


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
