"""Silver and marts in a DuckDB of the test's own, made from drawn changes and the oracle: no lake, no Spark."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from tests.databases import empty_database

from frazil.iceberg.snapshot import TableSnapshot
from frazil.serve.layers import Layer, Layers
from frazil.silver.contract import LAWS, declared_mart, settle
from frazil.spec import Column, Current, DmsFiles, History, Table
from frazil.testing import COLUMNS, current, history, soft

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from frazil.testing import Change

BATCHES = 3
MARTS: dict[str, Current | History] = {
    "hard": Current(),
    "soft": Current(deletes="soft"),
    "close": History(),
    "mark": History(deletes="mark"),
    "tracked": History(track_history_columns=("name",)),
    "untracked": History(track_history_columns=()),
}
ADDED = {"soft": ("is_deleted", "deleted_at"), "hard": ()}
VERSION = ("valid_from", "valid_to", "is_current", "is_deleted")
TYPES = {
    "id": "INT",
    "ts": "TIMESTAMPTZ",
    "name": "TEXT",
    "qty": "INT",
    "note": "TEXT",
    "is_deleted": "BOOLEAN",
    "deleted_at": "TIMESTAMPTZ",
    "valid_from": "TIMESTAMPTZ",
    "valid_to": "TIMESTAMPTZ",
    "is_current": "BOOLEAN",
    "_cdc_position": "TEXT",
    "_cdc_row": "BIGINT",
}
MANY = 2_000_000
"""Rows that tables say they have, so that they are proven in two parts."""


class InMemory(Layer):
    """A table of the test's own database, in place of one of a lake."""

    @property
    def rows(self) -> str:
        return self.name


def layer(name: str, columns: dict[str, str], **bookmark: Any) -> Layer:
    stands = TableSnapshot(
        columns=columns, bookmark={"batch": BATCHES, **bookmark}, summary={"total-records": f"{MANY}"}
    )
    return InMemory(name=name, location="memory", snapshot=stands)


def layers(*, partial: bool, change_seq: str | None = None, marts: tuple[str, ...] = ()) -> Layers:
    """Tables of one source table; ``changes`` and marts are in the database."""
    columns = tuple(Column(name=name, type=kind) for name, kind in COLUMNS.items())
    source = DmsFiles(path=("x",), change_seq=change_seq)
    table = Table(name="things", source=source, keys=("id",), sequence_by=("ts",), columns=columns)
    changes = layer("changes", COLUMNS | {"_cdc_source_time": "timestamp"}, partial=partial, laws=LAWS)
    return Layers(
        table=table,
        bronze=changes,
        changes=changes,
        quarantine=changes,
        marts=tuple((MARTS[name], layer(name, COLUMNS, declared=declared_mart(table, MARTS[name]))) for name in marts),
        columns=tuple(COLUMNS),
        contract=settle(table, {}),
        event_times=("ts",),
        fields={},
    )


def with_marts(here: Layers, *marts: Layer) -> Layers:
    """Put other tables in place of the marts of the same names."""
    by_name = {mart.name: mart for mart in marts}
    return replace(here, marts=tuple((mart, by_name.get(old.name, old)) for mart, old in here.marts))


@contextmanager
def database(changes: list[Change], copies: int = 2) -> Iterator[duckdb.DuckDBPyConnection]:
    """Keep changes in the shape of silver; ``copies`` of each, for what is there twice counts once."""
    rows = []
    for number, change in enumerate(changes * copies):
        known = None if change.values.keys() >= COLUMNS.keys() else [*change.values]
        kind = "delete" if change.deleted else "upsert"
        values = [change.values.get(name) for name in COLUMNS]
        source = change.source_time if change.deleted else None
        rows.append([*values, kind, change.position, change.row, number % BATCHES + 1, known, source])
    with empty_database() as connection:
        connection.execute(
            "CREATE TABLE changes (id INT, ts TIMESTAMPTZ, name TEXT, qty INT, note TEXT, _cdc_class TEXT, "
            "_cdc_position TEXT, _cdc_row BIGINT, _cdc_batch BIGINT, _cdc_known TEXT[], _cdc_source_time TIMESTAMPTZ)"
        )
        insert(connection, "changes", rows)
        yield connection


def insert(connection: duckdb.DuckDBPyConnection, table: str, rows: list[list[Any]]) -> None:
    """Insert all rows at once: as Arrow, which takes a tenth of the time of parameters."""
    if rows:
        columns = [pa.array(column) for column in zip(*rows, strict=True)]
        connection.register("given", pa.table(columns, names=[f"_{number}" for number in range(len(columns))]))
        connection.execute(f"INSERT INTO {table} FROM given")
        connection.unregister("given")


def shown(name: str) -> tuple[str, ...]:
    """Columns of a mart, in order."""
    return (*COLUMNS, *ADDED.get(name, VERSION), "_cdc_position", "_cdc_row")


def oracle(name: str, changes: list[Change]) -> list[dict[str, Any]]:
    """Rows that a mart must hold."""
    match MARTS[name]:
        case Current(deletes="hard"):
            return current(changes, list(COLUMNS))
        case Current():
            return soft(changes, list(COLUMNS))
        case History() as mart:
            tracked: tuple[str, ...] = ("name", "qty", "note")
            if mart.track_history_columns is not None:
                tracked = mart.track_history_columns
            return history(changes, list(COLUMNS), tracked, mart.deletes)


def fill(connection: duckdb.DuckDBPyConnection, name: str, changes: list[Change]) -> None:
    """Make a mart that holds what it must."""
    columns = ", ".join(f"{column} {TYPES[column]}" for column in shown(name))
    connection.execute(f"CREATE TABLE {name} ({columns})")
    insert(connection, name, [[row[column] for column in shown(name)] for row in oracle(name, changes)])
