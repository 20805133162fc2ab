"""SQL over the lake."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

import frazil
from frazil.serve.query.query import QueryError, as_json, query

if TYPE_CHECKING:
    from pathlib import Path

    from tests.serve.conftest import Shop

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("table", ["marts.items", "lake.marts.items", "items", 'MARTS."Items"'])
def test_a_table_has_a_short_and_a_long_name(shop: Shop, table: str) -> None:
    assert query(shop.pipeline, f"select id, price from {table} order by id").rows == [
        (1, Decimal("1.50")),
        (3, Decimal("3.30")),
        (5, Decimal("5.00")),
    ]


@pytest.mark.parametrize(
    ("table", "count"),
    [
        ("bronze.items", 13),
        ("silver.items_changes", 8),
        ("items_quarantine", 1),
        ("items_all", 4),
        ("items_history", 6),
        ("gold.prices", 1),
    ],
)
def test_every_layer_can_be_asked(shop: Shop, table: str, count: int) -> None:
    assert query(shop.pipeline, f"select count(*) from {table}").rows == [(count,)]


def test_a_live_view_shows_what_the_hard_table_shows(shop: Shop) -> None:
    declaration = (shop.folder / "frazil.yml").read_text(encoding="utf-8")
    file = shop.folder / "live.yml"
    file.write_text(declaration.replace("soft}", "soft, live_view: items_live}"), encoding="utf-8")

    live, hard = (query(frazil.load(file), f"from {name} order by id") for name in ("items_live", "items"))

    assert live == hard


def test_json_is_exact_and_in_utc(shop: Shop) -> None:
    sql = "select id, ts, price, [ts] as several, {'at': ts} as inside from items where id = 1"

    values = json.loads(as_json(query(shop.pipeline, sql)))

    moment = "2026-01-02T08:00:00.000000Z"
    assert values == [{"id": 1, "ts": moment, "price": "1.50", "several": [moment], "inside": {"at": moment}}]


def test_no_rows_are_an_empty_array(shop: Shop) -> None:
    assert as_json(query(shop.pipeline, "select * from items where false")) == "[]"


def test_equal_column_names_are_made_unique(shop: Shop) -> None:
    result = query(shop.pipeline, "select a.id, b.id from items a join items b using (id) where id = 1")

    assert json.loads(as_json(result)) == [{"id": 1, "id_1": 1}]


def test_a_wrong_name_has_the_nearest_name_as_a_hint(shop: Shop) -> None:
    with pytest.raises(QueryError, match=r"no table 'itmes'\n.*did you mean 'marts\.items'"):
        query(shop.pipeline, "select * from itmes")


def test_show_tables_lists_the_names_that_queries_use(shop: Shop) -> None:
    names = [name for (name,) in query(shop.pipeline, "Show Tables;").rows]

    assert names == sorted(names)
    assert {"bronze.items", "marts.items", "gold.prices"} < {*names}


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("", "there is none"),
        ("select 1; select 2", "there are 2"),
        ("selct 1", "not SQL"),
        ("select nmae from items", "name"),
        ("create table x as select 1", "a query reads"),
        ("insert into items select * from items", "a query reads"),
        ("set enable_external_access = true", "a query reads"),
        ("attach 'x.db'", "a query reads"),
        ("explain analyze copy (select 1) to 'x.csv'", "a query reads"),
    ],
)
def test_other_statements_than_a_single_query_are_refused(shop: Shop, sql: str, why: str) -> None:
    with pytest.raises(QueryError, match=why):
        query(shop.pipeline, sql)


def test_a_query_neither_writes_nor_reads_other_files(shop: Shop, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n", encoding="utf-8")
    before = sorted((shop.folder / "my lake").rglob("*"))

    with pytest.raises(QueryError, match="a query reads"):
        query(shop.pipeline, f"copy (select 1) to '{shop.folder}/my lake/marts/items/x.csv'")
    with pytest.raises(QueryError, match="disabled by configuration"):
        query(shop.pipeline, f"select * from read_csv('{secret}')")

    assert sorted((shop.folder / "my lake").rglob("*")) == before


def test_the_information_schema_lists_the_tables(shop: Shop) -> None:
    result = query(shop.pipeline, "select table_schema, table_name from information_schema.tables order by all")

    assert [".".join(row) for row in result.rows] == [
        "bronze.items",
        "gold.prices",
        "marts.items",
        "marts.items_all",
        "marts.items_history",
        "marts.items_marked",
        "silver.items_changes",
        "silver.items_quarantine",
    ]
