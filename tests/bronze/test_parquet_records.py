"""Parquet values come into bronze as canonical text, and what is damaged as bad records."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.parquet_text import as_text, spark_type_of_arrow

if TYPE_CHECKING:
    from tests.bronze.conftest import Landing

BERLIN = dt.timezone(dt.timedelta(hours=2))


def write(landing: Landing, name: str, table: Any, **options: Any) -> None:
    pq.write_table(table, landing.write(name, b""), **options)


def read(landing: Landing, **settings: Any) -> list[dict[str, Any]]:
    return landing.rows(format="parquet", **settings)


@pytest.mark.parametrize(
    ("kind", "value", "text", "spark"),
    [
        (pa.bool_(), True, "true", "boolean"),
        (pa.int8(), -5, "-5", "int"),
        (pa.uint32(), 2**32 - 1, "4294967295", "bigint"),
        (pa.int64(), -(2**63), "-9223372036854775808", "bigint"),
        (pa.uint64(), 2**64 - 1, "18446744073709551615", "decimal(20,0)"),
        (pa.float64(), 0.1, "0.1", "double"),
        (pa.float64(), 1e300, "1e+300", "double"),
        (pa.float32(), 1.1, "1.1", "float"),
        (pa.decimal128(12, 2), decimal.Decimal("1.10"), "1.10", "decimal(12,2)"),
        (pa.decimal128(20, 10), decimal.Decimal("0.0000000001"), "0.0000000001", "decimal(20,10)"),
        (pa.decimal128(38, 0), decimal.Decimal("9" * 38), "9" * 38, "decimal(38,0)"),
        (pa.date32(), dt.date(1, 2, 3), "0001-02-03", "date"),
        (pa.timestamp("ms"), dt.datetime(2024, 1, 2, 3, 4, 5), "2024-01-02 03:04:05.000000", "timestamp"),  # noqa: DTZ001
        (pa.timestamp("us", "UTC"), dt.datetime(2024, 1, 2, 3, 4, 5, 6, BERLIN), "2024-01-02 01:04:05.000006",
         "timestamp"),
        (pa.timestamp("ns"), 1_000_001_000, "1970-01-01 00:00:01.000001", "timestamp"),
        (pa.timestamp("ns"), 1_000_000_001, "1970-01-01 00:00:01.000000001", "timestamp"),
        (pa.time64("us"), dt.time(1, 2, 3, 4), "01:02:03.000004", "string"),
        (pa.binary(), b"\x00\xff", "00ff", "binary"),
        (pa.string(), 'a,"b"\r\n', 'a,"b"\r\n', "string"),
        (pa.string(), "", "", "string"),
        (pa.dictionary(pa.int32(), pa.string()), "é", "é", "string"),
        (pa.list_(pa.int32()), [1, None], "[1, null]", "string"),
        (pa.struct([("a", pa.binary()), ("b", pa.date32())]), {"a": b"\1", "b": dt.date(2024, 1, 2)},
         '{"a": "01", "b": "2024-01-02"}', "string"),
    ],
)  # fmt: skip
def test_a_value_has_one_text(landing: Landing, kind: Any, value: object, text: str, spark: str) -> None:
    write(
        landing,
        "20240101-000000000.parquet",
        pa.table({"Op": ["I", "U"], "v": pa.array([value, None], kind)}),
    )

    rows = read(landing)

    assert [(row["op"], row["v"]) for row in rows[:2]] == [("I", text), ("U", None)]
    assert [row["_cdc_row"] for row in rows] == [1, 2, None]
    assert rows[2]["_cdc_ledger"]["columns"] == [
        {"name": "op", "type": "string"},
        {"name": "v", "type": spark},
    ]


@given(st.floats(allow_nan=False))
def test_a_float_reads_back_as_it_was(value: float) -> None:
    [text] = as_text(pa.array([value])).to_pylist()

    assert float(text) == value


@given(st.decimals(places=12, min_value=-(10**20), max_value=10**20))
def test_a_decimal_has_no_exponent_and_reads_back_as_it_was(value: decimal.Decimal) -> None:
    [text] = as_text(pa.array([value], pa.decimal128(38, 12))).to_pylist()

    assert decimal.Decimal(text) == value
    assert "E" not in text


def test_columns_are_placed_by_name_and_missing_ones_are_not_known(landing: Landing) -> None:
    write(landing, "LOAD00000001.parquet", pa.table({"b": [1], "a": ["x"]}))
    write(landing, "20240101-000000000.parquet", pa.table({"A": ["y"], "OP": ["D"]}))

    rows = [row for row in read(landing) if row["_cdc_kind"] == "record"]

    assert [(row["op"], row["a"], row["b"], row["_cdc_known"]) for row in rows] == [
        (None, "x", "1", None), ("D", "y", None, ["a", "op"]),
    ]  # fmt: skip


def test_text_that_is_not_utf_8_makes_its_record_bad(landing: Landing) -> None:
    raw = pa.array([b"ok", b"b\xff", None, b"\xfe"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 4, raw.buffers())
    write(landing, "LOAD00000001.parquet", pa.table({"id": [1, 2, 3, 4], "v": text}), use_dictionary=False)

    rows = read(landing)

    assert [(row["_cdc_row"], row["id"], row["v"]) for row in rows if row["_cdc_kind"] == "record"] == [
        (1, "1", "ok"), (3, "3", None),
    ]  # fmt: skip
    assert [(row["_cdc_row"], row["_cdc_raw"]) for row in rows if row["_cdc_kind"] == "bad"] == [
        (2, b'{"id": "2", "v": {"hex": "62ff"}}'),
        (4, b'{"id": "4", "v": {"hex": "fe"}}'),
    ]


def test_a_change_file_without_op_column_is_all_bad(landing: Landing) -> None:
    write(landing, "20240101-000000000.parquet", pa.table({"a": [1, None]}))

    rows = read(landing)

    assert [(row["_cdc_row"], row["_cdc_reason"], row["_cdc_raw"]) for row in rows[:2]] == [
        (1, "no_op_column", b'{"a": "1"}'), (2, "no_op_column", b'{"a": null}'),
    ]  # fmt: skip


def test_a_file_without_footer_is_one_bad_record(landing: Landing) -> None:
    landing.write("LOAD00000001.parquet", b"PAR1")

    [bad, ledger] = read(landing)

    assert bad["_cdc_reason"].startswith("unreadable: ")
    assert (ledger["_cdc_ledger"]["rows"], ledger["_cdc_ledger"]["bad"]) == (0, 1)


def test_records_behind_damage_are_bad_and_counted(landing: Landing) -> None:
    path = landing.write("LOAD00000001.parquet", b"")
    pq.write_table(
        pa.table({"id": list(range(1000))}),
        path,
        row_group_size=100,
        compression="zstd",
        use_dictionary=False,
    )
    content = bytearray(Path(path).read_bytes())
    at = pq.read_metadata(path).row_group(5).column(0).data_page_offset
    content[at : at + 40] = b"\xff" * 40
    landing.write("LOAD00000001.parquet", bytes(content))

    rows = read(landing)

    ledger = rows[-1]["_cdc_ledger"]
    assert ledger["rows"] + ledger["bad"] == 1000
    assert ledger["bad"] >= 500
    assert all(row["_cdc_reason"].startswith("unreadable") for row in rows if row["_cdc_kind"] == "bad")


def test_an_empty_parquet_file_has_a_ledger_row_only(landing: Landing) -> None:
    write(landing, "LOAD00000001.parquet", pa.table({"id": pa.array([], pa.int32())}))

    assert [row["_cdc_kind"] for row in read(landing)] == ["file"]


def test_types_that_spark_has_not_are_text() -> None:
    assert [spark_type_of_arrow(kind) for kind in (pa.null(), pa.time32("s"), pa.map_(pa.string(), pa.int8()))] == [
        "string"
    ] * 3
