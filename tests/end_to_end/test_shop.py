"""CONVERGE: an audit log and logical replication of one PostgreSQL end in the same rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from examples.shop import shop
from faker import Faker

import frazil
from frazil import api
from frazil.serve.check.check import check
from frazil.serve.query.query import query
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "shop"

BACK = "INSERT INTO orders (order_id, customer, country, product, status, ordered_at, unit_price) SELECT {}, now(), 1"

STEPS = (
    "ALTER TABLE orders ADD COLUMN gift_wrap boolean",
    "UPDATE orders SET gift_wrap = order_id % 2 = 0 WHERE order_id % 3 = 0",
    "UPDATE orders SET order_id = order_id + 1000 WHERE order_id IN (2, 6)",
    "UPDATE orders SET note = NULL, unit_price = 0.10 WHERE order_id = 7",
    "UPDATE orders SET city = city WHERE order_id = 9",  # changes nothing, so it begins no version
    "BEGIN; UPDATE orders SET status = 'sent'; ROLLBACK",
    "DELETE FROM orders WHERE order_id = 8",
    BACK.format("8, 'back', 'DE', 'word', 'new'"),
)


@pytest.mark.spark
@pytest.mark.long
def test_the_audit_log_and_replication_give_the_same_orders_and_versions(
    database: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a column that is added at the source in mid-flight, changed keys, and a key that comes back."""
    del spark  # only there so that Java runs
    monkeypatch.setenv("SHOP_DB", database)
    for name in ("frazil.yml", "replication.yml"):
        shutil.copy(EXAMPLE / name, tmp_path)
    Faker.seed(1)

    with psycopg.connect(database, autocommit=True) as session, shop.ways(session, tmp_path) as declarations:
        session.execute(shop.ORDERS)
        session.execute(api.audit_trigger("public.audit_log_dml", ["public.orders"]))
        shop.insert(session, Faker(), 1, 40)
        lakes = [frazil.load(declaration) for declaration in declarations]
        run(lakes)
        shop.trade(session, Faker(), 40)
        for step in STEPS:
            session.execute(step.encode())
        run(lakes)

        assert shop.differences_of_ways(tmp_path) == 0
        assert shop.differences(session, tmp_path) == 0
        assert [finding for lake in lakes for finding in check(lake) if finding.ok is False] == []
        sources = [finding for lake in lakes for finding in api.check_source(lake)]
        assert [finding.ok for finding in sources] == [True, True, True]
        changed: list[Any] = query(
            lakes[1],
            "SELECT gift_wrap, is_current FROM replication.orders_history WHERE order_id = 9 ORDER BY valid_from",
        ).rows
        assert changed[-1] == (False, True)
    assert slots(database) == 0


def run(lakes: list[frazil.Pipeline]) -> None:
    for lake in lakes:
        frazil.run(lake, spark=spark_session(lake))


def slots(database: str) -> int:
    with psycopg.connect(database) as session:
        found = session.execute("SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'frazil_shop'").fetchone()
    return int(found[0]) if found else -1
