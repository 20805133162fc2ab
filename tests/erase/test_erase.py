"""ERASE: a subject goes from every layer and every byte of the lake, and nothing brings it back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow.parquet as pq
import pytest

import frazil
from frazil import api
from frazil.erase.keys import EraseError, parse_key
from frazil.erase.report import OccurrencesLeftError
from frazil.iceberg.time_travel import PointError
from frazil.spark.expressions import SqlError
from frazil.spark.session import spark_session
from frazil.spec import Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: customers
    source: {kind: dms, path: ./landing, header: true}
    keys: [email]
    sequence_by: [ts]
    columns:
      - {name: email}
      - {name: ts, type: timestamp}
      - {name: total, type: "decimal(8,2)", min: 0}
      - {name: referred_by}
    marts: [{kind: current}, {kind: current, name: soft, deletes: soft, sort_by: [email]}, {kind: history}]
gold:
  - {name: best, sql: "select max(email) as email, count(*) as n from {{ totals }}"}
  - name: totals
    materialized: incremental
    sql: "select email, sum(total) as total from {{ customers }} group by email"
"""
FIRST = [
    "I,ann@example.org,2026-01-01 00:00:00,1.00,",
    "I,bob@example.org,2026-01-01 00:00:00,2.00,",
    "I,cyd@example.org,2026-01-01 00:00:00,3.00,",
]
SECOND = [
    "U,bob@example.org,2026-01-02 00:00:00,-2.00,",
    "U,bob@example.org,2026-01-02 00:00:00",
    "D,cyd@example.org,2026-01-03 00:00:00,3.00,",
    "U,ann@example.org,2026-01-02 00:00:00,5.00,",
]
BACK = ["I,bob@example.org,2026-01-05 00:00:00,2.00,", "I,dan@example.org,2026-01-05 00:00:00,2.00,"]


def land(folder: Path, name: str, lines: list[str]) -> None:
    (folder / "landing").mkdir(parents=True, exist_ok=True)
    text = "\n".join(["Op,email,ts,total,referred_by", *lines, ""])
    (folder / "landing" / name).write_text(text, encoding="utf-8")


def run(folder: Path, *, rebuild: bool = False) -> None:
    pipeline = frazil.load(folder)
    frazil.run(pipeline, spark=spark_session(pipeline), rebuild=rebuild)


def all_bytes(lake: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the bytes of every file, those of Parquet and Avro unpacked as well."""
    for path in lake.rglob("*"):
        if path.is_file() and not path.name.startswith(".shop"):
            yield path, path.read_bytes()
            if path.suffix == ".parquet":
                yield path, repr(pq.read_table(path).to_pylist()).encode()
            if path.suffix == ".avro":
                with path.open("rb") as file:
                    yield path, repr([*fastavro.reader(file)]).encode()


def holding(lake: Path, word: bytes) -> set[str]:
    return {path.relative_to(lake).as_posix() for path, data in all_bytes(lake) if word in data}


@pytest.mark.spark
@pytest.mark.long
def test_an_erased_key_is_in_no_file_and_does_not_come_back(spark: SparkSession, tmp_path: Path) -> None:
    del spark
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    land(tmp_path, "20260101-000000000.csv", FIRST)
    run(tmp_path)
    land(tmp_path, "20260102-000000000.csv", SECOND)
    run(tmp_path)
    pipeline, lake = frazil.load(tmp_path), tmp_path / "lake"
    session = spark_session(pipeline)
    session.sql("ALTER TABLE lake.marts.customers CREATE TAG kept")
    orphan = next((lake / "bronze" / "customers" / "data").rglob("*.parquet"))
    (orphan.parent / "orphan.parquet").write_bytes(orphan.read_bytes())
    asked: dict[str, Any] = {"where": "email LIKE 'bob%'", "keys": ["cyd@example.org"], "spark": session}

    before = api.erase_preview(tmp_path, "customers", **asked)
    assert {layer.table: layer.rows for layer in before.layers} == {
        "bronze.customers": 5,
        "silver.customers_changes": 3,
        "silver.customers_quarantine": 2,
        "marts.customers": 1,
        "marts.soft": 2,
        "marts.customers_history": 2,
        "gold.totals": None,
        "gold.best": None,
    }
    assert holding(lake, b"bob@example.org")
    report = api.erase(tmp_path, "customers", **asked)

    assert (report.subjects, report.proof and report.proof.found, report.resumed) == (2, (), False)
    assert [layer.rows for layer in report.layers] == [layer.rows for layer in before.layers]
    assert report.layers[3].refs == ("kept",)
    assert report.layers[0].orphans == 1
    assert report.files == ("landing/20260101-000000000.csv", "landing/20260102-000000000.csv")
    assert not holding(lake, b"bob@example.org") | holding(lake, b"cyd@example.org")
    receipt = json.loads((lake / ".frazil" / "erased" / f"{report.erase_id}.json").read_text(encoding="utf-8"))
    assert len(receipt["keys"]) == 2
    assert all(len(one) == 64 for one in receipt["keys"])
    land(tmp_path, "20260103-000000000.csv", BACK)
    run(tmp_path)
    run(tmp_path, rebuild=True)
    assert not holding(lake, b"bob@example.org")
    assert "dan@example.org" in str(api.query(tmp_path, "select * from gold.totals").rows)
    assert [found.detail for found in api.check(tmp_path) if found.ok is False] == []
    # Another row that names a subject is told of.
    land(tmp_path, "20260104-000000000.csv", ["U,ann@example.org,2026-01-06 00:00:00,1.00,dan@example.org"])
    run(tmp_path)
    with pytest.raises(OccurrencesLeftError, match=r"bronze\.customers values: 1"):
        api.erase(tmp_path, "customers", keys=["dan@example.org"], spark=session)
    # A key that may come again comes with what arrives from now on.
    assert api.unblock(tmp_path, "customers", keys=["bob@example.org", "eve@example.org"], spark=session) == 1
    land(tmp_path, "20260107-000000000.csv", ["I,bob@example.org,2026-01-07 00:00:00,7.00,"])
    run(tmp_path)
    assert [row[1:] for row in api.query(tmp_path, "select email, total from marts.customers").rows if row[0][0] == "b"]
    with pytest.raises(EraseError, match="a key or a condition is missing"):
        api.erase_preview(tmp_path, "customers", spark=session)
    with pytest.raises(SqlError, match="where"):
        api.erase_preview(tmp_path, "customers", where="emial = 'x'", spark=session)
    frazil.api.drop(tmp_path, api.droppable(tmp_path, ["customers"]), spark=session)
    run(tmp_path)
    assert not holding(lake, b"cyd@example.org")


def test_a_key_is_a_text_or_json_by_name_or_in_order() -> None:
    columns = (Column(name="a", type="int"), Column(name="b"))
    source = {"kind": "dms", "path": "x"}
    one = Table.model_validate({"name": "t", "source": source, "keys": ["a"], "columns": columns})
    two = Table.model_validate({"name": "t", "source": source, "keys": ["a", "b"], "columns": columns})

    assert parse_key(one, "7") == ("7",)
    assert parse_key(one, '{"A": 7}') == ("7",)
    assert parse_key(one, '{"c": 7}') == ('{"c": 7}',)
    assert parse_key(two, '{"b": "x", "a": 7}') == ("7", "x")
    assert parse_key(two, '[7, "x"]') == ("7", "x")
    for wrong in ("7", "[7]", '{"a": 7}', '{"a": 7, "b": null}', "[7, [1]]"):
        with pytest.raises(EraseError, match="the key of table 't' is a, b"):
            parse_key(two, wrong)


@pytest.mark.spark
@pytest.mark.laws
def test_a_cut_and_marts_that_were_rolled_back_hold_no_erased_key(spark: SparkSession, tmp_path: Path) -> None:
    del spark
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    pipeline, lake = frazil.load(tmp_path), tmp_path / "lake"
    land(tmp_path, "20260101-000000000.csv", FIRST)
    run(tmp_path)
    session = spark_session(pipeline)
    api.cut(tmp_path, "first", spark=session)
    land(tmp_path, "20260102-000000000.csv", SECOND)
    run(tmp_path)
    api.rollback(tmp_path, api.rollback_plan(tmp_path, "customers", "cut:first"), spark=session)

    report = api.erase(tmp_path, "customers", keys=["bob@example.org"], spark=session)

    assert report.proof is not None
    assert report.proof.is_clean
    assert api.cuts(tmp_path) == ()
    assert holding(lake, b"bob@example.org") == set()
    with pytest.raises(PointError):
        api.query(tmp_path, "SELECT * FROM marts.customers", as_of="cut:first")
    # The marts stand at the first batch; the next run catches up, and brings nobody back.
    emails = "SELECT email FROM marts.customers ORDER BY email"
    assert api.query(tmp_path, emails).rows == [("ann@example.org",), ("cyd@example.org",)]
    run(tmp_path)
    assert api.query(tmp_path, emails).rows == [("ann@example.org",)]
    assert [finding for finding in api.check(tmp_path) if finding.ok is False] == []
