"""Differences between Spark 3.5 and Spark 4 are hidden by one module."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from frazil import older_spark
from frazil.errors import SessionError
from frazil.silver import cast
from frazil.silver.cast import exact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = pa.table(
    {
        "id": pa.array([1, None], pa.int64()),
        "odd `name`": pa.array(["é\n", None]),
        "raw": pa.array([b"\xff\0", None]),
        "total": pa.array([Decimal("1.50"), None], pa.decimal128(38, 2)),
        "at": pa.array([dt.datetime(1582, 10, 14, 1, 2, 3, 4, dt.UTC), None], pa.timestamp("us", "UTC")),
        "wall": pa.array([dt.datetime(9999, 12, 31, 23, 59, 59, 999999, dt.UTC).replace(tzinfo=None), None]),
        "day": pa.array([dt.date(1, 1, 1), None]),
        "names": pa.array([["a", None], None]),
        "of": pa.array([{"k": "x", "n": [1]}, None]),
    }
)
TYPES = (
    "id bigint, `odd ``name``` string, raw binary, total decimal(38,2), at timestamp, wall timestamp_ntz, day date, "
    "names array<string>, of struct<k: string, n: array<bigint>>"
)


@pytest.mark.spark
def test_rows_go_to_spark_and_come_back(spark: SparkSession) -> None:
    types = spark.createDataFrame([], TYPES).schema

    frame = older_spark.from_arrow(spark, ROWS, types)

    assert frame.schema == types
    assert older_spark.to_arrow(frame).to_pylist() == ROWS.to_pylist()
    none = older_spark.from_arrow(spark, ROWS.schema.empty_table(), types)
    assert older_spark.to_arrow(none).schema.names == ROWS.column_names
    assert older_spark.to_arrow(none).num_rows == 0
    assert older_spark.to_arrow(frame.where("id > 5")).to_pylist() == []


@pytest.mark.spark
def test_any_value_may_be_null_in_any_depth(spark: SparkSession) -> None:
    types = spark.sql("SELECT 1 AS a, array(named_struct('b', 2)) AS c, map('k', array(1)) AS m").schema
    assert not types["a"].nullable

    [a, c, m] = older_spark.nullable(types).fields

    assert a.nullable
    assert c.nullable
    assert m.dataType.valueContainsNull  # type: ignore[attr-defined]
    assert m.dataType.valueType.containsNull  # type: ignore[attr-defined]
    assert c.dataType.containsNull  # type: ignore[attr-defined]
    assert c.dataType.elementType["b"].nullable  # type: ignore[attr-defined]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("raw", "text"),
    [(b"caf\xc3\xa9", "café"), (b"a\xffb", "a\ufffdb"), (b"\xe2\x82", "\ufffd"), (b"", ""), (None, None)],
)
def test_bytes_are_shown_as_text_whatever_they_are(raw: bytes | None, text: str | None, spark: SparkSession) -> None:
    [row] = spark.createDataFrame([(raw,)], "raw binary").selectExpr(older_spark.valid_text("raw")).collect()

    assert row[0] == text


def test_a_nested_type_is_refused_by_spark_3_5_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert older_spark.is_older_spark() or "variant" in exact("t", "array<int>")
    monkeypatch.setattr(cast, "is_older_spark", lambda: True)

    with pytest.raises(SessionError, match="type array<int> needs VARIANT") as refused:
        exact("t", "array<int>")

    assert refused.value.code == "FZ903"
    assert "declare the column as string" in f"{refused.value.hint}"
