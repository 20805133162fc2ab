"""How many changes a capture lands in a CPU second: ``python -m bench.capture_postgres [changes]``."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import psycopg

import frazil
from frazil.sources.kinds import captures_of
from frazil.testing.postgres import postgres_server

_DECLARATION = """\
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - {name: orders, source: {kind: postgres, url: "${env:BENCH_DB}", table: orders, landing: ./landing}, keys: [id]}
"""
_TABLE = """\
CREATE TABLE orders (id bigint PRIMARY KEY, customer_id int, status text, amount numeric(12,2), note text,
    updated_at timestamptz, payload jsonb)"""
_INSERT = """\
INSERT INTO orders SELECT g, g % 997, 'new', (g % 10000) / 100.0, 'note for order ' || g, now(),
    jsonb_build_object('items', g % 7, 'sku', md5(g::text)) FROM generate_series({0}, {1}) g"""
_UPDATE = "UPDATE orders SET status = 'paid', amount = amount + 1, updated_at = now() WHERE id BETWEEN {0} AND {1}"
_DELETE = "DELETE FROM orders WHERE id BETWEEN {0} AND {1}"
_TRANSACTION = 1000


def land(folder: Path, what: str) -> None:
    """Have one turn, and say what it cost."""
    pipeline = frazil.load(folder)
    [capture] = captures_of(pipeline, ["orders"])
    wall, cpu = time.perf_counter(), time.process_time()
    landed = capture.land(folder, lambda _: None)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    each = f"{landed.records / cpu:,.0f} a CPU second, {landed.records / wall:,.0f} a second"
    print(f"{what}: {landed.records:,} records in {wall:.1f} s, {each}, load {os.getloadavg()[0]:.0f}")


def main(changes: int) -> None:
    """Measure a stream of inserts, updates and deletes (2 : 2 : 1), and then the initial rows of the table."""
    with postgres_server() as server, tempfile.TemporaryDirectory() as name:
        os.environ["BENCH_DB"] = server.url
        for part in ("stream", "rows"):
            (Path(name) / part).mkdir()
            (Path(name) / part / "frazil.yml").write_text(_DECLARATION, encoding="utf-8")
        with psycopg.connect(server.url, autocommit=True) as session:
            session.execute(_TABLE)
            land(Path(name) / "stream", "nothing")
            for statement, share in ((_INSERT, 0.4), (_UPDATE, 0.4), (_DELETE, 0.2)):
                for first in range(1, int(changes * share), _TRANSACTION):
                    session.execute(statement.format(first, first + _TRANSACTION - 1).encode())
            land(Path(name) / "stream", "stream")
            session.execute("SELECT pg_drop_replication_slot('frazil')")
        land(Path(name) / "rows", "initial rows")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000)
