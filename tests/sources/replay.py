"""Landing files of PostgreSQL played back in plain Python: the expected table, from their records alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow.parquet as pq

import frazil
from frazil.sources.kinds import captures_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from frazil.sources.capture import Landed

DECLARATION = """\
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
{tables}"""

TABLE = """\
  - name: {name}
    source: {{kind: postgres, url: "${{env:TEST_DB}}", table: {table}, landing: ./landing}}
    keys: [{keys}]
    marts: [{{kind: current}}, {{kind: history}}]
"""


def declare(folder: Path, tables: Mapping[str, str]) -> None:
    """Write a declaration; ``tables`` are the source tables with their keys, such as ``public.orders`` -> ``id``."""
    parts = [
        TABLE.format(name=table.rpartition(".")[2].lower(), table=table, keys=keys) for table, keys in tables.items()
    ]
    (folder / "frazil.yml").write_text(DECLARATION.format(tables="".join(parts)), encoding="utf-8")


def land(folder: Path) -> Landed:
    """Let the capture of a declaration have one turn."""
    pipeline = frazil.load(folder)
    [capture] = captures_of(pipeline, [table.name for table in pipeline.tables])
    return capture.land(pipeline.folder, lambda _: None)


def records(folder: Path, table: str) -> list[dict[str, Any]]:
    """Return the landed records of a table, in order."""
    found = []
    for file in sorted((folder / "landing" / table).rglob("*.parquet")):
        place = f"0/{file.parent.name}/{file.name}" if file.parent.name.startswith("load-") else "1/"
        rows = pq.read_table(file).to_pylist()
        found += [(f"{place}{row['__position'] or ''}", number, row) for number, row in enumerate(rows)]
    return [row for _, _, row in sorted(found, key=lambda one: one[:2])]


def replayed(folder: Path, table: str, keys: Sequence[str]) -> dict[Any, dict[str, Any]]:
    """Play the records of a table back; return its rows by key.

    Strictly: an insert meets no row of its key, an update and a delete meet one.
    """
    rows: dict[Any, dict[str, Any]] = {}
    for record in records(folder, table):
        values = {name: value for name, value in record.items() if not name.startswith("__")}
        for name in json.loads(record["__unchanged"] or "[]"):
            del values[name]
        old = tuple(record.get(f"__old_{key}") for key in keys)
        key = tuple(record[name] for name in keys)
        match record["__op"]:
            case "r" | "i":
                assert key not in rows, record
                rows[key] = values
            case "u":
                before = rows.pop(key if None in old else old)
                rows[key] = {name: value for name, value in before.items() if name in record} | values
            case "d":
                del rows[key]
            case "t":
                rows.clear()
    return rows


def selected(url: str, table: str, keys: Sequence[str]) -> dict[Any, dict[str, Any]]:
    """Return the rows of a table at the source, as text, by key."""
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("SET timezone = 'UTC'")
        session.execute("SET intervalstyle = 'iso_8601'")
        cursor = session.execute(f"SELECT * FROM {table} LIMIT 0")
        names = [column.name for column in cursor.description or ()]
        texts = ", ".join(f'"{name}"::text' for name in names)
        found = session.execute(f"SELECT {texts} FROM {table}").fetchall()
    rows = [dict(zip(names, row, strict=True)) for row in found]
    return {tuple(row[key] for key in keys): row for row in rows}
