"""A watch takes files as they come, and ends cleanly."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

import pytest

import frazil
from frazil.catalog.lock import lock
from frazil.runner.options import WatchOptions
from frazil.runner.watch import watch
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.shop import Shop

    from frazil.runner.report import RunReport
    from frazil.spec import Pipeline


@pytest.mark.spark
def test_a_watch_applies_each_file_that_arrives_and_stops_when_told(shop: Shop) -> None:
    stop, arrived = threading.Event(), threading.Semaphore(0)
    reports: list[RunReport] = []

    def ran(report: RunReport, lag_seconds: float) -> None:
        assert lag_seconds >= 0
        reports.append(report)
        arrived.release()

    follower = threading.Thread(
        target=watch,
        args=(shop.pipeline, shop.session, stop),
        kwargs={"options": WatchOptions(every_seconds=0.05, idle_seconds=0.2, ran=ran)},
    )
    follower.start()
    try:
        for number in (1, 2):
            shop.land(f"2026010{number}-000000000.csv", f"I,{number},2026-01-0{number} 00:00:00,ada")
            assert arrived.acquire(timeout=120)
    finally:
        stop.set()
        follower.join(timeout=120)

    assert not follower.is_alive()
    assert [report.tables[0].rows for report in reports] == [1, 1]
    assert sorted(row["id"] for row in shop.session.table("lake.marts.orders").collect()) == [1, 2]


TWO = """
pipeline: two
lake: {warehouse: ./lake}
tables:
  - {name: good, source: {kind: dms, path: ./good, header: true}, keys: [id]}
  - {name: weak, source: {kind: dms, path: ./weak, header: true}, keys: [id]}
"""


class Follower:
    """A watch in a thread of its own, and what it says."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.said: list[str] = []
        self.reports: list[RunReport] = []
        self.ended_with: int | None = None
        self._news, self._stop = threading.Condition(), threading.Event()
        self._thread = threading.Thread(target=self._follow, args=(pipeline, spark_session(pipeline)))

    def _follow(self, pipeline: Pipeline, session: SparkSession) -> None:
        options = WatchOptions(every_seconds=0.05, idle_seconds=0.1, retry_seconds=0.05, ran=self._ran, tell=self._tell)
        self.ended_with = watch(pipeline, session, self._stop, options=options)

    def _tell(self, text: str) -> None:
        with self._news:
            self.said.append(text)
            self._news.notify_all()

    def _ran(self, report: RunReport, _lag_seconds: float) -> None:
        with self._news:
            self.reports.append(report)
            self._news.notify_all()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=120)

    def until(self, happened: Callable[[], bool]) -> None:
        """Wait for it."""
        with self._news:
            assert self._news.wait_for(happened, timeout=120), (self.said, self.reports)


@pytest.fixture
def two(spark: SparkSession, tmp_path: Path) -> Pipeline:
    del spark  # only there so that Java runs
    (tmp_path / "frazil.yml").write_text(TWO, encoding="utf-8")
    for name in ("good", "weak"):
        (tmp_path / name).mkdir()
    return frazil.load(tmp_path)


def test_a_watch_goes_on_when_a_table_fails_and_says_so_once(two: Pipeline) -> None:
    (two.folder / "weak" / "1.csv").write_text("op,id,ID\n", encoding="utf-8")
    good = iter(range(1, 10))

    def land() -> None:
        number = next(good)
        (two.folder / "good" / f"{number}.csv").write_text(f"op,id\nI,{number}\n", encoding="utf-8")

    land()
    with Follower(two) as follower:
        follower.until(lambda: len(follower.reports) == 1)
        land()
        follower.until(lambda: len(follower.reports) == 2)
        said = [*follower.said]
        (two.folder / "weak" / "1.csv").unlink()
        follower.until(lambda: follower.said[-1:] == ["weak: recovered"])

    assert [text.split("\n")[0].split("]")[0] for text in said] == ["weak: [FZ501"]
    assert [report.exit_code for report in follower.reports] == [6, 6]
    assert [report.tables[0].rows for report in follower.reports] == [1, 1]
    assert follower.ended_with == 0


def test_a_watch_waits_for_another_run_and_for_a_folder_that_is_not_there_yet(two: Pipeline) -> None:
    (two.folder / "weak").rmdir()
    (two.folder / "good" / "1.csv").write_text("op,id\nI,1\n", encoding="utf-8")
    with lock(two), Follower(two) as held:
        held.until(lambda: bool(held.said))
    with Follower(two) as follower:
        follower.until(lambda: bool(follower.reports))
        (two.folder / "weak").mkdir()
        follower.until(lambda: follower.said[-1:] == ["weak: recovered"])
        with lock(two):
            (two.folder / "good" / "2.csv").write_text("op,id\nI,2\n", encoding="utf-8")
            follower.until(lambda: "waiting" in follower.said[-1])
        follower.until(lambda: len(follower.reports) == 2)

    assert len(held.said) == 1
    assert held.said[0].startswith("waiting: [FZ600] pipeline 'two' is held by another run")
    assert held.ended_with == 7
    assert "[FZ201]" in follower.said[0]
    assert follower.said[-1] == "the wait is over, continuing"
    assert follower.ended_with == 0
