"""The fold in DuckDB's SQL says what the oracle says, for any stream of changes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from frazil.serve.fold import ties, wanted
from frazil.serve.layers import Layer, Layers
from frazil.serve.query import result_of
from frazil.serve.tables import Stand
from frazil.spec import Column, Current, DmsFiles, History, Table
from frazil.testing import COLUMNS, as_files, current, history, oracle_changes, random_history, soft

if TYPE_CHECKING:
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
ADDED = {"soft": ("is_deleted", "deleted_at")}
VERSION = ("valid_from", "valid_to", "is_current", "is_deleted")


class InMemory(Layer):
    """A table of the test's own database, in place of one of a lake."""

    @property
    def rows(self) -> str:  # noqa: D102 - as in its class
        return "changes"


def layer(columns: dict[str, str], **bookmark: Any) -> Layer:
    stands = Stand(columns=columns, bookmark={"batch": BATCHES, **bookmark})
    return InMemory(name="things", location="memory", stand=stands)


def layers(*, partial: bool) -> Layers:
    columns = tuple(Column(name=name, type=kind) for name, kind in COLUMNS.items())
    table = Table(name="things", source=DmsFiles(path=("x",)), keys=("id",), sequence_by=("ts",), columns=columns)
    changes = layer(COLUMNS, partial=partial)
    return Layers(
        table=table,
        bronze=changes,
        changes=changes,
        quarantine=changes,
        marts=(),
        columns=tuple(COLUMNS),
        event_times=("ts",),
        fields={},
    )


def database(changes: list[Change]) -> duckdb.DuckDBPyConnection:
    """Keep changes in the shape of silver, two of each, for what is there twice counts once."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(
        "CREATE TABLE changes (id INT, ts TIMESTAMPTZ, name TEXT, qty INT, note TEXT, _cdc_class TEXT, "
        "_cdc_position TEXT, _cdc_row BIGINT, _cdc_batch BIGINT, _cdc_known TEXT[])"
    )
    for number, change in enumerate(changes * 2):
        known = None if change.values.keys() >= COLUMNS.keys() else [*change.values]
        kind = "delete" if change.deleted else "upsert"
        values = [change.values.get(name) for name in COLUMNS]
        place = [kind, change.position, change.row, number % BATCHES + 1, known]
        connection.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", [*values, *place])
    return connection


def oracle(name: str, changes: list[Change]) -> list[dict[str, Any]]:
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


@pytest.mark.parametrize("name", MARTS)
@pytest.mark.parametrize("narrow", [0.0, 0.4])
@pytest.mark.parametrize("seed", range(6))
def test_it_holds_what_the_oracle_holds(seed: int, narrow: float, name: str) -> None:
    files = as_files(random_history(seed, size=40, keys=4, ties=0.4), seed, narrow=narrow)
    changes = oracle_changes(files)
    extra = ADDED.get(name, ()) if isinstance(MARTS[name], Current) else VERSION
    shown = (*COLUMNS, *extra, "_cdc_position", "_cdc_row")

    with database(changes) as connection:
        here = layers(partial=narrow > 0)
        found = result_of(connection.sql(wanted(here, MARTS[name], layer(COLUMNS)))).rows
        tied = connection.sql(ties(here)).fetchall()

    assert tied == []
    assert Counter(found) == Counter(tuple(row[column] for column in shown) for row in oracle(name, changes))


def test_changes_that_only_their_content_orders_are_found() -> None:
    changes = oracle_changes({"1.csv": [{"op": "I", "id": "1", "ts": "2026-01-01", "name": "a"}]})
    other = oracle_changes({"1.csv": [{"op": "I", "id": "1", "ts": "2026-01-01", "name": "b"}]})

    with database(changes + other) as connection:
        assert connection.sql(ties(layers(partial=True))).fetchall() == [(1,)]


def test_a_column_that_came_later_is_filled_from_nothing_before() -> None:
    """Before batch 2 nobody knew ``note``; its NULL there is no value, afterwards it is one."""
    rows = [
        {"op": "I", "id": "1", "ts": f"2026-01-0{day}", "name": "a", "qty": None, "note": note}
        for day, note in ((1, "old"), (2, None), (3, None))
    ]
    with database([]) as connection:
        for batch, change in zip((2, 1, 2), oracle_changes({"1.csv": rows[:2], "2.csv": rows[2:]}), strict=True):
            connection.execute(
                "INSERT INTO changes VALUES (?, ?, ?, ?, ?, 'upsert', ?, ?, ?, NULL)",
                [*change.values.values(), change.position, change.row, batch],
            )
        changes = layer(COLUMNS, since={"note": 2})
        here = layers(partial=False)
        late = Layers(
            table=here.table,
            bronze=changes,
            changes=changes,
            quarantine=changes,
            marts=(),
            columns=here.columns,
            event_times=("ts",),
            fields={},
        )
        found = result_of(connection.sql(wanted(late, History(), layer(COLUMNS)))).rows

    assert [(row[4], row[5].day) for row in sorted(found, key=lambda row: row[5])] == [("old", 1), (None, 3)]
