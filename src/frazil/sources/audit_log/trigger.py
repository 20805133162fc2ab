"""The SQL that makes a PostgreSQL database write an audit log without losing a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


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
