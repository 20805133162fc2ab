"""What a table must hold, computed by DuckDB straight from the files, and what it does hold.

Both are folded to one line: the number of rows and the sum of a hash over all columns as text. The laws are those of
SEMANTICS.md, written once more and otherwise than Frazil has them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import duckdb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LAWS: Final = 2
"""Number of the laws that are computed; raised with every change of them, so that no answer of older laws is kept."""

BY_SOURCE: Final = "source"
"""A delete whose ``updated_at`` does not move is timed by its file's name, and removes no version (HISTORY)."""

BY_COLUMN: Final = "column"
"""A delete is timed by its ``updated_at`` only: at the time of a version it takes that version's place."""

HISTORY_COLUMNS: Final = {
    "valid_from": "timestamp",
    "valid_to": "timestamp",
    "is_current": "boolean",
    "is_deleted": "boolean",
}


def records_sql(files: Sequence[Path], columns: Mapping[str, str]) -> str:
    """Write the query that reads DMS files typed, with their op, file and ``place`` in the order of the source."""
    types = {"op": "varchar"} | {name: _duck(kind) for name, kind in columns.items()}
    return (
        "SELECT *, row_number() OVER () AS place FROM read_csv("
        f"{[str(path) for path in sorted(files, key=lambda path: (path.name[:4] != 'LOAD', path.name))]}, "
        f"filename = 'file', header = true, nullstr = 'NULL', quote = '\"', escape = '\"', columns = {types})"
    )


def newest_sql(files: Sequence[Path], columns: Mapping[str, str]) -> str:
    """Write the query for the newest change of every key in the files, with its op."""
    whole = ", ".join(f"{name} := {name}" for name in ("op", *columns))
    fields = ", ".join(f"kept.{name} AS {name}" for name in ("op", *columns))
    order = "struct_pack(updated_at := updated_at, place := place)"
    return (
        f"SELECT {fields} FROM (SELECT id, arg_max(struct_pack({whole}), {order}) AS kept "
        f"FROM ({records_sql(files, columns)}) GROUP BY id)"
    )


def expected(
    mart: str,
    load: Sequence[Path],
    changes: Sequence[Path],
    columns: Mapping[str, str],
    keep: Path,
    *,
    deletes: str = BY_SOURCE,
) -> str:
    """Compute the checksum that a mart must have after a full load and changes.

    Args:
        mart: ``current`` (a delete takes the row away) or ``history`` (a delete closes the last version).
        load: full load files; every key is in them once.
        changes: all change files that were applied.
        columns: names and types.
        keep: file that remembers checksums already computed.
        deletes: how a history times deletes, ``BY_SOURCE`` or ``BY_COLUMN``.
    """
    known: dict[str, str] = json.loads(keep.read_text(encoding="utf-8")) if keep.is_file() else {}
    names = (f"{path.parent.parent.name}/{path.parent.name}/{path.name}" for path in (*load, *changes))
    question = json.dumps([LAWS, mart, deletes, *names])
    if question not in known:
        with duckdb.connect() as db:
            columns_sql = ", ".join(columns)
            # It is read twice rather than kept, as it may be larger than the memory.
            db.execute(f"CREATE VIEW loaded AS {records_sql(load, columns)}")
            if changes:
                db.execute(f"CREATE TABLE changed AS {records_sql(changes, columns)}")
            else:
                db.execute("CREATE TABLE changed AS FROM loaded LIMIT 0")
            db.execute("CREATE TABLE touched AS SELECT DISTINCT id FROM changed")
            db.execute(
                f"CREATE VIEW touching AS SELECT op, 0 AS part, place, file, {columns_sql} FROM loaded "
                f"SEMI JOIN touched USING (id) UNION ALL SELECT op, 1, place, file, {columns_sql} FROM changed"
            )
            rows = _current_sql(columns) if mart == "current" else _history_sql(columns, deletes)
            known[question] = _checksum(db, rows, mart_columns(mart, columns))
        keep.parent.mkdir(parents=True, exist_ok=True)
        keep.write_text(json.dumps(known, indent=1), encoding="utf-8")
    return known[question]


def found(mart: str, folder: Path, columns: Mapping[str, str]) -> str:
    """Compute the checksum of a table that a contender wrote to Parquet files."""
    with duckdb.connect() as db:
        files = [str(path) for path in sorted(folder.rglob("*.parquet"))]
        return _checksum(db, f"SELECT * FROM read_parquet({files})", mart_columns(mart, columns))


def mart_columns(mart: str, columns: Mapping[str, str]) -> dict[str, str]:
    """Name the columns that count in a mart, and their types."""
    return dict(columns) | (HISTORY_COLUMNS if mart == "history" else {})


def _current_sql(columns: Mapping[str, str]) -> str:
    names = ", ".join(columns)
    return (
        f"SELECT {names} FROM loaded ANTI JOIN touched USING (id) "
        f"UNION ALL SELECT {names} FROM (FROM touching "
        "QUALIFY row_number() OVER (PARTITION BY id ORDER BY updated_at DESC, part DESC, place DESC) = 1) "
        "WHERE op <> 'D'"
    )


def _history_sql(columns: Mapping[str, str], deletes: str) -> str:
    names = ", ".join(columns)
    changed = _by_source_sql() if deletes == BY_SOURCE else _by_column_sql()
    return (
        f"SELECT {names}, updated_at AS valid_from, NULL::TIMESTAMP AS valid_to, "
        f"true AS is_current, false AS is_deleted FROM loaded ANTI JOIN touched USING (id) UNION ALL "
        f"SELECT {names}, began, next_at, next_at IS NULL, coalesce(next_op = 'D', false) FROM ("
        "SELECT *, lead(began) OVER later AS next_at, lead(op) OVER later AS next_op "
        f"FROM ({changed}) WINDOW later AS (PARTITION BY id ORDER BY updated_at, part, place)) WHERE op <> 'D'"
    )


def _by_source_sql() -> str:
    """Write the changes that stand, each with when it ``began``.

    The generator never repeats a state by chance, so equal neighbours need no care beyond equal times.
    """
    named = "try_strptime(regexp_extract(file, '([0-9]{8}-[0-9]{9})[.]csv$', 1), '%Y%m%d-%H%M%S%g')"
    return (
        "SELECT * FROM (SELECT *, max(happened) OVER so_far AS began FROM ("
        "SELECT *, CASE WHEN op <> 'D' OR told IS NULL OR updated_at > told THEN updated_at "
        f"ELSE greatest(told, {named}) END AS happened FROM ("
        "SELECT *, max(updated_at) FILTER (op <> 'D') OVER so_far AS told FROM touching "
        "WINDOW so_far AS (PARTITION BY id ORDER BY updated_at, part, place))) "
        "WINDOW so_far AS (PARTITION BY id ORDER BY updated_at, part, place)) "
        "WINDOW later AS (PARTITION BY id ORDER BY updated_at, part, place) "
        "QUALIFY (lead(began) OVER later, lead(op) OVER later = 'D') IS DISTINCT FROM (began, op = 'D')"
    )


def _by_column_sql() -> str:
    return (
        "SELECT *, updated_at AS began FROM touching "
        "QUALIFY row_number() OVER (PARTITION BY id, updated_at ORDER BY part DESC, place DESC) = 1"
    )


def checksum_sql(rows: str, columns: Mapping[str, str]) -> str:
    """Write the query for the number of some rows and the sum of their hashes, which make a checksum."""
    text = ", '|', ".join(f"coalesce({_as_text(name, kind)}, '~')" for name, kind in columns.items())
    return f"SELECT count(*), coalesce(sum(hash(concat({text}))), 0) FROM ({rows})"


def _checksum(db: duckdb.DuckDBPyConnection, rows: str, columns: Mapping[str, str]) -> str:
    answer = db.execute(checksum_sql(rows, columns)).fetchone()
    if answer is None:
        raise RuntimeError("DuckDB gives no checksum")
    return f"{answer[0]}:{answer[1]}"


def _as_text(name: str, kind: str) -> str:
    if kind == "timestamp":  # microseconds, so that a type with and one without time zone read the same
        return f"epoch_us({name})::VARCHAR"
    return f"({name}::{_duck(kind)})::VARCHAR"


def _duck(kind: str) -> str:
    return {"string": "varchar", "int": "integer"}.get(kind, kind)
