"""Rules judged on the driver: what it cannot read is left to Spark, and tables judge theirs at once."""

from __future__ import annotations

import json
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from frazil.engine import driver_rules
from frazil.engine.driver_rules import counts_on_driver
from frazil.lake import duck
from frazil.plan.policy import DEFAULT_POLICY
from frazil.spec import DmsFiles, Lake, Pipeline, Rule, Table

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.lake.catalogs import Located

MART = ("marts", "orders")


@pytest.mark.parametrize(
    "metadata",
    ['{"current-snapshot-id": 1, "snapsh', "", "[]", '{"current-snapshot-id": 1, "snapshots": [{"snapshot-id": 1}]}'],
)
def test_a_mart_with_damaged_metadata_is_left_to_spark(
    metadata: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which names the file, and the way out."""
    location = tmp_path / "00001.metadata.json"
    location.write_text(metadata, encoding="utf-8")
    orders = Table(name="orders", source=DmsFiles(path=("orders",)), keys=("id",))
    pipeline = Pipeline(pipeline="shop", lake=Lake(warehouse="lake"), tables=(orders,)).at(tmp_path)
    found = SimpleNamespace(tables=lambda: {MART: f"{location}"})
    monkeypatch.setattr(driver_rules, "catalog_reader", lambda _: found)
    context: Any = SimpleNamespace(pipeline=pipeline, policy=DEFAULT_POLICY)
    rules = [(Rule(name="one_code", unique=("code",)), ("code",))]

    assert counts_on_driver(context, MART, rules, cast("Any", None)) is None


class Database:
    """In place of one of DuckDB, which takes a while to open."""

    def __init__(self, located: Located) -> None:
        self.located = located

    def cursor(self) -> Database:
        return self


def test_threads_that_open_more_databases_than_are_kept_each_get_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: defaultdict[str, int] = defaultdict(int)

    def connect(located: Located, _: object) -> Database:
        opened[json.dumps([*located.values()])] += 1
        return Database(located)

    class Vanishing(dict[Any, Any]):
        """What another thread does at the worst moment: what was just put in is gone."""

        def __setitem__(self, key: object, value: object) -> None:
            super().__setitem__(key, value)
            del self[key]

    monkeypatch.setattr(duck, "connect", connect)
    monkeypatch.setattr(duck, "_kept", Vanishing())
    assert cast("Any", duck.cursor({MART: "/lake/a/metadata/1.json"}, {})).located == {MART: "/lake/a/metadata/1.json"}

    monkeypatch.setattr(duck, "_kept", {})
    threads, start = 2 * duck._KEPT, Barrier(2 * duck._KEPT)

    def ask(number: int) -> bool:
        start.wait()
        places = [f"/lake/{(number + turn) % threads}/metadata/1.json" for turn in range(200)]
        return all(cast("Any", duck.cursor({MART: place}, {})).located == {MART: place} for place in places)

    with ThreadPoolExecutor(threads) as pool:
        assert all(pool.map(ask, range(threads)))
    assert len(duck._kept) == duck._KEPT
