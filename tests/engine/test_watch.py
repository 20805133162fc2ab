"""A watch takes files as they come, and ends cleanly."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import frazil
from frazil.engine.watch import watch
from frazil.lake.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.engine.report import RunReport

DECLARATION = """
pipeline: watched
lake: {warehouse: ./lake}
tables:
  - name: things
    source: {kind: dms, path: ./landing, header: true}
    keys: [id]
    sequence_by: [ts]
    columns: [{name: id, type: int}, {name: ts, type: timestamp}, {name: name, type: string}]
"""


@pytest.mark.spark
def test_a_watch_applies_each_file_that_arrives_and_stops_when_told(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    (tmp_path / "landing").mkdir()
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    pipeline = frazil.load(tmp_path)
    session = spark_session(pipeline)
    stop, arrived = threading.Event(), threading.Semaphore(0)
    reports: list[RunReport] = []

    def ran(report: RunReport, lag_seconds: float) -> None:
        assert lag_seconds >= 0
        reports.append(report)
        arrived.release()

    follower = threading.Thread(
        target=watch, args=(pipeline, session, stop), kwargs={"every_seconds": 0.05, "idle_seconds": 0.2, "ran": ran}
    )
    follower.start()
    try:
        for number in (1, 2):
            text = f"op,id,ts,name\nI,{number},2026-01-0{number} 00:00:00,ada\n"
            (tmp_path / "landing" / f"2026010{number}-000000000.csv").write_text(text, encoding="utf-8")
            assert arrived.acquire(timeout=120)
    finally:
        stop.set()
        follower.join(timeout=120)

    assert not follower.is_alive()
    assert [report.tables[0].rows for report in reports] == [1, 1]
    assert sorted(row["id"] for row in session.table("lake.marts.things").collect()) == [1, 2]
