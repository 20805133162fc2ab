"""The SQL with which a PostgreSQL database writes an audit log that can be captured exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def audit_trigger(log: str, tables: Iterable[str]) -> str:
    """Return a script that makes an audit log and lets tables write to it; to run it again changes nothing.

    The log has an ``xid8`` column, so that no commit is missed, and a sequence without a cache, so that the numbers of
    one row's records are in the order of its changes. Its trigger fires after each row, while the row is locked.

    Args:
        log: the log, as ``schema.table``.
        tables: the tables, each as ``schema.table``.
    """
    schema, name = _parts(log)
    place, function = f"{_quoted(schema)}.{_quoted(name)}", f"{_quoted(schema)}.{_quoted(f'write_{name}')}"
    made = _LOG.format(schema=_quoted(schema), log=place, index=_quoted(f"{name}_xid"), function=function)
    return made + "".join(_TRIGGERS.format(table=_table(one), function=function) for one in tables)


def _table(text: str) -> str:
    schema, name = _parts(text)
    return f"{_quoted(schema)}.{_quoted(name)}"


def _parts(text: str) -> tuple[str, str]:
    schema, dot, name = text.rpartition(".")
    return (schema, name) if dot else ("public", text)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


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
    SELECT left(TG_OP, 1), TG_TABLE_SCHEMA, TG_TABLE_NAME,
        CASE WHEN TG_OP IN ('INSERT', 'UPDATE') THEN to_jsonb(NEW) WHEN TG_OP = 'DELETE' THEN to_jsonb(OLD) END,
        CASE WHEN TG_OP = 'UPDATE' THEN to_jsonb(OLD) END;
    RETURN NULL;
END
$body$;
"""

_TRIGGERS = """
CREATE OR REPLACE TRIGGER frazil_audit_rows AFTER INSERT OR UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION {function}();
CREATE OR REPLACE TRIGGER frazil_audit_truncate AFTER TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION {function}();
"""
