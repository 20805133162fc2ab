"""The tables and views that a declaration makes."""

from __future__ import annotations

from frazil.spec import Current, DmsFiles, Gold, History, Lake, Namespaces, Pipeline, Table
from frazil.spec.tables import lake_tables, source_tables

ORDERS = Table(
    name="orders",
    source=DmsFiles(path=("landing",)),
    keys=("id",),
    marts=(Current(deletes="soft", live_view="orders_live"), History(name="versions")),
)
SHOP = Pipeline(
    pipeline="shop",
    lake=Lake(warehouse="lake", namespaces=Namespaces(bronze="raw")),
    tables=(ORDERS,),
    gold=(Gold(name="daily", sql="select 1 as one"),),
)


def test_every_table_has_one_name_and_one_role() -> None:
    assert [(made.full_name, made.role, made.made_of) for made in lake_tables(SHOP)] == [
        ("raw.orders", "bronze", "orders"),
        ("silver.orders_changes", "silver", "orders"),
        ("silver.orders_quarantine", "quarantine", "orders"),
        ("marts.orders", "mart", "orders"),
        ("marts.versions", "mart", "orders"),
        ("marts.orders_live", "view", "orders"),
        ("gold.daily", "gold", "daily"),
    ]


def test_a_path_begins_with_the_catalog() -> None:
    made = source_tables(SHOP, ORDERS)

    assert made.bronze.path == ("lake", "raw", "orders")
    assert made.bronze.key == ("raw", "orders")


def test_a_view_is_of_the_mart_it_shows() -> None:
    made = source_tables(SHOP, ORDERS)

    assert [(view.mart is made.marts[0].mart) for view in made.views] == [True]
