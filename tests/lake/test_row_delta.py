"""Rows that are written without Spark are the same rows, to everybody who reads them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.properties.world import World

from frazil.lake.commit import TableTransaction, takes_row_deltas
from frazil.lake.refs import head
from frazil.lake.tables import ensure
from frazil.plan.layout import TableLayout

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

PATH = ("lake", "marts", "kinds")
NAME = "`lake`.`marts`.`kinds`"
KINDS = {
    "id": "int",
    "yes": "boolean",
    "far": "bigint",
    "near": "float",
    "exact": "double",
    "small": "decimal(7,2)",
    "money": "decimal(18,4)",
    "huge": "decimal(38,10)",
    "Said": "string",
    "day": "date",
    "at": "timestamp",
    "wall": "timestamp_ntz",
    "raw": "binary",
    "names": "array<string>",
    "said_of": "struct<name: string, rows: bigint, columns: array<struct<name: string, type: string>>>",
}
ROWS = """
SELECT 1 AS id, true AS yes, 9223372036854775807L AS far, CAST('NaN' AS float) AS near, -0.0D AS exact,
    CAST(-12345.67 AS decimal(7,2)) AS small, CAST(99999999999999.9999 AS decimal(18,4)) AS money,
    CAST('-1234567890123456789012345678.0123456789' AS decimal(38,10)) AS huge, 'né\\n\\\\x' AS Said,
    DATE '1582-10-14' AS day, TIMESTAMP '9999-12-31 23:59:59.999999' AS at,
    TIMESTAMP_NTZ '0001-01-01 00:00:00.000001' AS wall, X'00FF' AS raw, array('b', NULL, 'a') AS names,
    named_struct('name', 'x', 'rows', 3L, 'columns', array(named_struct('name', 'id', 'type', 'int'), NULL)) AS said_of
UNION ALL SELECT 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT 3, false, -1, 1.5, 2.5, 0.01, -0.0001, 1, '', DATE '2026-01-01', TIMESTAMP '1969-12-31 23:59:59',
    TIMESTAMP_NTZ '2026-01-01 00:00:00', X'', array(), named_struct('name', NULL, 'rows', 9L, 'columns', array())
"""
NOWHERE = pa.table(
    {"file_path": pa.array([], pa.string()), "pos": pa.array([], pa.int64()), "is_current": pa.array([], pa.bool_())}
)


def a_table(spark: SparkSession, folder: Path, *, partition_by: Sequence[str] = (), **more: str) -> SparkSession:
    """Open a session on a lake with a table of all types, and one row in it."""
    session = World.at(folder, "hard").session(spark)
    columns = KINDS | ({"is_current": "boolean"} if partition_by else {})
    properties = {name.replace("_", "."): value for name, value in more.items()}
    ensure(session, TableLayout(path=PATH, columns=columns, partition_by=partition_by, properties=properties))
    with TableTransaction(session, PATH, head(session, NAME), {"batch": 1}) as batch:
        batch.append(session.sql("SELECT 0 AS id"))
        batch.publish()
    return session


def row_delta(session: SparkSession, rows: pa.Table, places: pa.Table = NOWHERE) -> None:
    """Publish a change of the table."""
    base = head(session, NAME)
    with TableTransaction(session, PATH, base, {"batch": base.batch + 1}) as batch:
        batch.row_delta(rows, places)
        batch.publish()


def rows_of_all_kinds(session: SparkSession) -> DataFrame:
    return session.sql(ROWS).selectExpr(*(f"CAST({name} AS {kind})" for name, kind in KINDS.items())).coalesce(1)


def test_a_row_is_what_spark_would_have_written(spark: SparkSession, tmp_path: Path) -> None:
    session = a_table(spark, tmp_path / "world")
    asked = rows_of_all_kinds(session)

    row_delta(session, asked.toArrow())
    with TableTransaction(session, PATH, head(session, NAME), {"batch": 3}) as batch:
        batch.append(asked)
        batch.publish()

    distinct = session.sql(f"SELECT DISTINCT * FROM {NAME} WHERE id > 0 ORDER BY id").collect()
    assert session.sql(f"SELECT id FROM {NAME} WHERE id > 0").count() == 6
    assert [row["id"] for row in distinct] == [1, 2, 3]
    assert distinct[0]["huge"] == Decimal("-1234567890123456789012345678.0123456789")
    assert distinct[0]["day"] == dt.date(1582, 10, 14)
    assert distinct[0]["names"] == ["b", None, "a"]
    assert distinct[0]["said_of"] == ("x", 3, [("id", "int"), None])
    assert distinct[2]["said_of"] == (None, 9, [])
    known = "lower_bounds, upper_bounds, null_value_counts, value_counts"
    ours, sparks = session.sql(f"SELECT {known} FROM {NAME}.files WHERE record_count = 3").collect()
    assert ours == sparks


@pytest.mark.parametrize(
    "where", ["far = -1", "day < DATE '1600-01-01'", "money < 0", "huge < 0", "Said = ''", "at < '1970-01-01'"]
)
def test_files_are_pruned_by_what_they_hold_and_never_too_much(spark: SparkSession, tmp_path: Path, where: str) -> None:
    session = a_table(spark, tmp_path / "world")

    row_delta(session, rows_of_all_kinds(session).toArrow())

    assert session.table(NAME).where(where).count() == 1
    assert session.table(NAME).where("near > 1").count() == 2  # NaN is greater than all


def test_rows_go_to_the_part_they_belong_to_and_go_from_there(spark: SparkSession, tmp_path: Path) -> None:
    session = a_table(spark, tmp_path / "world", partition_by=["is_current"])
    new = pa.table({"ID": [1, 2, 3], "is_current": [True, False, True], "not of the table": [0, 0, 0]})

    row_delta(session, new)
    places = session.sql(f"SELECT _file AS file_path, _pos AS pos, is_current FROM {NAME} WHERE id IN (2, 3)").toArrow()
    row_delta(session, pa.table({"id": [4], "is_current": [False]}), places)

    parts = session.sql(f"SELECT id, is_current, _partition.is_current AS part FROM {NAME} WHERE id > 0").collect()
    assert sorted(map(tuple, parts)) == [(1, True, True), (4, False, False)]
    assert head(session, NAME).summary["total-records"] == "5"
    assert head(session, NAME).summary["total-position-deletes"] == "2"


def test_rows_are_parted_by_a_column_of_frazils(spark: SparkSession, tmp_path: Path) -> None:
    session, path = World.at(tmp_path / "world", "hard").session(spark), ("lake", "bronze", "kinds")
    properties = {"format-version": "3", "write.parquet.compression-level": "1"}
    ensure(
        session,
        TableLayout(
            path=path, columns={"id": "int", "_cdc_kind": "string"}, partition_by=["_cdc_kind"], properties=properties
        ),
    )
    table = "`lake`.`bronze`.`kinds`"
    with TableTransaction(session, path, head(session, table), {"batch": 1}) as batch:
        batch.row_delta(pa.table({"id": [0], "_cdc_kind": ["file"]}))
        batch.publish()

    with TableTransaction(session, path, head(session, table), {"batch": 2}) as batch:
        assert batch.takes_rows
        batch.row_delta(pa.table({"id": [1, 2, 3], "_cdc_kind": ["record", "file", "record"]}))
        batch.publish()

    parts = session.sql(f"SELECT _cdc_kind, _partition._cdc_kind, collect_set(id) FROM {table} GROUP BY 1, 2").collect()
    assert sorted((kind, part, sorted(ids)) for kind, part, ids in parts) == [
        ("file", "file", [0, 2]),
        ("record", "record", [1, 3]),
    ]
    assert not takes_row_deltas(session, table, deletes=True)  # format 3 has another kind of file for them


def test_a_batch_without_rows_is_a_snapshot_with_its_bookmark(spark: SparkSession, tmp_path: Path) -> None:
    session = a_table(spark, tmp_path / "world")

    row_delta(session, pa.table({"id": pa.array([], pa.int32())}))

    assert head(session, NAME).batch == 2
    assert head(session, NAME).summary["total-data-files"] == "1"


@pytest.mark.parametrize(
    ("sort", "settings", "taken"),
    [
        (False, {}, True),
        (False, {"format-version": "3"}, False),
        (False, {"write_parquet_compression-codec": "gzip"}, False),
        (False, {"write_format_default": "orc"}, False),
        (False, {"write_parquet_row-group-limit": "10"}, False),
        (True, {}, False),
    ],
)
def test_tables_that_ask_for_more_are_written_by_spark(
    spark: SparkSession,
    tmp_path: Path,
    sort: bool,  # noqa: FBT001 - pytest gives it by name
    settings: dict[str, str],
    taken: bool,  # noqa: FBT001 - pytest gives it by name
) -> None:
    session = a_table(spark, tmp_path / "world", **settings)
    if sort:
        session.sql(f"ALTER TABLE {NAME} WRITE LOCALLY ORDERED BY id")

    assert takes_row_deltas(session, NAME, deletes=True) is taken
