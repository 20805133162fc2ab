"""A source that orders its changes itself has its horizon at a place: earlier changes are folded."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from tests.clock import set_today
from tests.runner.folders import rows, run

from frazil import api

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

LOG = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: audit_log, path: ./landing, table: orders}
    keys: [id]
    columns: [{name: id, type: int}, {name: note}, {name: size}]
    retention: {changes_days: 30}
    marts: MARTS
"""
HISTORY = "[{kind: current}, {kind: history}]"
HARD = "[{kind: current}]"
FUTURE = "2999-01-01 00:00:00"


def declare(folder: Path, marts: str) -> None:
    (folder / "frazil.yml").write_text(LOG.replace("MARTS", marts))


def log(folder: Path, name: str, *events: tuple[int, str, str, dict[str, Any]]) -> None:
    names = ("audit_event_id", "audit_timestamp", "audit_operation", "raw_data", "tbl_schema", "tbl_name")
    told = [(number, at, op, json.dumps(row), "public", "orders") for number, at, op, row in events]
    (folder / "landing").mkdir(exist_ok=True)
    lines = [json.dumps(dict(zip(names, one, strict=True))) for one in told]
    (folder / "landing" / name).write_text("".join(f"{line}\n" for line in lines))


def tell(folder: Path) -> None:
    log(
        folder,
        "1.jsonl",
        (1, "2020-01-01 00:00:00", "I", {"id": 1, "note": "a", "size": "small"}),
        (2, "2020-01-02 00:00:00", "U", {"id": 1, "note": "a", "size": "small"}),
        (3, "2020-01-03 00:00:00", "U", {"id": 1, "note": "a", "size": "small"}),
        (4, "2020-01-04 00:00:00", "U", {"id": 1, "note": "b"}),
        (5, "2020-01-01 00:00:00", "I", {"id": 2, "note": "c", "size": "large"}),
        (6, "2020-01-02 00:00:00", "U", {"id": 2, "note": "c", "size": "large"}),
        (7, "2020-01-03 00:00:00", "D", {"id": 2}),
        (8, FUTURE, "I", {"id": 3, "note": "d", "size": "large"}),
        # Of a transaction that began long before the one that wrote the change in front of it.
        (9, "2020-01-04 12:00:00", "I", {"id": 4, "note": "e", "size": "small"}),
        (10, "2020-01-05 00:00:00", "U", {"id": 4, "note": "e", "size": "small"}),
    )


@pytest.mark.parametrize(("marts", "kept"), [pytest.param(HARD, 4, marks=pytest.mark.laws), (HISTORY, 9)])
def test_changes_before_the_horizon_are_folded(marts: str, kept: int, spark: SparkSession, tmp_path: Path) -> None:
    del spark
    declare(tmp_path, marts)
    tell(tmp_path)
    run(tmp_path)
    names = ["orders", "orders_history"] if marts == HISTORY else ["orders"]
    before = [rows(tmp_path, f"select * from marts.{name} order by all") for name in names]
    assert rows(tmp_path, "select count(*) from silver.orders_changes") == [(10,)]

    run(tmp_path)

    assert rows(tmp_path, "select count(*) from silver.orders_changes") == [(kept,)]
    assert rows(tmp_path, "select _cdc_offset from bronze.orders where _cdc_kind = 'folded'") == [(7,)]
    for rebuild in (False, True):
        run(tmp_path, rebuild=rebuild)
        assert [rows(tmp_path, f"select * from marts.{name} order by all") for name in names] == before
        assert [finding for finding in api.check(tmp_path) if finding.ok is False] == []


@pytest.mark.parametrize(("marts", "late"), [pytest.param(HARD, 1, marks=pytest.mark.laws), (HISTORY, 2)])
def test_a_change_comes_too_late_by_its_place_and_in_a_history_by_its_time(
    marts: str, late: int, spark: SparkSession, tmp_path: Path
) -> None:
    del spark
    declare(tmp_path, marts)
    tell(tmp_path)
    run(tmp_path)
    run(tmp_path)
    log(
        tmp_path,
        "2.jsonl",
        (0, "2020-01-09 00:00:00", "U", {"id": 4, "note": "before all", "size": "x"}),
        (11, "2020-01-04 00:00:00", "U", {"id": 4, "note": "long ago", "size": "y"}),
        (12, "2020-01-06 00:00:00", "U", {"id": 4, "note": "in time", "size": "z"}),
    )

    for rebuild in (False, True):
        run(tmp_path, rebuild=rebuild)

        assert rows(tmp_path, "select rule, count(*) from silver.orders_quarantine group by 1") == [
            ("before_horizon", late)
        ]
        assert rows(tmp_path, "select note, size from orders where id = 4") == [("in time", "z")]
        assert rows(tmp_path, "select note, size from orders where id = 1") == [("b", "small")]
        assert [finding for finding in api.check(tmp_path) if finding.ok is False] == []


@pytest.mark.laws
def test_a_fold_ends_though_an_old_transaction_holds_its_time_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark
    days = {"today": date(2020, 3, 2)}
    set_today(monkeypatch, lambda: days["today"])
    declare(tmp_path, HISTORY)
    log(
        tmp_path,
        "1.jsonl",
        (1, "2020-01-01 00:00:00", "I", {"id": 1, "note": "a", "size": "small"}),
        (2, "2020-02-10 00:00:00", "U", {"id": 1, "note": "b", "size": "small"}),
        (3, "2020-05-01 00:00:00", "U", {"id": 1, "note": "c", "size": "small"}),
        (4, "2020-01-15 00:00:00", "I", {"id": 2, "note": "d", "size": "small"}),
    )
    run(tmp_path)
    before = rows(tmp_path, "select * from marts.orders_history order by all")
    for days["today"], folded in ((date(2020, 3, 3), 1), (date(2020, 4, 2), 2)):
        run(tmp_path)

        assert rows(tmp_path, "select sum(_cdc_offset) from bronze.orders where _cdc_kind = 'folded'") == [(folded,)]
        assert [finding for finding in api.check(tmp_path) if finding.ok is False] == []
    run(tmp_path, rebuild=True)
    assert rows(tmp_path, "select * from marts.orders_history order by all") == before
    assert rows(tmp_path, "select count(*) from silver.orders_quarantine") == [(0,)]
