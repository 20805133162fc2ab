"""KEY-CHANGE and CONVERGE: what a row had under its old key, whenever that arrives, and which key that was."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.failing import run_fails_with

import frazil
from frazil import api
from frazil.failpoints import FailpointReached
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.runner.report import TableReport

pytestmark = pytest.mark.spark

DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: audit_log, path: ./landing, table: orders, old_data: old_data}
    keys: [id]
    columns: [{name: id, type: int}, {name: note}, {name: size}, {name: prev_id, type: bigint}]
    marts: [{kind: current}, {kind: history}]
"""


@pytest.fixture
def folder(tmp_path: Path, spark: SparkSession) -> Path:
    del spark  # only there so that Java runs
    (tmp_path / "frazil.yml").write_text(DECLARATION)
    (tmp_path / "landing").mkdir()
    return tmp_path


def land(folder: Path, name: str, *changes: tuple[int, str, dict[str, Any], int | None]) -> None:
    records = [
        {
            "audit_event_id": number,
            "audit_operation": op,
            "audit_timestamp": f"2026-01-01 00:00:{number:02}",
            "tbl_name": "orders",
            "raw_data": json.dumps(row),
            "old_data": None if old is None else json.dumps({"id": old}),
        }
        for number, op, row, old in changes
    ]
    text = "".join(f"{json.dumps(record)}\n" for record in records)
    (folder / "landing" / f"{name}.jsonl").write_text(text)


def run(folder: Path) -> TableReport:
    pipeline = frazil.load(folder)
    [table] = frazil.run(pipeline, spark=spark_session(pipeline)).tables
    assert all(finding.ok is not False for finding in api.check(folder))
    return table


def rows(folder: Path, mart: str = "orders", more: str = "") -> list[tuple[Any, ...]]:
    sql = f"SELECT id, note, size, prev_id{more} FROM marts.{mart} ORDER BY ALL"
    return [tuple(row) for row in api.query(folder, sql).rows]


def strategies(report: TableReport) -> set[str]:
    return {mart.strategy for mart in report.marts}


@pytest.mark.long
def test_a_row_keeps_its_values_and_names_its_old_key_whatever_comes_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(
        folder,
        "b",
        (5, "U", {"id": 2}, 1),
        (6, "U", {"id": 2, "size": "big"}, 2),
        (9, "I", {"id": 7, "size": "s", "note": None}, None),
    )
    run(folder)
    assert rows(folder) == [(2, None, "big", 1), (7, None, "s", None)]

    # What comes later, and what comes again, costs no more than anywhere.
    land(folder, "c", (6, "U", {"id": 2, "size": "big"}, 2), (10, "U", {"id": 7, "note": "n"}, 7))
    assert "recompute" not in strategies(run(folder))

    # What the row had under its old key; a run that dies between silver and the marts knows it again.
    land(folder, "a", (1, "I", {"id": 1, "note": "kept", "size": "small"}, None))
    monkeypatch.setenv("FRAZIL_FAILPOINT", "mart.before_write:raise")
    with run_fails_with(FailpointReached):
        run(folder)
    monkeypatch.delenv("FRAZIL_FAILPOINT")
    assert strategies(run(folder)) == {"recompute"}
    assert rows(folder) == [(2, "kept", "big", 1), (7, "n", "s", None)]
    assert rows(folder, "orders_history", ", second(valid_from), second(valid_to)") == [
        (1, "kept", "small", None, 1, 5),
        (2, "kept", "big", 1, 6, None),
        (2, "kept", "small", 1, 5, 6),
        (7, "n", "s", None, 10, None),
        (7, None, "s", None, 9, 10),
    ]

    # Late, and of no row that has got another key since.
    land(folder, "d", (2, "I", {"id": 3, "note": "late", "size": "m"}, None))
    assert "recompute" not in strategies(run(folder))

    # A move that comes twice, in other files, is one.
    land(folder, "e", (5, "U", {"id": 2}, 1), (11, "U", {"id": 8}, 7))
    run(folder)
    land(folder, "f", (12, "D", {"id": 3}, 3), (11, "U", {"id": 8}, 7))
    run(folder)
    before = rows(folder)
    assert before == [(2, "kept", "big", 1), (8, "n", "s", 7)]
    api.rebuild(folder, spark=spark_session(frazil.load(folder)))
    assert rows(folder) == before
