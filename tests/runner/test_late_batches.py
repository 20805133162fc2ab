"""LATE: the late changes of a batch under each strategy, and the few comparisons to find them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.shop import LONG, Shop, declared

import frazil
from frazil.marts import late
from frazil.marts.arrow import fold as arrow_fold
from frazil.runner.apply import arrow_verdicts
from frazil.runner.options import RunOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_a_change_as_new_as_the_newest_before_may_still_be_late(shop: Shop) -> None:
    """Of equal times the place decides, so such a batch is compared with what each key has."""
    shop.land("LOAD001.csv", "I,1,2026-01-01 00:00:00,new", "I,2,2026-01-01 00:00:00,new")
    shop.run()
    shop.land("20260103-000000.csv", "D,1,2026-01-03 00:00:00,", "U,2,2026-01-03 00:00:00,again")
    shop.run()

    shop.land("20260102-000000.csv", "U,1,2026-01-03 00:00:00,late", "U,2,2026-01-03 00:00:00,late")
    current = shop.run().marts[0]
    shop.land("20260104-000000.csv", "U,1,2026-01-03 00:00:00.000001,newer")
    after = shop.run().marts[0]

    assert (current.late, after.late, after.inserted) == (2, 0, 1)
    assert sorted(shop.session.table("lake.marts.orders").select("id", "note").collect()) == [
        (1, "newer"),
        (2, "again"),
    ]


@pytest.mark.parametrize("chosen", ["row_delta", LONG("delete_append"), LONG("overwrite")])
def test_what_is_older_than_a_batch_is_not_looked_at_and_makes_nothing_late(chosen: str, shop: Shop) -> None:
    """LATE, NO-RESURRECTION: rows and deletes of days before, of the batch's first day and moment, and after."""
    shop = shop.by(strategy=chosen)
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,old" for number in range(1, 7)))
    shop.run()
    shop.land(
        "20260105-000000.csv",
        "U,1,2026-01-05 10:00:00,newer",
        "U,2,2026-01-03 00:00:00,as new",
        "U,3,2026-01-02 23:59:59,older",
        "D,4,2026-01-05 10:00:00,gone",
        "D,5,2026-01-02 10:00:00,gone",
    )
    shop.run()

    shop.land("20260103-000000.csv", *(f"U,{number},2026-01-03 00:00:00,new" for number in range(1, 8)))
    report = shop.run()

    assert [(mart.late, mart.inserted) for mart in report.marts] == [(3, 2), (3, 2)]
    assert {row["id"]: row["note"] for row in shop.session.table("lake.marts.orders").collect()} == {
        1: "newer",
        2: "as new",
        3: "new",
        5: "new",
        6: "new",
        7: "new",
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "values", "rows_along"),
    [
        LONG("int", ("1", "2", "10"), 1_000),
        LONG("bigint", ("-9007199254740993", "-9007199254740992", "9007199254740993"), 1_000),
        ("decimal(38,4)", ("0.0001", "0.0002", "9999999999999999999999999999999999.9999"), 1_000),
        LONG("double", ("-1e300", "1e-7", "NaN"), 1_000),
        LONG("string", ("A", "Aa", "a"), 1_000),
        LONG("date", ("0001-01-01", "2026-01-01", "2026-01-02"), 1_000),
        ("timestamp", ("1969-12-31 23:59:59", "2026-01-01 00:00:00", "2026-01-01 00:00:00.000001"), 1_000),
        ("timestamp", ("1969-12-31 23:59:59", "2026-01-01 00:00:00", "2026-01-01 00:00:00.000001"), 0),
        LONG("timestamp_ntz", ("1969-12-31 23:59:59", "2026-01-01 00:00:00", "2026-01-01 00:00:00.000001"), 1_000),
    ],
)
@pytest.mark.usefixtures("spark")  # so that Java runs
def test_changes_ordered_by_any_type_are_late_where_they_do_not_begin_after_what_there_is(
    kind: str,
    values: tuple[str, str, str],
    rows_along: int,
    tmp_path: Path,
) -> None:
    """LATE: of keys with a row, with a delete and with neither; older, as new and newer."""
    columns = f'{{name: id, type: int}}, {{name: at, type: "{kind}"}}, {{name: note, type: string}}'
    shop = declared(tmp_path, keys="id", sequence_by="at", columns=columns, marts="{kind: current}")
    shop = shop.by(strategy="row_delta", order_column_rows=rows_along)
    names, (low, middle, high) = ("id", "at", "note"), values
    shop.land("LOAD001.csv", *(f"I,{number},{low},old" for number in range(10)), names=names)
    shop.run()
    shop.land(
        "20260102-000000.csv",
        *(f"U,{number},{middle},seen" for number in (1, 2, 3)),
        *(f"D,{number},{middle}," for number in (4, 5, 6)),
        names=names,
    )
    shop.run()

    changes = [f"U,{number},{at},new" for number, at in enumerate((low, middle, high) * 2, start=1)]
    shop.land("20260101-000000.csv", *changes, f"U,7,{middle},new", f"I,11,{low},new", names=names)
    [report] = shop.run().marts

    # The file stands before the other, so what is as new as that is late too.
    assert (report.strategy, report.late, report.inserted, report.updated) == ("row_delta", 4, 2, 2)
    rows = {row["id"]: row["note"] for row in shop.session.table("lake.marts.orders").collect()}
    assert rows == {0: "old", 1: "seen", 2: "seen", 3: "new", 6: "new", 7: "new", 8: "old", 9: "old", 11: "new"}


@pytest.mark.parametrize("chosen", ["row_delta", LONG("delete_append")])
@pytest.mark.usefixtures("spark")  # so that Java runs
def test_nothing_is_newer_than_what_is_not_a_number(chosen: str, tmp_path: Path) -> None:
    """LATE, NO-RESURRECTION: NaN is the greatest number, and files of it alone are not left out."""
    columns = "{name: id, type: int}, {name: at, type: double}, {name: note, type: string}"
    shop = declared(tmp_path, keys="id", sequence_by="at", columns=columns, marts="{kind: current}").by(strategy=chosen)
    names = ("id", "at", "note")
    shop.land("LOAD001.csv", *(f"I,{number},1.0,old" for number in range(10)), names=names)
    shop.run()
    shop.land("20260102-000000.csv", "U,1,NaN,last", "D,2,NaN,", names=names)
    shop.run()

    shop.land("20260103-000000.csv", "U,1,2.0,late", "U,2,2.0,late", "U,3,2.0,new", names=names)
    [report] = shop.run().marts

    assert (report.strategy, report.late, report.updated) == (chosen, 2, 1)
    rows = {row["id"]: row["note"] for row in shop.session.table("lake.marts.orders").collect()}
    assert rows == {0: "old", 1: "last", 3: "new"} | dict.fromkeys(range(4, 10), "old")


@pytest.mark.long
@pytest.mark.parametrize(("most", "strategy"), [(500_000, "row_delta"), (3, "delete_append")])
def test_keys_with_late_changes_are_recomputed_by_the_driver_where_they_have_few(
    most: int, strategy: str, spark: SparkSession, tmp_path: Path
) -> None:
    """LATE, HISTORY, CONVERGE: into soft tables and histories; with deleted and unknown keys among them."""
    del spark  # only there so that Java runs
    columns = "{name: id, type: int}, {name: ts, type: timestamp}, {name: note, type: string}"
    marts = "{kind: current, deletes: soft}, {kind: history}, {kind: history, name: marked, deletes: mark}"
    shop = declared(tmp_path, keys="id", columns=columns, marts=marts).by(
        strategy="row_delta", single_task_changes=most
    )
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,old" for number in range(10)))
    shop.run()
    shop.land("20260105-000000.csv", *(f"U,{number},2026-01-05 00:00:00,new" for number in range(5)))
    shop.land("20260106-000000.csv", "D,1,2026-01-06 00:00:00,", "D,2,2026-01-06 00:00:00,")
    shop.run()
    late_ones = "U,0,2026-01-03 00:00:00,late", "U,1,2026-01-03 00:00:00,late", "D,4,2026-01-02 00:00:00,"
    shop.land("20260103-000000.csv", *late_ones, "U,2,2026-01-07 00:00:00,again", "I,90,2026-01-02 00:00:00,never seen")

    report = shop.run()

    rows = {mart.mart: everything(shop, mart.mart) for mart in report.marts}
    frazil.run(shop.pipeline, spark=shop.session, rebuild=True, options=RunOptions(policy=shop.policy))
    assert [(mart.strategy, mart.late) for mart in report.marts] == [(strategy, 3)] * 3
    assert rows == {mart.mart: everything(shop, mart.mart) for mart in report.marts}


@pytest.mark.long
@pytest.mark.usefixtures("spark")  # so that Java runs
def test_keys_are_recomputed_that_have_changes_from_before_a_column_came(tmp_path: Path) -> None:
    """LATE, EVOLVE, MISSING-IS-NOT-NULL: a change of that time says nothing of the column."""
    columns = "{name: id, type: int}, {name: ts, type: timestamp}, {name: note, type: string}"
    marts = "{kind: current, deletes: soft}, {kind: history}"
    shop = declared(tmp_path, keys="id", columns=columns, marts=marts)
    declaration = tmp_path / "frazil.yml"
    text = declaration.read_text(encoding="utf-8").replace(
        "keys: [id]", "keys: [id]\n    evolution: {on_new_column: evolve}"
    )
    declaration.write_text(text, encoding="utf-8")
    shop = replace(shop, pipeline=frazil.load(tmp_path)).by(strategy="row_delta")
    names = ("id", "ts", "note")
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,old" for number in range(10)), names=names)
    shop.run()
    shop.land(
        "20260105-000000.csv",
        *(f"U,{number},2026-01-05 00:00:00,new,much" for number in range(5)),
        names=(*names, "more"),
    )
    shop.run()
    late_ones = [f"U,{number},2026-01-03 00:00:00,late,less" for number in (0, 7)]
    shop.land("20260103-000000.csv", *late_ones, "D,1,2026-01-04 00:00:00,late,less", names=(*names, "more"))
    shop.land("20260106-000000.csv", "D,3,2026-01-06 00:00:00,,", "U,4,2026-01-01 00:00:00,,", names=(*names, "more"))

    report = shop.run()

    rows = {mart.mart: everything(shop, mart.mart) for mart in report.marts}
    frazil.run(shop.pipeline, spark=shop.session, rebuild=True, options=RunOptions(policy=shop.policy))
    assert [mart.strategy for mart in report.marts] == ["row_delta"] * 2
    assert "more='much'" in f"{rows['orders']}"
    assert rows == {mart.mart: everything(shop, mart.mart) for mart in report.marts}


@pytest.mark.long
@pytest.mark.parametrize(
    ("op", "plain"),
    [
        pytest.param("D", True, id="deletes typed by Arrow"),
        pytest.param("D", False, id="deletes typed by Spark", marks=pytest.mark.laws),
        pytest.param("U", True, id="updates typed by Arrow", marks=pytest.mark.laws),
        pytest.param("U", False, id="updates typed by Spark"),
    ],
)
def test_deletes_of_few_columns_take_no_values_from_older_changes(op: str, *, plain: bool, shop: Shop) -> None:
    """MISSING-IS-NOT-NULL: upserts do, and where there are some, Spark makes the keys that have late changes."""
    shop = shop.by(strategy="row_delta", plain=plain)
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,old" for number in range(10)))
    shop.run()
    shop.land("20260105-000000.csv", f"{op},1,2026-01-05 00:00:00", names=("id", "ts"))
    shop.run()
    shop.land("20260103-000000.csv", "U,1,2026-01-03 00:00:00,late", "U,2,2026-01-03 00:00:00,new")

    current, history = shop.run().marts

    made = everything(shop, "orders"), everything(shop, "orders_history")
    frazil.run(shop.pipeline, spark=shop.session, rebuild=True, options=RunOptions(policy=shop.policy))
    assert (current.late, history.strategy) == (1, "row_delta" if op == "D" else "delete_append")
    assert made == (everything(shop, "orders"), everything(shop, "orders_history"))


def everything(shop: Shop, mart: str) -> list[str]:
    return sorted(f"{row}" for row in shop.session.table(f"lake.marts.{mart}").collect())


@pytest.mark.laws
@pytest.mark.parametrize("files_a_task", [0, LONG(64)])
def test_keys_that_begin_after_what_they_have_are_not_compared_change_by_change(
    files_a_task: int, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches whose times overlap are common, and late changes in them are not."""
    shop = shop.by(single_task_files=files_a_task)
    compared = 0

    def counted(judge: Callable[..., Any]) -> Callable[..., Any]:
        def judged(*given: Any, **named: Any) -> Any:
            nonlocal compared
            compared += 1
            return judge(*given, **named)

        return judged

    monkeypatch.setattr(late, "with_prior_order", counted(late.with_prior_order))
    monkeypatch.setattr(arrow_verdicts, "verdicts_arrow", counted(arrow_fold.verdicts_arrow))
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,a" for number in range(100)))
    shop.run()
    shop.land("20260102-000000.csv", "U,1,2026-01-02 12:00:00,b", "D,2,2026-01-02 12:00:00,")
    shop.run()

    shop.land(
        "20260103-000000.csv", "U,1,2026-01-02 13:00:00,c", "I,2,2026-01-02 12:00:01,c", "U,3,2026-01-02 00:00:00,c"
    )
    overlaps, times = shop.run(), compared
    shop.land("20260104-000000.csv", "U,1,2026-01-02 13:30:00,d", "U,2,2026-01-02 12:00:01,d")
    ties = shop.run()

    assert ([mart.late for mart in overlaps.marts], times) == ([0, 0], 0)
    assert ([mart.late for mart in ties.marts], compared > 0) == ([0, 0], True)


def test_only_keys_that_the_mart_has_no_rows_of_are_late(shop: Shop) -> None:
    """LATE, NO-RESURRECTION: of the rows that were found none is compared, of the tombstones one."""
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,a" for number in range(100)))
    shop.run()
    shop.land("20260105-000000.csv", "D,1,2026-01-05 00:00:00,")
    shop.run()

    shop.land("20260106-000000.csv", "U,1,2026-01-04 00:00:00,late", "U,2,2026-01-06 00:00:00,b")

    assert [mart.late for mart in shop.run().marts] == [1, 1]
