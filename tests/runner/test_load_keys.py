"""IDENTITY: a full load with different records of one key is refused, and says which keys would do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.failing import run_fails_with

import frazil
from frazil import api
from frazil.plan.policy import Policy
from frazil.runner.limits.batch_limits import TooManyBadRowsError
from frazil.runner.limits.full_loads import RepeatedKeyError
from frazil.runner.options import RunOptions
from frazil.sources.dms.layout import OtherFieldsError
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from frazil.plan.policy import Reader
    from frazil.runner.report import TableReport

pytestmark = pytest.mark.spark

DECLARATION = """
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: lines
    source: {{kind: dms, path: ./landing, header: {header}}}
    keys: [{keys}]
    sequence_by: [ts]
    columns:
      - {{name: order_id, type: int}}
      - {{name: line_no, type: int}}
      - {{name: ts, type: timestamp}}
      - {{name: qty, type: int}}
"""


class Lines:
    """A pipeline of one table, whose loads name an order and a line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "landing").mkdir()

    def declare(self, keys: str, *, header: bool = True) -> None:
        text = DECLARATION.format(keys=keys, header=str(header).lower())
        (self.folder / "frazil.yml").write_text(text, encoding="utf-8")

    def land(self, name: str, records: Iterable[str]) -> None:
        lines = ["Op,order_id,line_no,ts,qty", *records, ""]
        (self.folder / "landing" / name).write_text("\n".join(lines), encoding="utf-8")

    def run(self, reader: Reader = "driver") -> TableReport:
        pipeline = frazil.load(self.folder)
        policy = Policy(reader=reader)
        return frazil.run(pipeline, spark=spark_session(pipeline), options=RunOptions(policy=policy)).tables[0]

    @property
    def count(self) -> object:
        return api.query(self.folder, "SELECT count(*) FROM marts.lines").rows[0][0]


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    return Lines(tmp_path)


def record(order: int, line: int, qty: int = 1, op: str = "I") -> str:
    return f"{op},{order},{line},2026-01-01 00:00:00,{qty}"


@pytest.mark.long
@pytest.mark.parametrize("reader", ["driver", "stream", "executors"])
def test_a_load_whose_keys_are_too_few_is_refused_with_those_that_do(lines: Lines, reader: Reader) -> None:
    lines.declare("order_id")
    lines.land("LOAD00000001.csv", [record(order, line) for order in range(5) for line in range(order + 1)])

    with run_fails_with(RepeatedKeyError, r"(?s)4 of 5 keys .*keys: \[order_id, line_no\] names each record once"):
        lines.run(reader)

    lines.declare("order_id, line_no")
    lines.run(reader)
    assert lines.count == 15


def test_few_such_keys_are_said_and_the_same_record_twice_is_one(lines: Lines) -> None:
    lines.declare("order_id")
    lines.land("LOAD00000001.csv", [record(order, 1) for order in (*range(1_000), 7)])
    assert lines.run().warnings == []

    lines.land("LOAD00000002.csv", [record(order, 1) for order in range(1_000, 2_000)] + [record(1_500, 2)])

    assert "1 of 1,000 keys" in lines.run().warnings[0]
    assert lines.count == 2_000


def test_wrong_keys_are_refused_when_a_table_is_rebuilt_too(lines: Lines) -> None:
    lines.declare("order_id, line_no")
    lines.land("LOAD00000001.csv", [record(1, 1), record(1, 2), record(2, 1)])
    lines.run()

    lines.declare("order_id")

    with run_fails_with(RepeatedKeyError, "1 of 2 keys"):
        lines.run()


def test_changes_may_name_a_key_often(lines: Lines) -> None:
    lines.declare("order_id")
    lines.land("20260101-000000000.csv", [record(1, 1), record(1, 2, op="U"), record(1, 3, op="U")])

    assert lines.run().warnings == []


def test_a_batch_with_over_a_tenth_of_its_records_bad_fails_by_default(lines: Lines) -> None:
    lines.declare("order_id")
    records = [record(order, 1, qty="?" if order % 9 == 0 else 1) for order in range(100)]  # type: ignore[arg-type]
    lines.land("20260101-000000000.csv", records)

    with run_fails_with(TooManyBadRowsError, "12 of 100 records .*12 with qty: not exactly an int"):
        lines.run()


def test_files_with_another_number_of_fields_stop_their_table_until_they_are_named(lines: Lines) -> None:
    """A column that is added at the source makes all later records of a CSV file without header too long."""
    lines.declare("order_id", header=False)
    good, longer = ([f"{record(order, 1)}{more}" for order in range(3)] for more in ("", ",web"))
    (lines.folder / "landing" / "20260101-000000000.csv").write_text("\n".join([*good, ""]), encoding="utf-8")
    lines.run()
    (lines.folder / "landing" / "20260102-000000000.csv").write_text("\n".join([*longer, ""]), encoding="utf-8")

    with run_fails_with(OtherFieldsError, "have 6 fields, the declaration names 5 with the op"):
        lines.run()

    path = lines.folder / "frazil.yml"
    lists = "fields: [order_id, line_no, ts, qty, web], other_fields: [[order_id, line_no, ts, qty]]"
    text = path.read_text(encoding="utf-8").replace("header: false", f"header: false, {lists}")
    path.write_text(f"{text}      - {{name: web}}\n", encoding="utf-8")

    assert lines.run().quarantined == 0
    assert api.query(lines.folder, "SELECT count(*) FROM marts.lines WHERE web = 'web'").rows == [(3,)]


def test_few_bad_records_of_a_small_batch_do_not_fail_it(lines: Lines) -> None:
    lines.declare("order_id")
    bad = [record(order, 1, qty="?") for order in range(98)]  # type: ignore[arg-type]
    lines.land("20260101-000000000.csv", bad)
    with run_fails_with(TooManyBadRowsError, "98 of 98 records of batch 1 are bad"):
        lines.run()

    lines.land("20260102-000000000.csv", [record(98, 1)])

    assert lines.run().quarantined == 98


def test_reads_of_one_snapshot_of_debezium_name_each_key_once(lines: Lines) -> None:
    def read(order: int, line: int, lsn: int, op: str = "r") -> str:
        source = {"snapshot": "true" if op == "r" else "false", "lsn": lsn, "ts_ms": lsn}
        after = {"order_id": order, "line_no": line, "qty": 1}
        return json.dumps({"op": op, "before": None, "after": after, "source": source})

    text = DECLARATION.format(keys="order_id", header="true")
    text = text.replace("kind: dms, path: ./landing, header: true", "kind: debezium, path: ./landing")
    text = text.replace("    sequence_by: [ts]\n", "").replace("      - {name: ts, type: timestamp}\n", "")
    (lines.folder / "frazil.yml").write_text(text, encoding="utf-8")
    again = [read(1, 1, 10), read(2, 1, 10), read(1, 2, 20), read(2, 2, 20, "u")]
    (lines.folder / "landing" / "a.jsonl").write_text("\n".join([*again, ""]), encoding="utf-8")
    assert lines.run().warnings == []

    (lines.folder / "landing" / "b.jsonl").write_text("\n".join([read(3, 1, 30), read(3, 2, 30), ""]), encoding="utf-8")

    with run_fails_with(RepeatedKeyError, r"(?s)1 of 1 key .*keys: \[order_id, line_no\]"):
        lines.run()
