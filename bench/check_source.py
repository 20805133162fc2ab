"""What it costs to find one changed value in a table: ``python -m bench.check_source [rows]``."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Self

import psycopg

import frazil
from frazil import api
from frazil.spark.session import spark_session
from frazil.testing.postgres import postgres_server

if TYPE_CHECKING:
    from frazil.testing.postgres import PostgresServer

_DECLARATION = """\
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - {name: orders, source: {kind: postgres, url: "${env:BENCH_DB}", table: orders, landing: ./landing}, keys: [id]}
"""
_TABLE = """\
CREATE TABLE orders (id bigint PRIMARY KEY, customer_id int, status text, amount numeric(12,2), note text,
    updated_at timestamptz, paid boolean, rate double precision)"""
_INSERT = """\
INSERT INTO orders SELECT g, g % 997, 'status ' || g % 7, (g % 10000) / 100.0, 'note for order ' || g,
    now() + g * interval '1 second', g % 2 = 0, g / 7.0 FROM generate_series(1, {0}) g"""
_CHANGE = "UPDATE orders SET amount = amount + 0.01 WHERE id = {0}"
_TICKS = os.sysconf("SC_CLK_TCK")
_BLOCKS = "SELECT sum(blks_hit + blks_read) FROM pg_stat_database"


class Server:
    """CPU time and pages of a server."""

    def __init__(self, server: PostgresServer) -> None:
        self._leader = server.pid
        self._ended = 0.0
        self._live: dict[int, float] = {}
        self._stop = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._before = self._now()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _now(self) -> dict[int, float]:
        """Return the CPU seconds of each process below the leader."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                parts = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
            except OSError:
                continue
            if parts and int(parts[1]) == self._leader:
                found[int(entry.name)] = (int(parts[11]) + int(parts[12])) / _TICKS
        return found

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            self._live |= self._now()

    @property
    def cpu(self) -> float:
        """CPU seconds since the beginning, of processes that ended meanwhile too, to a twentieth of a second each."""
        return sum(seconds - self._before.get(pid, 0.0) for pid, seconds in self._live.items())


def compare(folder: Path, server: PostgresServer, what: str) -> None:
    """Compare once, and say what it cost."""
    with psycopg.connect(server.url, autocommit=True) as session:
        pages = session.execute(_BLOCKS).fetchall()[0][0]
        wall, cpu = time.perf_counter(), time.process_time()
        with Server(server) as other:
            [finding] = api.check_source(folder)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        time.sleep(1.5)  # a server counts its pages now and then
        pages = session.execute(_BLOCKS).fetchall()[0][0] - pages
        table = session.execute("SELECT pg_relation_size('orders') / 8192").fetchall()[0][0]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what}: {wall:.1f} s; CPU {cpu:.1f} s here, {other.cpu:.1f} s in the server; peak {peak:.0f} MB; ", end="")
    print(f"{pages / table:.1f} scans of the table there; load {os.getloadavg()[0]:.1f}\n  {finding.detail}")
    for one in finding.differences:
        print(f"  {one.key}: {one.why}: {one.detail}")


def main(rows: int) -> None:
    """Load a table, compare it, change one value, and find it."""
    with postgres_server() as server, tempfile.TemporaryDirectory() as name:
        os.environ["BENCH_DB"] = server.url
        folder = Path(name)
        (folder / "frazil.yml").write_text(_DECLARATION, encoding="utf-8")
        with psycopg.connect(server.url, autocommit=True) as session:
            session.execute(_TABLE)
            session.execute(_INSERT.format(rows).encode())
            session.execute("VACUUM ANALYZE orders")
            pipeline = frazil.load(folder)
            spark = spark_session(pipeline)
            frazil.run(pipeline, spark=spark)
            spark.stop()
            compare(folder, server, "nothing differs")
            session.execute(_CHANGE.format(rows // 2).encode())
            compare(folder, server, "one value differs")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000)
