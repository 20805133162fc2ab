"""NOTHING-LOST end to end: hostile files go through a whole run, and ``check`` rebuilds them from bronze."""

from __future__ import annotations

import decimal
import gzip
import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil.serve.check import bytes as check_bytes
from frazil.serve.check.check import check
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.shop import Shop

    from frazil.plan.policy import Reader

pytestmark = pytest.mark.spark

HEADER = b"op,id,ts,note\n"
LINE = b"I,%d,2026-01-01 00:00:00,%s"
FILES = {
    "LOAD00000001.csv": b"\xef\xbb\xbf\r\n"
    + HEADER[:-1]
    + b"\r\n\n"
    + b"\r\n".join(LINE % (n, b"x") for n in range(50)),
    "20260101-000000001.csv": HEADER
    + b"\n".join([LINE % (60, b'"ab"cd'), LINE % (61, b'"a"b"'), LINE % (62, b'""x'), LINE % (63, b'"a" "b"')])
    + b"\n\n\n"
    + LINE % (64, b'x"y')
    + b"\r"
    + LINE % (65, b'"no need"')
    + b"\n"
    + LINE % (66, b"")
    + b"\n"
    + LINE % (67, b"NULL")
    + b'\n"open\n',
    "20260101-000000002.csv.gz": gzip.compress(HEADER + LINE % (70, b'"a\nb"') + b"\n" + LINE % (71, b"\xff") + b"\n"),
    "20260101-000000003.csv": (HEADER.decode() + "I,80,x").encode("utf-16"),
    "20260101-000000004.csv": b'"op","id","ts","note"\n'
    b'"I","90","2026-01-01 00:00:00",""\n"I","91","2026-01-01 00:00:00",\n',
    "20260101-000000005.csv": b" \n\t\n",
}
BYTES = "bronze.orders bytes"


def proofs(pipeline: frazil.Pipeline) -> dict[tuple[str, str], str]:
    """Prove all, and see that nothing fails."""
    findings = check(pipeline)
    assert [finding for finding in findings if finding.ok is False] == []
    return {(finding.law, finding.table): finding.detail for finding in findings}


@pytest.mark.parametrize("who", ["driver", "stream", "executors"])
def test_hostile_files_are_rebuilt_alike_by_each_reader(
    who: Reader, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shop.by(reader=who)
    for name, content in FILES.items():
        file = shop.pipeline.folder / "landing" / name
        file.write_bytes(content)
        os.utime(file, (0, 0))

    report = shop.run()

    assert proofs(shop.pipeline)["NOTHING-LOST", BYTES] == "the bytes of 6 files are rebuilt from bronze"
    assert (report.rows, report.bad) == (57, 7)
    rows = shop.session.table("lake.silver.orders_quarantine").toArrow().to_pylist()
    assert sorted(row["raw"].rpartition(":00,")[2] for row in rows if "malformed_quote" in row["reason"]) == [
        '""x', '"a" "b"', '"a"b"', '"ab"cd',
    ]  # fmt: skip
    assert shop.session.table("lake.marts.orders").count() == 57
    monkeypatch.setattr(check_bytes, "_BATCH_ROWS", 3)
    assert proofs(shop.pipeline)["NOTHING-LOST", BYTES] == "the bytes of 6 files are rebuilt from bronze"


@pytest.mark.parametrize("columns", [pytest.param("_cdc_row DESC", marks=pytest.mark.laws), "id, _cdc_file"])
def test_files_are_rebuilt_whatever_the_order_of_the_table(shop: Shop, columns: str) -> None:
    for number in (1, 2):
        shop.land(f"{number}.csv", *(f"I,{n},2026-01-01 00:00:00,a{number}" for n in range(100)), "I,bad", "I,200,,")
    shop.run()
    shop.session.sql(
        "CALL lake.system.rewrite_data_files(table => 'bronze.orders', strategy => 'sort', "
        f"sort_order => '{columns}', options => map('rewrite-all', 'true'))"
    )

    assert proofs(shop.pipeline)["NOTHING-LOST", BYTES] == "the bytes of 2 files are rebuilt from bronze"


@pytest.mark.long
def test_a_record_in_parts_is_rebuilt(shop: Shop) -> None:
    large = b"x" * 20_000_000
    text = HEADER + LINE % (1, b"a") + b"\n" + LINE % (2, large) + b"\r\n" + LINE % (3, b"c") + b"\n"
    (shop.pipeline.folder / "landing" / "1.csv").write_bytes(text)

    report = shop.run()

    assert proofs(shop.pipeline)["NOTHING-LOST", BYTES] == "the bytes of 1 file are rebuilt from bronze"
    assert (report.rows, report.bad) == (2, 1)
    rows = shop.session.table("lake.bronze.orders")
    assert rows.where("_cdc_kind = 'part'").selectExpr("sum(length(_cdc_raw))").collect()[0][0] > 18_000_000


def test_a_lake_of_an_older_version_goes_on(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its schema never had these columns; here they are dropped, as another engine would.
    for reader in ("frazil.lake.refs", "frazil.iceberg.snapshot"):
        monkeypatch.setattr(f"{reader}.altered_columns", lambda *_: {})
    shop.land("1.csv", "I,1,2026-01-01 00:00:00,a")
    shop.run()
    for column in ("_cdc_end", "_cdc_offset", "_cdc_form"):
        shop.session.sql(f"ALTER TABLE lake.bronze.orders DROP COLUMN {column}")
    old = proofs(shop.pipeline)["NOTHING-LOST", BYTES]
    shop.land("2.csv", "I,2,2026-01-01 00:00:00,b")

    shop.run()

    assert old.startswith("an older version took its files")
    assert proofs(shop.pipeline)["NOTHING-LOST", BYTES] == (
        "the bytes of 1 file are rebuilt from bronze; 1 file taken by an older version cannot be checked"
    )


PARQUET = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - {name: orders, source: {kind: dms, path: ./landing, format: parquet}, keys: [id]}
"""


@pytest.mark.long
def test_parquet_of_any_type_is_taken_under_an_open_contract(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    (tmp_path / "landing").mkdir()
    (tmp_path / "frazil.yml").write_text(PARQUET, encoding="utf-8")
    pipeline = frazil.load(tmp_path)
    invalid = pa.Array.from_buffers(pa.string(), 2, pa.array([b"b\xff", b"ok"], pa.binary()).buffers())
    columns = {
        "Op": ["I", "I"],
        "id": [1, 2],
        "text": invalid,
        "d45": pa.array([decimal.Decimal(10) ** 44, decimal.Decimal(-1)], pa.decimal256(45, 0)),
        "u64": pa.array([1, 2**64 - 1], pa.uint64()),
        "t": pa.array([1, 2], pa.time64("ns")),
        "dur": pa.array([1, 2], pa.duration("s")),
        "half": pa.array([1, None], pa.int8()).cast(pa.float16()),
        "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int8())),
        "fixed": pa.array([b"ab", b"cd"], pa.binary(2)),
    }
    pq.write_table(pa.table(columns), tmp_path / "landing" / "LOAD00000001.parquet", use_dictionary=False)
    session = spark_session(pipeline)

    [report] = frazil.run(pipeline, spark=session).tables

    told = proofs(pipeline)["NOTHING-LOST", BYTES]
    assert told == "the values of 1 Parquet file are those that were read"
    assert (report.rows, report.bad) == (1, 1)
    [row] = session.table("lake.marts.orders").toArrow().to_pylist()
    assert (row["id"], row["d45"], row["u64"], row["dur"], row["fixed"]) == (2, "-1", 2**64 - 1, 2, b"cd")
    session.sql("UPDATE lake.bronze.orders SET d45 = '-2' WHERE id = '2'")
    assert [finding.detail for finding in check(pipeline) if finding.table == BYTES] == [
        "1 file cannot be rebuilt from bronze: landing/LOAD00000001.parquet"
    ]
