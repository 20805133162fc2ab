"""A shop that changes its orders in a real PostgreSQL, and a lake that follows in two ways: audit log and replication.

Uses the database of SHOP_DB if that is set; else starts one of its own, and stops it in the end.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from faker import Faker

from frazil import api
from frazil.testing.postgres import postgres_server

if TYPE_CHECKING:
    from collections.abc import Iterator

ORDERS = """
CREATE TABLE public.orders (
    order_id bigint PRIMARY KEY, customer text, email text, street text, city text, country text, product text,
    quantity int, unit_price numeric(12,2), currency text, status text, ordered_at timestamptz, note text
)"""
STATUS = ("new", "paid", "sent", "delivered", "cancelled")


def main(folder: Path, count: int) -> int:
    """Run the demonstration in a folder; return how many rows differ from the source."""
    with (
        database() as os.environ["SHOP_DB"],
        psycopg.connect(os.environ["SHOP_DB"], autocommit=True) as shop,
        ways(shop, folder) as declarations,
    ):
        shop.execute(ORDERS)
        shop.execute(api.audit_trigger("public.audit_log_dml", ["public.orders"]))
        draw = Faker()
        Faker.seed(1)
        insert(shop, draw, 1, count)
        each("run", declarations)
        trade(shop, draw, count)
        shop.execute("ALTER TABLE public.orders ADD COLUMN gift_wrap boolean")
        shop.execute("UPDATE public.orders SET gift_wrap = true WHERE order_id % 7 = 0")
        each("run", declarations)
        frazil("query", "SELECT * FROM gold.orders_by_status ORDER BY orders DESC", folder)
        frazil("query", "SELECT * FROM gold.revenue_by_day ORDER BY day DESC", "--limit", "5", folder)
        frazil("query", "SELECT max(ingested_at) AS fresh_as_of FROM marts.orders", folder)
        frazil(
            "query",
            "SELECT order_id, status, quantity, gift_wrap, valid_from, valid_to FROM marts.orders_history_scd2 "
            "WHERE order_id = 7 ORDER BY valid_from",
            folder,
        )
        frazil("test", folder)
        each("check", declarations)
        each("check", declarations, "--source")
        return differences(shop, folder) + (differences_of_ways(folder) if len(declarations) > 1 else 0)


@contextmanager
def database() -> Iterator[str]:
    """Give the URL of the database that SHOP_DB names, else of a new server that lives as long as this is open."""
    if given := os.environ.get("SHOP_DB"):
        yield given
    else:
        with postgres_server() as server:
            yield server.url


@contextmanager
def ways(shop: Any, folder: Path) -> Iterator[list[Path]]:
    """Give the declarations that this server can feed: of the audit log, and of logical replication; drop its slot."""
    declarations = [folder / "frazil.yml", folder / "replication.yml"]
    [level] = shop.execute("SHOW wal_level").fetchone()
    if level != "logical":
        print(f"\nwithout logical replication: wal_level of this server is {level}")  # noqa: T201
        yield declarations[:1]
        return
    try:
        yield declarations
    finally:
        # A slot that nobody reads lets the server keep its WAL for ever.
        shop.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = 'frazil_shop'"
        )
        shop.execute("DROP PUBLICATION IF EXISTS frazil_shop")


def insert(shop: Any, draw: Faker, first: int, count: int) -> None:
    """Take new orders."""
    with shop.transaction(), shop.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO public.orders VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, 'EUR', 'new', %s, %s)",
            [
                (
                    number,
                    draw.name(),
                    draw.email(),
                    draw.street_address(),
                    draw.city(),
                    draw.country(),
                    draw.word(),
                    draw.random_int(1, 9),
                    draw.pydecimal(min_value=1, max_value=500, right_digits=2),
                    draw.date_time_between("-30d", "-1d"),
                    draw.sentence() if number % 3 else None,
                )
                for number in range(first, first + count)
            ],
        )


def trade(shop: Any, draw: Faker, count: int) -> None:
    """Change some orders, delete some, take new ones."""
    chance = random.Random(1)  # noqa: S311 - a demonstration
    for number in chance.sample(range(1, count + 1), count // 4):
        shop.execute("UPDATE public.orders SET status = %s WHERE order_id = %s", (chance.choice(STATUS), number))
    shop.execute("DELETE FROM public.orders WHERE order_id % 20 = 3")
    insert(shop, draw, count + 1, count // 10)


def differences(shop: Any, folder: Path) -> int:
    """Compare the mart with the source, row by row and value by value."""
    columns = [row[0] for row in shop.execute("SELECT * FROM public.orders LIMIT 0").description]
    texts = ", ".join(f"{name}::text" for name in columns if name not in {"ordered_at", "gift_wrap"})
    times = "to_char(ordered_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), gift_wrap::text"
    source = {tuple(row) for row in shop.execute(f"SELECT {texts}, {times} FROM public.orders")}
    same = ", ".join(f"{name}::varchar" for name in columns if name not in {"ordered_at", "gift_wrap"})
    stamp = "strftime(ordered_at AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M:%S.%f'), gift_wrap::varchar"
    lake = {tuple(row) for row in api.query(folder, f"SELECT {same}, {stamp} FROM marts.orders").rows}
    print(f"\n{len(source):,} orders at the source, {len(lake):,} in the lake, {len(source ^ lake)} rows differ")  # noqa: T201
    return len(source ^ lake)


WAYS = """
WITH log AS (SELECT {columns} FROM {log}), replicated AS (SELECT {columns} FROM {replicated})
SELECT (SELECT count(*) FROM log), (SELECT count(*) FROM replicated), count(*) FROM (
    (FROM log EXCEPT ALL FROM replicated) UNION ALL (FROM replicated EXCEPT ALL FROM log)
)"""
PAIRS = {"marts.orders": "replication.orders", "marts.orders_history_scd2": "replication.orders_history"}


def differences_of_ways(folder: Path) -> int:
    """Compare the marts of the audit log with those of logical replication; return how many rows differ.

    All values are compared as text: a column that was added is text in the log's JSON. Versions are compared in their
    order, not by their times: the log has the time of a change, replication that of its commit.
    """
    found = api.query(folder, "SELECT * FROM replication.orders LIMIT 0").columns
    columns = ", ".join(f"{name}::varchar AS {name}" for name in found if not name.startswith("_"))
    place = "row_number() OVER (PARTITION BY order_id ORDER BY valid_from) AS version, is_current, is_deleted"
    different = 0
    for log, replicated in PAIRS.items():
        asked = f"{columns}, {place}" if "history" in log else columns
        sql = WAYS.format(columns=asked, log=log, replicated=replicated)
        [(ours, theirs, rows)] = api.query(folder, sql).rows
        print(f"{ours:,} rows in {log}, {theirs:,} in {replicated}, {rows} differ")  # noqa: T201
        different += rows
    return different


def each(command: str, declarations: list[Path], *arguments: object) -> None:
    """Run a command on every declaration."""
    for declaration in declarations:
        frazil(command, *arguments, declaration)


def frazil(command: str, *arguments: object) -> None:
    """Run a command as a user would."""
    words = [command, *map(str, arguments)]
    print(f"\n\033[1m$ frazil {' '.join(words)}\033[0m", flush=True)  # noqa: T201
    subprocess.run([Path(sys.executable).with_name("frazil"), *words], check=True)


if __name__ == "__main__":
    here = Path("build/demo/shop")
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir(parents=True)
    for name in ("frazil.yml", "replication.yml"):
        shutil.copy(Path(__file__).with_name(name), here)
    sys.exit(1 if main(here, 2_000) else 0)
