"""LATE, LOUD: a batch whose changes are mostly late is refused, unless something else says that they are old."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.shop import Shop, declared

import frazil
from frazil.runner.limits.batch_limits import LateChangesError
from frazil.serve.check.check import check
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SMALL = 99
MANY = 100


def orders(operation: str, count: int, day: int, note: str) -> list[str]:
    return [f"{operation},{number},2026-01-{day:02} 00:00:00,{note}" for number in range(count)]


@pytest.mark.long
@pytest.mark.parametrize(
    "thresholds", [pytest.param({}, marks=pytest.mark.laws), {"driver_bytes": 0, "reader": "executors"}]
)
def test_a_batch_that_sequence_by_calls_old_and_its_place_new_is_refused(
    shop: Shop, thresholds: dict[str, object]
) -> None:
    shop = shop.by(**thresholds)
    shop.land("LOAD001.csv", *orders("I", 300, 10, "first"))
    shop.run()
    shop.land("20260111-000000.csv", *orders("U", SMALL, 9, "small"))
    assert shop.run().marts[0].late == SMALL
    shop.land("20260112-000000.csv", *orders("U", MANY, 9, "old"), *orders("U", 201, 11, "new")[MANY:])
    assert shop.run().marts[0].late == MANY

    shop.land("20260113-000000.csv", *orders("U", MANY, 8, "wrong"))
    with pytest.raises(frazil.RunFailedError) as refused:
        shop.run()
    shop.land("20260114-000000.csv", *orders("U", 300, 20, "later")[MANY:])
    with pytest.raises(frazil.RunFailedError, match="100 of 100 changes of batch 4 come late") as again:
        shop.run()

    [error] = refused.value.errors
    assert (type(error), error.code, refused.value.exit_code) == (LateChangesError, "FZ413", 5)
    assert "max_late_fraction: 1" in str(error.hint)
    assert again.value.exit_code == 5
    notes = {row["note"] for row in shop.session.table("lake.marts.orders").select("note").distinct().collect()}
    assert notes == {"first", "new"}
    assert shop.session.table("lake.silver.orders_changes").where("note = 'wrong'").count() == 0


@pytest.mark.long
def test_late_files_repeats_and_a_limit_of_one_pass(shop: Shop) -> None:
    shop.land("LOAD001.csv", *orders("I", 150, 1, "first"))
    shop.run()
    shop.land("20260110-000000.csv", *orders("U", 150, 10, "newest"))
    shop.run()

    shop.land("20260105-000000.csv", *orders("U", 150, 5, "a day that came late"))
    late = shop.run().marts[0].late
    shop.land("20260120-000000.csv", *orders("U", 149, 5, "a day that came late"))
    repeated = shop.run().marts[0].late
    path = shop.pipeline.folder / "frazil.yml"
    path.write_text(path.read_text().replace("keys:", "max_late_fraction: 1\n    keys:"))
    shop.land("20260122-000000.csv", *orders("U", 150, 3, "wanted"))
    wanted = Shop(frazil.load(path.parent), shop.session).run().marts[0].late
    path.write_text(path.read_text().replace("max_late_fraction: 1\n    keys:", "keys:"))
    shop.land("20260123-000000.csv", *orders("U", 10, 30, "newest of all"))
    Shop(frazil.load(path.parent), shop.session).run()

    assert (late, repeated, wanted) == (150, 149, 150)
    [proof] = [finding for finding in check(frazil.load(path.parent)) if finding.law == "LATE"]
    assert (proof.ok, proof.detail) == (True, "1 batch is not mostly late; those up to 5 were allowed to be")


def test_places_that_begin_again_without_offsets_are_refused_as_another_server_s(
    spark: SparkSession, tmp_path: Path
) -> None:
    del spark  # only there so that Java runs
    (tmp_path / "landing").mkdir()
    (tmp_path / "frazil.yml").write_text(
        """
pipeline: moved
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: debezium, path: ./landing, settle_seconds: 0}
    keys: [id]
    columns: [{name: id, type: int}, {name: note}]
    marts: [{kind: history}]
"""
    )
    pipeline = frazil.load(tmp_path)
    session = spark_session(pipeline)

    def land(file: int, time: int, lsn: int) -> int:
        events = (
            {"op": "u", "after": {"id": number, "note": f"{file}"}, "source": {"lsn": lsn + number, "ts_ms": time}}
            for number in range(150)
        )
        text = "".join(f"{json.dumps(event)}\n" for event in events)
        (tmp_path / "landing" / f"{file}.jsonl").write_text(text)
        [table] = frazil.run(pipeline, spark=session).tables
        return table.marts[0].late

    assert land(1, 1_700_000_000_000, 5_000) == 0
    assert land(2, 1_600_000_000_000, 4_000) == 150
    with pytest.raises(frazil.RunFailedError, match="the source moved to another server") as refused:
        land(3, 1_800_000_000_000, 1_000)

    assert [error.code for error in refused.value.errors] == ["FZ706"]


def test_the_limit_holds_for_tables_ordered_by_numbers_of_each_row(spark: SparkSession, tmp_path: Path) -> None:
    """Where most sequences are below the table's greatest, the keys decide."""
    del spark  # only there so that Java runs
    columns = "{name: id, type: int}, {name: version, type: int}"
    shop = declared(tmp_path, keys="id", columns=columns, marts="{kind: current}", sequence_by="version")

    def land(name: str, versions: int) -> None:
        records = (f"U,{number},{number + versions}" for number in range(200))
        shop.land(name, *records, names=("id", "version"))

    land("LOAD001.csv", 1)
    shop.run()
    land("20260102-000000.csv", 2)
    assert shop.run().marts[0].late == 0
    land("20260103-000000.csv", 0)
    with pytest.raises(frazil.RunFailedError, match="200 of 200 changes of batch 3 come late"):
        shop.run()
