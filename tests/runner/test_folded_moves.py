"""What a fold must not forget of keys that were changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.runner.folders import rows, run

from frazil import api

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DMS = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: dms, path: ./landing, header: true, before_image_prefix: BI_}
    keys: [id]
    sequence_by: [ts]
    columns: [{name: id, type: int}, {name: ts, type: timestamp}, {name: note}]
    retention: {changes_days: 30}
    marts: [{kind: current}]
"""

LOG = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: audit_log, path: ./landing, table: orders, old_data: old_data}
    keys: [id]
    sequence_by: [audit_timestamp]
    columns: [{name: id, type: int}, {name: note}, {name: size}]
    retention: {changes_days: 30}
    marts: [{kind: current}]
"""


def land(folder: Path, name: str, *records: str) -> None:
    (folder / "landing").mkdir(exist_ok=True)
    (folder / "landing" / name).write_text("".join(f"{one}\n" for one in ("Op,id,ts,note,BI_id", *records)))


@pytest.mark.laws
def test_an_erase_follows_changes_of_key_that_are_folded(spark: SparkSession, tmp_path: Path) -> None:
    del spark
    (tmp_path / "frazil.yml").write_text(DMS)
    land(
        tmp_path,
        "20260101-000000001.csv",
        "I,1,2020-01-01 00:00:00,ann,",
        "U,2,2020-01-02 00:00:00,ann,1",
        "U,3,2020-01-03 00:00:00,ann,2",
        "I,2,2020-01-04 00:00:00,another,",
        "D,2,2020-01-05 00:00:00,another,2",
        "I,9,2020-01-01 00:00:00,bob,",
    )
    run(tmp_path)
    run(tmp_path)
    assert rows(tmp_path, "select id, note from orders order by id") == [(3, "ann"), (9, "bob")]

    report = api.erase(tmp_path, "orders", keys=["1"])

    assert report.subjects == 3
    assert rows(tmp_path, "select id, note from orders order by id") == [(9, "bob")]


def log(folder: Path, name: str, *changes: tuple[int, str, dict[str, Any], int | None]) -> None:
    records = [
        {
            "audit_event_id": number,
            "audit_operation": "U",
            "audit_timestamp": f"{day} 00:00:00",
            "tbl_name": "orders",
            "raw_data": json.dumps(row),
            "old_data": None if old is None else json.dumps({"id": old}),
        }
        for number, day, row, old in changes
    ]
    (folder / "landing").mkdir(exist_ok=True)
    (folder / "landing" / name).write_text("".join(f"{json.dumps(one)}\n" for one in records))


@pytest.mark.laws
def test_a_row_takes_from_folded_changes_what_the_source_had_under_its_old_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    del spark
    (tmp_path / "frazil.yml").write_text(LOG)
    log(
        tmp_path,
        "1.jsonl",
        (1, "2020-01-01", {"id": 1, "note": "first", "size": "small"}, None),
        (2, "2020-01-03", {"id": 1, "note": "newest by time"}, None),
        (3, "2020-01-02", {"id": 1, "note": "last by place"}, None),
        (4, "2020-01-02", {"id": 2, "note": "in order", "size": "small"}, None),
        (5, "2020-01-03", {"id": 2, "note": "newest"}, None),
    )
    run(tmp_path)
    run(tmp_path)
    assert rows(tmp_path, "select note from orders order by id") == [("newest by time",), ("newest",)]
    assert rows(tmp_path, "select id, count(*) from silver.orders_changes group by 1 order by 1") == [(1, 3), (2, 1)]

    log(tmp_path, "2.jsonl", (6, "2999-01-01", {"id": 3}, 1), (7, "2999-01-01", {"id": 4, "size": "large"}, 2))
    run(tmp_path)

    wanted = [(3, "last by place", "small"), (4, "newest", "large")]
    assert rows(tmp_path, "select id, note, size from orders order by id") == wanted
    assert [finding.detail for finding in api.check(tmp_path) if finding.ok is False] == []
    run(tmp_path, rebuild=True)
    assert rows(tmp_path, "select id, note, size from orders order by id") == wanted


@pytest.mark.long
def test_a_rebuild_fills_what_folded_changes_do_not_carry(spark: SparkSession, tmp_path: Path) -> None:
    """Changes of a key with another order than their places are kept unchanged, also by a rebuild."""
    del spark
    (tmp_path / "frazil.yml").write_text(LOG.replace("[{kind: current}]", "[{kind: current}, {kind: history}]"))
    log(
        tmp_path,
        "1.jsonl",
        (1, "2020-01-01", {"id": 1, "note": "first", "size": "small"}, None),
        (2, "2020-01-03", {"id": 1, "note": "newest by time"}, None),
        (3, "2020-01-02", {"id": 1, "note": "last by place"}, None),
    )
    run(tmp_path)
    run(tmp_path)
    for _ in range(2):
        run(tmp_path, rebuild=True)

        assert rows(tmp_path, "select note, size from orders") == [("newest by time", "small")]
        assert {size for (size,) in rows(tmp_path, "select size from orders_history")} == {"small"}
