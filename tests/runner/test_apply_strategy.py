"""The rule that chooses the strategy of a batch, and what every strategy does alike."""

from __future__ import annotations

from dataclasses import replace
from secrets import token_hex
from typing import TYPE_CHECKING

import pytest
from tests.shop import LONG, Shop, declared

import frazil
from frazil.plan.policy import DEFAULT_POLICY, MartStats, Policy, choose_strategy

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("changes", "size_bytes", "rows", "takes_row_deltas", "chosen"),
    # A tenth of the rows is dead.
    [
        (5_000, 400_000, 1_000_000, True, "row_delta"),
        (5_000, 400_000, 1_000_000, False, "delete_append"),
        (5_000, DEFAULT_POLICY.row_delta_bytes + 1, 1_000_000, True, "delete_append"),
        (100_000, 8_000_000, 1_000_000, True, "row_delta"),
        (400_000, 32_000_000, 1_000_000, True, "row_delta"),
        (400_001, 32_000_000, 1_000_000, True, "overwrite"),
        (100_001, DEFAULT_POLICY.row_delta_bytes + 1, 1_000_000, True, "overwrite"),
        (100_001, 8_000_000, 1_000_000, False, "overwrite"),
        (9_500, 760_000, 5_000, True, "row_delta"),
        (9_501, 760_080, 5_000, True, "overwrite"),
        (1, 80, 0, True, "row_delta"),
        (1, 80, 0, False, "overwrite"),
        (DEFAULT_POLICY.broadcast_changes + 1, 160_000_000, 1_000_000_000, True, "recompute"),
    ],
)
def test_a_strategy_is_chosen_by_the_size_of_batch_and_mart(
    changes: int,
    size_bytes: int,
    rows: int,
    takes_row_deltas: bool,  # noqa: FBT001 - pytest gives it by name
    chosen: str,
) -> None:
    mart = MartStats(rows=rows, dead=rows // 10, size_bytes=0, takes_row_deltas=takes_row_deltas)

    assert choose_strategy(changes, size_bytes, mart) == chosen


def test_a_mart_is_loaded_first_and_made_from_all_changes_where_the_plan_says_so() -> None:
    """Whatever a policy says of the batches of a mart that has rows."""
    policy = Policy(strategy="row_delta")
    mart = MartStats(rows=100, size_bytes=1_000, takes_row_deltas=True)

    assert choose_strategy(None, 0, replace(mart, is_new=True), policy) == "load"
    assert choose_strategy(None, 0, mart, policy) == "recompute"
    assert choose_strategy(1_000_000, 0, mart, policy) == "row_delta"
    assert choose_strategy(1_000_000, 0, replace(mart, takes_row_deltas=False), policy) == "delete_append"


def test_rows_of_the_mart_that_a_batch_brings_along_count_as_held_by_the_driver() -> None:
    mart = MartStats(rows=100, size_bytes=100_000, takes_row_deltas=True)
    policy = Policy(row_delta_bytes=40_000, unpacked_factor=4)

    assert choose_strategy(9, 4_000, mart, policy) == "row_delta"
    assert choose_strategy(10, 4_000, mart, policy) == "delete_append"


@pytest.mark.laws
def test_a_large_batch_is_a_row_delta_until_half_of_the_mart_would_be_dead(shop: Shop) -> None:
    """Dead rows stay below the policy's share, and what Spark must compare is overwritten as before."""
    shop = shop.by(dead_rows=0, compact_every=100)
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,a" for number in range(10)))
    shop.run()

    strategies = []
    for day in range(2, 7):
        shop.land(f"2026010{day}-000000.csv", *(f"U,{number},2026-01-0{day} 00:00:00,b" for number in range(4)))
        strategies.append({mart.mart: mart.strategy for mart in shop.run().marts}["orders"])
    # Of a key with one late change the rest is told by silver.
    shop.land("20260108-000000.csv", *(f"U,{number},2026-01-02 12:00:00,late" for number in range(4)))
    late = {mart.mart: mart.strategy for mart in shop.run().marts}

    assert strategies == ["row_delta", "overwrite", "row_delta", "overwrite", "row_delta"]
    assert late["orders_history"] == "overwrite"


def test_columns_may_have_the_names_that_places_have(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    names = "id", "ts", "file_path", "pos", "late", "n", "t", "k", "f", "oldest"
    columns = ", ".join(f"{{name: {name}, type: {'timestamp' if name == 'ts' else 'string'}}}" for name in names)
    marts_ = "{kind: current}, {kind: current, name: soft, deletes: soft}, {kind: history}"
    shop = declared(tmp_path, keys="id, pos", columns=columns, marts=marts_)
    session = shop.session
    rest = ",".join(names[4:])
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,f,p,{rest}" for number in range(50)), names=names)
    shop.run()

    shop.land(
        "20260102-000000.csv", f"U,1,2026-01-02 00:00:00,g,p,{rest}", f"D,2,2026-01-02 00:00:00,f,p,{rest}", names=names
    )
    marts = shop.run().marts

    assert [(mart.strategy, mart.updated, mart.deleted) for mart in marts] == [("row_delta", 1, 1)] * 3
    assert session.table("lake.marts.orders").where("file_path = 'g' AND pos = 'p'").count() == 1
    assert session.table("lake.marts.orders").count() == 49
    assert session.table("lake.marts.soft").where("is_deleted").count() == 1
    assert session.table("lake.marts.orders_history").where("is_current").count() == 49


def test_a_small_batch_on_large_rows_is_not_brought_to_the_driver(shop: Shop) -> None:
    """History closes versions with the values they have, whatever little a delete carries."""
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,{token_hex(2000)}" for number in range(100)))
    shop.run()
    small, large = shop.by(row_delta_bytes=10_000), shop.by(row_delta_bytes=1_000_000)

    shop.land("20260102-000000.csv", *(f"D,{number},2026-01-02 00:00:00," for number in range(5)))
    by_key = [mart.strategy for mart in small.run().marts]
    shop.land("20260103-000000.csv", *(f"D,{number},2026-01-03 00:00:00," for number in range(5, 10)))

    assert by_key == ["delete_append", "delete_append"]
    assert [mart.strategy for mart in large.run().marts] == ["row_delta", "row_delta"]


@pytest.mark.parametrize("chosen", ["row_delta", "delete_append", LONG("overwrite"), LONG("recompute")])
def test_every_strategy_reports_the_same_of_a_batch(chosen: str, shop: Shop) -> None:
    """In time, then with late changes; keys that come, change, go, go twice, and go without ever having been there."""
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,a" for number in range(20)))
    shop.run()
    shop = shop.by(strategy=chosen)
    in_time = [
        *(f"U,{number},2026-01-02 00:00:00,b" for number in (1, 2, 3, 3, 30)),
        *(f"D,{number},2026-01-02 00:00:00,b" for number in (4, 5, 5, 40)),
        "I,31,2026-01-02 00:00:00,b",
    ]
    with_late = ["U,1,2026-01-01 12:00:00,late", "U,2,2026-01-03 00:00:00,c", "D,6,2026-01-03 00:00:00,c"]

    told = []
    for number, records in enumerate((in_time, with_late)):
        shop.land(f"20260102-00000{number}.csv", *records)
        told.append({mart.mart: (mart.inserted, mart.updated, mart.deleted, mart.late) for mart in shop.run().marts})

    assert told == [
        {"orders": (2, 3, 2, 0), "orders_history": (2, 3, 2, 0)},
        {"orders": (0, 1, 1, 1), "orders_history": (0, 1, 1, 1)},
    ]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        LONG("int", ("1", "2")),
        LONG("bigint", ("1", "9007199254740993")),
        ("decimal(38,4)", ("0.0001", "9999999999999999999999999999999999.9999")),
        ("string", ("a", "A")),
        LONG("boolean", ("true", "false")),
        LONG("date", ("2026-01-01", "0001-01-01")),
        ("timestamp", ("2026-01-01 00:00:00.000001", "1969-12-31 23:59:59")),
        LONG("timestamp_ntz", ("2026-01-01 00:00:00.000001", "1969-12-31 23:59:59")),
        LONG("binary", ("61", "62")),
    ],
)
def test_keys_of_every_type_are_found_again(
    kind: str, values: tuple[str, str], spark: SparkSession, tmp_path: Path
) -> None:
    del spark  # only there so that Java runs
    one, other = values
    columns = f'{{name: id, type: "{kind}"}}, {{name: part, type: bigint}}, {{name: ts, type: timestamp}}'
    shop = declared(tmp_path, keys="id, part", columns=columns, marts="{kind: current}, {kind: history}").by(
        strategy="row_delta"
    )
    names = ("id", "part", "ts")
    shop.land("LOAD001.csv", *(f"I,{id_},{part},2026-01-01 00:00:00" for id_ in values for part in (1, 2)), names=names)
    shop.run()

    shop.land(
        "20260102-000000.csv",
        f"U,{one},1,2026-01-02 00:00:00",
        f"D,{other},2,2026-01-02 00:00:00",
        f"I,{one},3,2026-01-02 00:00:00",
        names=names,
    )
    told = [(mart.strategy, mart.inserted, mart.updated, mart.deleted) for mart in shop.run().marts]

    assert told == [("row_delta", 1, 1, 1)] * 2
    rows = shop.session.table("lake.marts.orders")
    assert sorted(row["part"] for row in rows.collect()) == [1, 1, 2, 3]


@pytest.mark.laws
@pytest.mark.usefixtures("spark")  # so that Java runs
def test_changes_that_differ_only_in_content_are_folded_by_spark(tmp_path: Path) -> None:
    """ORDER: only Spark has the hash that decides between them."""
    columns = "{name: id, type: int}, {name: ts, type: timestamp}, {name: note, type: string}"
    marts_ = "{kind: current}, {kind: history}"
    shop = declared(tmp_path, keys="id", columns=columns, marts=marts_, source=", change_seq: seq")
    names, rows = ("id", "ts", "note", "seq"), shop.session.table
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,a,0001" for number in range(100)), names=names)
    shop.run()

    for number, note in enumerate("bcdc"):
        shop.land(f"20260102-00000{number}.csv", f"U,1,2026-01-02 00:00:00,{note},0002", names=names)
    strategies = [mart.strategy for mart in shop.run().marts]
    [chosen] = rows("lake.marts.orders").where("id = 1").collect()
    frazil.run(shop.pipeline, spark=shop.session, rebuild=True)

    assert strategies == ["delete_append", "delete_append"]
    assert rows("lake.marts.orders").where("id = 1").collect() == [chosen]
    assert rows("lake.marts.orders_history").where("id = 1 AND is_current").collect()[0]["note"] == chosen["note"]


def test_a_batch_of_bad_records_alone_changes_no_mart(shop: Shop) -> None:
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,a" for number in range(100)))
    shop.run()

    shop.land("20260102-000000.csv", "U,not a number,2026-01-02 00:00:00,b", "U,,2026-01-02 00:00:00,b")
    table = shop.run()

    assert (table.rows, table.changes, table.quarantined) == (2, 0, 2)
    assert [(mart.strategy, mart.rows, mart.late) for mart in table.marts] == [("row_delta", 0, 0)] * 2
    assert shop.session.table("lake.silver.orders_quarantine").count() == 2
    assert shop.session.table("lake.marts.orders").where("note = 'a'").count() == 100
    assert shop.run_again() == 0
