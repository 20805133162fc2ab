"""What data engineers reported of other pipelines: small inputs of that nature, with what is right.

All tables are in one lake and one run. A table is right, or it is refused with a code; none is silently wrong. The same
questions about PostgreSQL, with real servers, are in ``tests/sources``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from frazil import api
from frazil.runner.report import RunFailedError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_DMS, _DEBEZIUM = "kind: dms, header: true", "kind: debezium, settle_seconds: 0"
_LOG = "kind: audit_log, table: public.o"
_ORDERS = "columns: [{name: id, type: int}, {name: status}, {name: updated_at, type: timestamp}]"
_SEQUENCED = ("sequence_by: [updated_at]", _ORDERS, "marts: [{kind: current}, {kind: history}]")
_TIMED = ("effective_at: updated_at", _ORDERS, "marts: [{kind: current}, {kind: history}]")
_VALUES = "columns: [{name: id, type: int}, {name: v}]"
_RATES = "columns: [{name: id, type: int}, {name: pct, type: int}]"

TABLES: dict[str, tuple[str, ...]] = {
    "key_only": (_DMS, *_SEQUENCED),
    "old_time": (_DMS, *_SEQUENCED),
    "same_second": (_DMS, *_SEQUENCED),
    "digits": (_DMS, "columns: [{name: id, type: int}, {name: at_time, type: timestamp}]"),
    "shifted": (f"{_DMS}, before_image_prefix: BI_", _VALUES),
    "op_column": ("kind: dms, op: dms_op, fields: [id, op, note]",),
    "dropped": ("kind: dms, fields: [id, name, n]",),
    "spans": (_DEBEZIUM,),
    "placeholders": (_DEBEZIUM,),
    "flat_reads": (f"{_DEBEZIUM}, form: flat", _RATES),
    "late_reads": (_DEBEZIUM, _RATES),
    "moved": (_DEBEZIUM,),
    "documents": (_DEBEZIUM,),
    "printed_avro": (_DEBEZIUM,),
    "whole_image": (_DEBEZIUM, *_TIMED),
    "key_image": (_DEBEZIUM, *_TIMED),
    "logged": (_LOG, *_TIMED),
    "log_shifted": (f"{_LOG}, old_data: old_data", _VALUES),
}
"""Name -> settings of the table's source, and its own settings but for the key ``id``."""

_LOAD, _CHANGES = "LOAD00000001.csv", "20240302-101500123.csv"
_HEAD = "id,status,updated_at\n1,new,2024-03-01 10:00:00\n2,new,2024-03-01 10:00:00\n"


def _event(op: str, before: Any, after: Any, **source: Any) -> dict[str, Any]:
    told = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "o", "snapshot": "false"}
    return {"op": op, "before": before, "after": after, "source": told | source}


def _span(key: int, micros: int) -> dict[str, Any]:
    kinds = [{"field": "id", "type": "int32"}, {"field": "span", "type": "int64", "name": "io.debezium.time.MicroTime"}]
    schema = {
        "type": "struct",
        "fields": [{"field": side, "type": "struct", "fields": kinds} for side in ("before", "after")],
    }
    event = _event(
        "c", None, {"id": key, "span": micros}, connector="mysql", file="bin.000003", pos=key, row=0, ts_ms=key
    )
    return {"schema": schema, "payload": event}


def _moved(offset: int, op: str, key: int, status: str, **source: Any) -> dict[str, Any]:
    told = _event(op, None, {"id": key, "status": status}, connector="mysql", schema=None, row=0, **source)
    return {"key": {"id": key}, "value": told, "topic": "t", "partition": 0, "offset": offset}


def _order(op: str, day: int, key: int, status: str | None, updated: str | None) -> dict[str, Any]:
    """Return a change of an order on a day of March; a delete has the given image of the row."""
    row = {"id": key, "status": status, "updated_at": updated}
    time = 1_709_251_200_000 + 86_400_000 * (day - 1)  # the first of March 2024
    return _event(op, row if op == "d" else None, None if op == "d" else row, lsn=100 * day + key, ts_ms=time)


def _record(number: int, op: str, time: str, row: Any, old: Any = None) -> dict[str, Any]:
    told = {"audit_event_id": number, "audit_operation": op, "audit_timestamp": time, "raw_data": row, "old_data": old}
    return told | {"tbl_schema": "public", "tbl_name": "o"}


_UNAVAILABLE = "__debezium_unavailable_value"
_FIRST, _SECOND = "2024-03-01 00:00:00", "2024-03-02 00:00:00"
_ORDER_EVENTS = [_order("c", 1, 1, "new", _FIRST), _order("c", 1, 2, "new", _FIRST), _order("u", 2, 1, "paid", _SECOND)]
LINES: dict[str, list[Any]] = {
    "spans": [
        _span(1, 36_900_000_000),
        _span(2, 108_900_000_000),
        _span(3, -5_400_000_000),
        _span(4, 3_020_399_000_000),
    ],
    "placeholders": [
        _event("c", None, {"id": 1, "n": 1, "text": "long", "texts": ["a"], "map": {"k": "v"}}, lsn=1, ts_ms=1),
        _event(
            "u",
            None,
            {"id": 1, "n": 2, "text": _UNAVAILABLE, "texts": [_UNAVAILABLE], "map": {_UNAVAILABLE: _UNAVAILABLE}},
            lsn=2,
            ts_ms=2,
        ),
    ],
    "flat_reads": [
        {"id": 1, "pct": 70, "__op": "d", "__deleted": "true", "__source_ts_ms": 1000},
        {"id": 1, "pct": 510, "__op": "c", "__deleted": "false", "__source_ts_ms": 1000},
        {"id": 2, "pct": 510, "__op": "u", "__deleted": "false", "__source_ts_ms": 1000},
        {"id": 1, "pct": 70, "__op": "r", "__deleted": "false", "__source_ts_ms": 9000},
        {"id": 2, "pct": 70, "__op": "r", "__deleted": "false", "__source_ts_ms": 9000},
    ],
    "late_reads": [
        _event("u", None, {"id": 1, "pct": 510}, connector="vitess", ts_ms=1000),
        _event("r", None, {"id": 1, "pct": 70}, connector="vitess", ts_ms=9000, snapshot="true"),
    ],
    "moved": [
        _moved(0, "c", 1, "new", file="bin.000120", pos=500, server_id=1, ts_ms=1000),
        _moved(1, "c", 2, "new", file="bin.000120", pos=600, server_id=1, ts_ms=2000),
        _moved(2, "u", 1, "paid", file="bin.000007", pos=400, server_id=2, ts_ms=600_000),
        _moved(3, "u", 2, "sent", file="bin.000007", pos=800, server_id=2, ts_ms=700_000),
    ],
    "documents": [_event("c", None, '{"_id": {"$oid": "65a0"}, "status": "new"}', connector="mongodb", ts_ms=1)],
    "printed_avro": [
        _event("c", None, {"shop.public.o.Value": {"id": 1, "status": {"string": "new"}}}, lsn=1, ts_ms=1)
    ],
    "whole_image": [*_ORDER_EVENTS, _order("d", 5, 1, "paid", _SECOND), _order("d", 5, 2, "new", _FIRST)],
    "key_image": [*_ORDER_EVENTS, _order("d", 5, 1, None, None), _order("d", 5, 2, None, None)],
    "logged": [
        _record(1, "I", "2024-03-01 00:00:01", {"id": 1, "status": "new", "updated_at": _FIRST}),
        _record(2, "I", "2024-03-01 00:00:01", {"id": 2, "status": "new", "updated_at": _FIRST}),
        _record(3, "U", "2024-03-02 00:00:01", {"id": 1, "status": "paid", "updated_at": _SECOND}),
        _record(4, "D", "2024-03-05 00:00:00", {"id": 1, "status": "paid", "updated_at": _SECOND}),
        _record(5, "D", "2024-03-05 00:00:00", {"id": 2, "status": "new", "updated_at": _FIRST}),
    ],
    "log_shifted": [
        *(_record(key, "I", _FIRST, {"id": key, "v": value}) for key, value in ((1, "a"), (2, "b"), (3, "c"))),
        *(
            _record(10 + key, "U", _SECOND, {"id": key + 1, "v": value}, {"id": key, "v": value})
            for key, value in ((1, "a"), (2, "b"), (3, "c"))
        ),
    ],
}
FILES: dict[str, dict[str, str]] = {
    "key_only": {_LOAD: _HEAD, _CHANGES: "Op,id,status,updated_at\nU,1,paid,2024-03-02 09:00:00\nD,2,,\n"},
    "old_time": {
        _LOAD: _HEAD,
        _CHANGES: "Op,id,status,updated_at\nU,1,paid,2024-03-02 09:00:00\n",
        "20240305-101500123.csv": "Op,id,status,updated_at\n"
        "D,1,paid,2024-03-02 09:00:00\nD,2,new,2024-03-01 10:00:00\n",
    },
    "same_second": {
        _CHANGES: "Op,id,status,updated_at\n"
        "I,1,new,2024-03-02 10:14:00\nD,1,new,2024-03-02 10:14:00\nI,1,again,2024-03-02 10:14:00\n"
        "I,2,new,2024-03-02 10:14:00\nU,2,paid,2024-03-02 10:14:00\n"
    },
    "digits": {_LOAD: "id,at_time\n1,2023-11-08 01:20:11.3733338\n2,2023-11-08 01:20:11\n"},
    "shifted": {_LOAD: "id,v\n1,a\n2,b\n3,c\n", _CHANGES: "Op,id,v,BI_id,BI_v\nU,2,a,1,a\nU,3,b,2,b\nU,4,c,3,c\n"},
    "op_column": {_CHANGES: "I,1,buy,x\nU,1,sell,y\n"},
    "dropped": {_LOAD: "1,a,10\n2,b,20\n", _CHANGES: "U,1,11\nI,3,30\n"},
}

RIGHT: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "deletes with the key alone, ordered by a time": ("SELECT id, status FROM key_only", [(1, "paid")]),
    "the history of a row whose delete has the key alone": (
        "SELECT status, CAST(valid_to AS date) IS NOT NULL FROM key_only_history WHERE id = 2",
        [("new", True)],
    ),
    "a delete that repeats the row's old time": ("SELECT id FROM old_time", []),
    "every version before such a delete": (
        "SELECT id, status, strftime(valid_to, '%d %H:%M') FROM old_time_history ORDER BY id, valid_from",
        [(1, "new", "02 09:00"), (1, "paid", "05 10:15"), (2, "new", "05 10:15")],
    ),
    "changes of one time in one file": ("SELECT id, status FROM same_second ORDER BY id", [(1, "again"), (2, "paid")]),
    "digits beyond microseconds": (
        "SELECT id, strftime(at_time, '%H:%M:%S.%f') FROM digits ORDER BY id",
        [(1, "01:20:11.373333"), (2, "01:20:11.000000")],
    ),
    "keys that shift in one statement, with before images": (
        "SELECT id, v FROM shifted ORDER BY id",
        [(2, "a"), (3, "b"), (4, "c")],
    ),
    "keys that shift in one statement, in an audit log": (
        "SELECT id, v FROM log_shifted ORDER BY id",
        [(2, "a"), (3, "b"), (4, "c")],
    ),
    "a column called op": ("SELECT id, op, note FROM op_column", [("1", "sell", "y")]),
    "spans beyond a day and below zero": (
        "SELECT span FROM spans ORDER BY id",
        [("10:15:00",), ("30:15:00",), ("-01:30:00",), ("838:59:59",)],
    ),
    "placeholders in every type": (
        "SELECT n, text, texts::varchar LIKE '%a%', map::varchar LIKE '%v%' FROM placeholders",
        [("2", "long", True, True)],
    ),
    "reads behind changes, in flat rows": ("SELECT id, pct FROM flat_reads ORDER BY id", [(1, 510), (2, 510)]),
    "reads behind changes, by time alone": ("SELECT id, pct FROM late_reads", [(1, 510)]),
    "a source that moved to another server": (
        "SELECT id, status FROM moved ORDER BY id",
        [("1", "paid"), ("2", "sent")],
    ),
    **{
        f"the history of deleted rows: {name}": (
            f"SELECT id, status, strftime(valid_to, '%d') FROM {name}_history ORDER BY id, valid_from",
            [(1, "new", "02"), (1, "paid", "05"), (2, "new", "05")],
        )
        for name in ("whole_image", "key_image", "logged")
    },
}
REFUSED = {"dropped": "FZ207", "documents": "FZ212", "printed_avro": "FZ212"}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The project after its one run, and the codes of the tables that it refused."""
    del spark  # only there so that Java runs
    folder = tmp_path_factory.mktemp("reports")
    lines = {name: {"1.jsonl": "".join(f"{json.dumps(one)}\n" for one in some)} for name, some in LINES.items()}
    for name, files in (FILES | lines).items():
        (folder / "landing" / name).mkdir(parents=True)
        for file, text in files.items():
            (folder / "landing" / name / file).write_text(text, encoding="utf-8")
    declared = "".join(
        "\n    ".join((f"  - name: {name}", f"source: {{{kind}, path: ./landing/{name}}}", "keys: [id]", *more)) + "\n"
        for name, (kind, *more) in TABLES.items()
    )
    text = f"pipeline: reports\nlake: {{warehouse: ./lake}}\ntables:\n{declared}"
    (folder / "frazil.yml").write_text(text, encoding="utf-8")
    with pytest.raises(RunFailedError) as failed:
        api.run(folder)
    return folder, {one.name: one.code for one in failed.value.report.errors}


@pytest.mark.long
@pytest.mark.parametrize("report", RIGHT)
def test_inputs_of_public_reports_give_the_right_rows(report: str, lake: tuple[Path, dict[str, str]]) -> None:
    folder, _ = lake
    sql, rows = RIGHT[report]

    assert [tuple(row) for row in api.query(folder, sql).rows] == rows


@pytest.mark.long
def test_unreadable_inputs_are_refused_with_a_code(lake: tuple[Path, dict[str, str]]) -> None:
    _, refused = lake

    assert refused == REFUSED


@pytest.mark.long
def test_every_other_table_proves_itself(lake: tuple[Path, dict[str, str]]) -> None:
    folder, _ = lake

    assert [f"{finding}" for finding in api.check(folder) if finding.ok is False] == []
