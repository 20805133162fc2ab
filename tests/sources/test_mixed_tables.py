"""Records of several tables in one topic or folder, where the declaration does not say which is meant."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from frazil import api
from frazil.plan.checks import SourceChangedError
from frazil.runner.report import RunFailedError
from frazil.sources.record_files import SecondTableError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.errors import Failure

DECLARATION = """pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{kind: debezium, path: "landing/*.jsonl"{more}}}
    keys: [id]
"""


def _declare(folder: Path, more: str = "") -> None:
    (folder / "landing").mkdir(exist_ok=True)
    (folder / "frazil.yml").write_text(DECLARATION.format(more=more), encoding="utf-8")


def _land(folder: Path, name: str, *rows: tuple[int, dict[str, Any], dict[str, Any]]) -> None:
    events = (
        {"op": "c", "before": None, "after": {"id": key, **row}, "source": {"ts_ms": key, "lsn": key, **source}}
        for key, row, source in rows
    )
    text = "".join(f"{json.dumps(event)}\n" for event in events)
    (folder / "landing" / name).write_text(text, encoding="utf-8")


ORDERS, USERS = {"schema": "shop", "table": "orders"}, {"schema": "shop", "table": "users"}


def _ids(folder: Path) -> list[int]:
    return sorted(int(key) for (key,) in api.query(folder, "SELECT id FROM orders").rows)


def _failure(folder: Path) -> Failure:
    with pytest.raises(RunFailedError) as failed:
        api.run(folder)
    (found,) = failed.value.report.errors
    return found


@pytest.mark.spark
@pytest.mark.parametrize("files", [1, 2], ids=["one file", "two files"])
def test_a_second_table_is_refused_before_a_record_is_taken(files: int, spark: SparkSession, tmp_path: Path) -> None:
    """Keys of two tables are the same numbers, so that each would overwrite rows of the other."""
    del spark
    _declare(tmp_path)
    first, second = (1, {"n": 1}, ORDERS), (2, {"name": "ada"}, USERS)
    if files == 1:
        _land(tmp_path, "1.jsonl", first, second)
    else:
        _land(tmp_path, "1.jsonl", first)
        _land(tmp_path, "2.jsonl", second)

    said = _failure(tmp_path)

    assert said.code == SecondTableError.code
    assert "shop.orders, shop.users" in said.message
    assert not (tmp_path / "lake" / "silver").exists()


@pytest.mark.spark
def test_a_table_that_comes_later_is_refused_and_can_be_told_apart_or_joined(
    spark: SparkSession, tmp_path: Path
) -> None:
    del spark
    _declare(tmp_path)
    _land(tmp_path, "1.jsonl", (1, {}, ORDERS))
    api.run(tmp_path)
    _land(tmp_path, "2.jsonl", (2, {}, USERS), (3, {}, ORDERS))

    refused = _failure(tmp_path)
    _declare(tmp_path, ", table: shop.users")
    other = _failure(tmp_path)
    _declare(tmp_path, ", table: shop.orders")
    api.run(tmp_path)

    assert refused.code == SecondTableError.code
    assert other.code == SourceChangedError.code
    assert _ids(tmp_path) == [1, 3]


@pytest.mark.spark
def test_all_tables_can_be_parts_of_one(spark: SparkSession, tmp_path: Path) -> None:
    del spark
    _declare(tmp_path, ", table: '*'")
    _land(tmp_path, "1.jsonl", (1, {}, ORDERS), (2, {}, USERS))

    api.run(tmp_path)

    assert _ids(tmp_path) == [1, 2]
