"""A lake as an object: its tables as Arrow, pandas and Spark, and one word wherever words are taken."""

from __future__ import annotations

import inspect
import sys
import threading
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import frazil
from frazil import api
from frazil.errors import SetupError
from frazil.serve.query.query import QueryError
from frazil.spec.sql.select import UnknownSelectionError

if TYPE_CHECKING:
    from tests.serve.conftest import Shop

pytestmark = pytest.mark.spark

FUNCTIONS = {name: getattr(api, name) for name in api.__all__ if inspect.isfunction(getattr(api, name))}
TAKE_WORDS = [
    name
    for name, function in FUNCTIONS.items()
    if "select" in inspect.signature(function).parameters and name != "save_plan"  # which only writes them down
]


def test_a_table_is_the_same_in_arrow_pandas_and_spark(undamaged_shop: Shop) -> None:
    lake = frazil.connect(undamaged_shop.folder)

    table = lake.table("marts.items").to_arrow().sort_by("id")
    frame = lake.table("items").df().sort_values("id")
    spark = lake.spark("marts.items", spark=undamaged_shop.session).orderBy("id").collect()

    assert table["id"].to_pylist() == [1, 3, 5] == [*frame["id"]] == [row.id for row in spark]
    assert table["price"].to_pylist() == [Decimal("1.50"), Decimal("3.30"), Decimal("5.00")] == [*frame["price"]]
    assert [row.price for row in spark] == [*frame["price"]]
    assert table.schema.field("ts").type == pa.timestamp("us", tz="UTC")
    assert set(table.column_names) == set(spark[0].asDict())


def test_a_table_of_the_past_is_read_at_its_point(undamaged_shop: Shop) -> None:
    lake = frazil.connect(undamaged_shop.folder)

    rows = lake.table("silver.items_changes", as_of="batch:1").to_arrow()

    assert rows.num_rows < lake.table("silver.items_changes").to_arrow().num_rows


def test_an_unknown_table_is_an_error_with_a_suggestion(undamaged_shop: Shop) -> None:
    with pytest.raises(QueryError, match=r"no table 'itms'"):
        frazil.connect(undamaged_shop.folder).table("marts.itms").to_arrow()


def test_the_rows_of_a_query_keep_their_types_in_arrow(undamaged_shop: Shop) -> None:
    found = frazil.connect(undamaged_shop.folder).query(
        "select sum(id) as ids, max(ts) as ts, [1.5::decimal(9,2)] as list, {'a': 1} as pair, map{'x': NULL} as map, "
        'uuid() as uuid, NULL as none, 1 as "1", 1 as "1" from items'
    )

    table = found.to_arrow()

    assert table.schema.field("ids").type == pa.decimal128(38, 0)
    assert table.schema.field("ts").type == pa.timestamp("us", tz="UTC")
    assert table.column_names[-2:] == ["1", "1_1"]
    [row] = table.to_pylist()
    assert [row["ids"], row["list"], row["pair"], row["map"]] == [9, [Decimal("1.50")], {"a": 1}, [("x", None)]]
    assert row["ts"] == found.rows[0][1]


def test_values_beyond_arrow_are_refused(undamaged_shop: Shop) -> None:
    lake = frazil.connect(undamaged_shop.folder)

    with pytest.raises(QueryError, match="nanoseconds"):
        lake.query("select timestamp_ns '2026-01-01 00:00:00.123456789' as at").to_arrow()
    with pytest.raises(QueryError, match="Arrow cannot hold"):
        lake.query("select 340282366920938463463374607431768211455::uhugeint as big").to_arrow()


def test_a_frame_of_polars_needs_polars(undamaged_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)

    with pytest.raises(SetupError, match="Polars is not installed"):
        frazil.connect(undamaged_shop.folder).table("items").pl()


def test_the_story_and_the_state_are_those_of_the_functions(undamaged_shop: Shop) -> None:
    lake = frazil.connect(undamaged_shop.folder)

    assert lake.key("items", "1") == api.key(undamaged_shop.folder, "items", ["1"])
    assert lake.status() == api.status(undamaged_shop.folder)


def test_a_notebook_shows_values_as_text(undamaged_shop: Shop) -> None:
    lake = frazil.connect(undamaged_shop.folder)
    evil = lake.query(
        "select '<script>alert(1)</script>' as \"<b>\", chr(8238) || 'x' as bidi, NULL as none from items"
    )

    shown = [
        evil._repr_html_(),
        lake.key("items", "1")._repr_html_(),
        lake.status()._repr_html_(),
        api.plan(undamaged_shop.folder)._repr_html_(),
    ]

    assert "<script" not in shown[0]
    assert "<b>" not in shown[0]
    assert "⟦U+202E⟧x" in shown[0]
    assert "late" in shown[1]
    assert "marts.items" in shown[2]
    assert "nothing to do" in shown[3]


@pytest.mark.parametrize("name", TAKE_WORDS)
def test_one_word_is_a_selection(name: str, undamaged_shop: Shop) -> None:
    given: dict[str, Any] = {"stop": threading.Event()} if name in ("capture", "watch") else {}
    if "spark" in inspect.signature(FUNCTIONS[name]).parameters:
        given["spark"] = undamaged_shop.session

    with pytest.raises(UnknownSelectionError, match="'nosuch'"):
        FUNCTIONS[name](undamaged_shop.folder, select="nosuch", **given)


def test_no_function_takes_several_words_only() -> None:
    bare = [
        f"{name}({one.name})"
        for name, function in FUNCTIONS.items()
        for one in inspect.signature(function).parameters.values()
        if "Sequence[str]" in f"{one.annotation}" and one.name != "values"  # a key may be one text too
    ]

    assert bare == []
    assert len(TAKE_WORDS) > 10
