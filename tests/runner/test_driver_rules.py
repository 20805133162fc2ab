"""Rules judged on the driver: what it cannot read is left to Spark, and tables judge theirs at once."""

from __future__ import annotations

import json
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pyarrow as pa
import pytest

from frazil import duck
from frazil.iceberg.metadata import DamagedTableError
from frazil.runner.apply.left_rows import LeftInMemory
from frazil.runner.limits import driver_rules
from frazil.runner.limits.driver_rules import counts_on_driver
from frazil.spec import RowCount, Rule
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from frazil.catalog.catalogs import Located

MART = ("lake", "marts", "orders")
PLACE = ("marts", "orders")


class Files:
    """A mart whose files are not what they should be."""

    fields: ClassVar = {"code": (1, pa.string()), "id": (2, pa.int64())}
    rows: ClassVar = {"/lake/orders/data/1.parquet": 3}

    def __init__(self, error: Exception) -> None:
        self.error = error

    def open(self, _: str) -> None:
        raise self.error

    def lives(self, _: str) -> None:
        raise self.error


@pytest.mark.parametrize(
    "error", [FileNotFoundError("1.parquet"), pa.ArrowInvalid("no magic bytes"), DamagedTableError("1.avro", "is gone")]
)
@pytest.mark.parametrize("rule", [{"unique": ("code",)}, {"row_count": RowCount(min=1)}])
def test_a_mart_with_a_damaged_file_is_left_to_spark(
    error: Exception, rule: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the file and the way out."""
    monkeypatch.setattr(driver_rules, "mart_files", lambda *_: Files(error))
    new = pa.table({"id": [1], "code": ["a"], "_cdc_position": ["1/x/"], "_cdc_row": [1]})
    left = LeftInMemory(new=new, replaced=new.select(["id"]), keys=("id",), columns=("id", "code"), gained=1)

    counts = counts_on_driver(cast("Any", None), MART, [(Rule(name="a rule", **rule), ("code",))], left)

    assert counts == NeedsSpark("files")


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
        """Another thread removes an entry right after it was added."""

        def __setitem__(self, key: object, value: object) -> None:
            super().__setitem__(key, value)
            del self[key]

    monkeypatch.setattr(duck, "connect", connect)
    monkeypatch.setattr(duck, "_kept", Vanishing())
    assert cast("Any", duck.cursor({PLACE: "/lake/a/metadata/1.json"}, {})).located == {
        MART[1:]: "/lake/a/metadata/1.json"
    }

    monkeypatch.setattr(duck, "_kept", {})
    threads, start = 2 * duck._KEPT, Barrier(2 * duck._KEPT)

    def ask(number: int) -> bool:
        start.wait()
        places = [f"/lake/{(number + turn) % threads}/metadata/1.json" for turn in range(200)]
        return all(cast("Any", duck.cursor({PLACE: place}, {})).located == {PLACE: place} for place in places)

    with ThreadPoolExecutor(threads) as pool:
        assert all(pool.map(ask, range(threads)))
    assert len(duck._kept) == duck._KEPT
