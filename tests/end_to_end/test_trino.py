"""Trino, as ``frazil serve trino`` starts it: it reads what Frazil wrote, and what it writes breaks nothing."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import trino
from pyiceberg.table import StaticTable
from tests.end_to_end.engines import Engines
from tests.end_to_end.foreign_hands import new_hands

import frazil
from frazil import api
from frazil.serve.tables import tables
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: dms, path: ./landing, header: true}
    keys: [id]
    sequence_by: [updated_at]
    columns: [{name: id, type: int}, {name: updated_at, type: timestamp}, {name: total, type: "decimal(8,2)"}, "*"]
    marts:
      - {kind: current, partition_by: ["bucket(2, id)"], sort_by: [id]}
      - {kind: current, name: orders_soft, deletes: soft}
      - {kind: history}
"""
FILES = (
    ("Op,id,updated_at,total,status", *(f"I,{n},2026-01-01 00:00:00,{n}.50,new" for n in range(1, 41))),
    (
        "Op,id,updated_at,total,status",
        *(f"U,{n},2026-01-02 00:00:00,{n}.75,paid" for n in range(1, 11)),
        "D,40,2026-01-02 00:00:00,,",
    ),
    ("Op,id,updated_at,total,status,country", *(f"U,{n},2026-01-03 00:00:00,{n}.99,sent,CH" for n in range(1, 4))),
)
MARTS = ("orders", "orders_soft", "orders_history")
SHORT, LONG = (1,), range(1000, 1050)
"""Seeds of what other engines do to the tables."""


@dataclass
class Shop:
    """A lake of three runs."""

    folder: Path
    loaded_at: dt.datetime | None = None
    """When its first run was over."""

    def land(self, number: int, lines: tuple[str, ...]) -> None:
        (self.folder / "landing").mkdir(parents=True, exist_ok=True)
        path = self.folder / "landing" / f"2026010{number}-000000000.csv"
        path.write_text("\n".join((*lines, "")), encoding="utf-8")

    def run(self) -> None:
        pipeline = frazil.load(self.folder)
        frazil.run(pipeline, spark=spark_session(pipeline))

    def by_duckdb(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in api.query(self.folder, sql).rows]

    def by_spark(self, sql: str) -> list[tuple[Any, ...]]:
        rows = spark_session(frazil.load(self.folder)).sql(sql.replace("marts.", "lake.marts.")).collect()
        return [tuple(row) for row in rows]

    def by_pyiceberg(self, mart: str, columns: list[str]) -> list[tuple[Any, ...]]:
        place = tables(frazil.load(self.folder))["marts", mart]
        rows = StaticTable.from_metadata(place).scan(selected_fields=tuple(columns)).to_arrow().to_pylist()
        return [tuple(row[name] for name in columns) for row in rows]


@dataclass
class Served:
    """The command at work, and what it printed."""

    process: subprocess.Popen[str]
    said: dict[str, Any]

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(
            trino.dbapi.connect(host="127.0.0.1", port=self.said["port"], user="me", catalog="lake", schema="marts")
        ) as asked:
            cursor = asked.cursor()
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()]


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    del spark  # only there so that Java runs
    made = Shop(tmp_path_factory.mktemp("trino"))
    (made.folder / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    for number, lines in enumerate(FILES, start=1):
        made.land(number, lines)
        made.run()
        made.loaded_at = made.loaded_at or dt.datetime.now(dt.UTC)
    return made


@pytest.fixture(scope="module")
def served(shop: Shop) -> Iterator[Served]:
    command = [sys.executable, "-m", "frazil", "serve", "trino", f"{shop.folder}", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        assert process.stdout
        text = ""
        while not text.endswith("}\n"):
            line = process.stdout.readline()
            assert line, "frazil serve trino ended"
            text += line
        yield Served(process, json.loads(text))
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def in_order(rows: list[tuple[Any, ...]]) -> list[str]:
    return sorted(repr(tuple(str(value) for value in row)) for row in rows)


@pytest.mark.server
def test_four_engines_read_the_same_rows(shop: Shop, served: Served) -> None:
    columns = ["id", "total", "status", "country"]
    for mart in MARTS:
        sql = f"SELECT {', '.join(columns)} FROM marts.{mart}"
        rows = in_order(served.ask(sql))
        assert len(rows) > len(FILES[0]) - 3
        assert rows == in_order(shop.by_duckdb(sql)) == in_order(shop.by_spark(sql))
        assert rows == in_order(shop.by_pyiceberg(mart, columns))
    page = urllib.request.urlopen(served.said["url"], timeout=60).read()  # noqa: S310
    assert b"Trino" in page


@pytest.mark.server
def test_the_questions_of_the_recipe_are_answered(served: Served) -> None:
    """Those of docs/trino.md."""
    often = "SELECT id, count(*) - 1 AS updates FROM orders_history GROUP BY id HAVING count(*) > 2 ORDER BY id"
    gone = "SELECT id, deleted_at FROM orders_soft WHERE is_deleted"
    fresh = "SELECT max(updated_at) FROM orders"

    assert served.ask(often) == [(1, 2), (2, 2), (3, 2)]
    assert [(key, f"{at:%Y-%m-%d}") for key, at in served.ask(gone)] == [(40, "2026-01-02")]
    assert f"{served.ask(fresh)[0][0]:%Y-%m-%d}" == "2026-01-03"


@pytest.mark.server
def test_trino_shows_the_counts_of_each_run(served: Served) -> None:
    """Also on docs/trino.md."""
    names = ("frazil.inserted", "frazil.deleted", "added-records")
    counts = ", ".join(f"CAST(element_at(summary, '{name}') AS bigint)" for name in names)
    batches = f"""SELECT element_at(summary, 'frazil.run-id'), element_at(summary, 'frazil.strategy'), {counts}
        FROM "orders$snapshots" WHERE element_at(summary, 'frazil.run-id') IS NOT NULL ORDER BY committed_at"""
    rules = "SELECT rule, count(*) FROM silver.orders_quarantine GROUP BY rule"

    runs = served.ask(batches)

    assert [run[1:] for run in runs] == [
        ("load", None, None, 40),
        ("overwrite", 0, 1, 39),
        ("delete_append", 0, 0, 3),
    ]
    assert len({run for run, *_ in runs}) == len(runs)
    assert served.ask(rules) == []


@pytest.mark.server
def test_time_can_be_travelled(shop: Shop, served: Served) -> None:
    snapshots = served.ask('SELECT snapshot_id, committed_at FROM "orders$snapshots" ORDER BY committed_at')

    counted = [
        served.ask(f"SELECT count(*) FROM orders FOR VERSION AS OF {snapshot}")[0][0] for snapshot, _ in snapshots
    ]
    at = f"{shop.loaded_at:%Y-%m-%d %H:%M:%S.%f} UTC"
    then = served.ask(f"SELECT count(*) FROM orders FOR TIMESTAMP AS OF TIMESTAMP '{at}'")
    assert (40 in counted, then, counted[-1]) == (True, [(40,)], 39)


@pytest.mark.server
def test_frazil_continues_exactly_after_maintenance_by_trino(shop: Shop, served: Served) -> None:
    before = {mart: in_order(shop.by_duckdb(f"SELECT * FROM marts.{mart}")) for mart in MARTS}

    for mart in MARTS:
        served.ask(f"ALTER TABLE {mart} EXECUTE optimize")
        served.ask(f"ANALYZE {mart}")
        served.ask(f"ALTER TABLE {mart} EXECUTE expire_snapshots(retention_threshold => '8d')")

    assert {mart: in_order(shop.by_duckdb(f"SELECT * FROM marts.{mart}")) for mart in MARTS} == before
    assert api.plan(shop.folder).steps == ()
    shop.land(
        4,
        (
            "Op,id,updated_at,total,status,country",
            "U,5,2026-01-04 00:00:00,5.00,sent,DE",
            "U,1,2026-01-02 12:00:00,0.01,late,DE",
            "D,6,2026-01-04 00:00:00,,,",
        ),
    )
    shop.run()
    assert all(finding.ok is not False for finding in api.check(shop.folder))
    assert served.ask("SELECT total, status FROM orders WHERE id IN (1, 5, 6) ORDER BY id") == [
        tuple(row) for row in shop.by_duckdb("SELECT total, status FROM marts.orders WHERE id IN (1, 5, 6) ORDER BY id")
    ]


@pytest.mark.server
@pytest.mark.parametrize("seed", [*SHORT, *(pytest.param(seed, marks=pytest.mark.laws) for seed in LONG)])
def test_tables_that_other_engines_alter_are_right_or_refused(
    seed: int, shop: Shop, served: Served, tmp_path: Path
) -> None:
    """LOUD: after each run they are right, or the run refuses and the way out of recovery.md makes them right."""
    session = spark_session(frazil.load(shop.folder))
    hands = new_hands(seed, Engines(port=served.said["port"], spark=session, lake=shop.folder / "lake"), tmp_path)

    hands.live(rounds=2 if seed in SHORT else 4)

    assert hands.faults == [], "\n".join(hands.said)


@pytest.mark.server
def test_trino_stops_on_sigterm(served: Served) -> None:
    started = psutil.Process(served.said["pid"])

    served.process.send_signal(signal.SIGTERM)

    assert served.process.wait(60) == 0
    ends = time.monotonic() + 20
    while is_at_work(started) and time.monotonic() < ends:
        time.sleep(0.1)
    assert not is_at_work(started)


def is_at_work(process: psutil.Process) -> bool:
    """Return whether the process is still running; a zombie has ended."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
