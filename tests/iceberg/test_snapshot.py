"""Java, a metadata file and a commit give one value for where a table stands."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from frazil.iceberg.snapshot import TableSnapshot, metadata_snapshot, table_snapshot
from frazil.lake.commit import TableTransaction
from frazil.lake.refs import head
from frazil.serve.tables import read_snapshot
from frazil.spec.model.types import SIMPLE
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATH = ("lake", "stands", "t")


def made(number: int, parent: int | None = None, **summary: str) -> dict[str, Any]:
    return {"snapshot-id": number, "parent-snapshot-id": parent, "timestamp-ms": number, "summary": summary}


def test_the_bookmark_is_looked_for_no_further_than_it_is() -> None:
    asked: list[int] = []

    def snapshot(number: int) -> dict[str, Any]:
        asked.append(number)
        return made(number, number - 1, **({"frazil.bookmark": '{"batch": 7}'} if number == 3 else {}))

    found = table_snapshot(TableSnapshot(branches=("b",)), made(5, 4), snapshot)

    assert (found.batch, found.branches, found.snapshot_id) == (7, ("b",), 5)
    assert asked == [4, 3]


def test_a_bookmark_expires_with_its_snapshot() -> None:
    assert table_snapshot(TableSnapshot(), made(5, 4), lambda _: None).bookmark == {}


@pytest.mark.parametrize("metadata", [{}, {"snapshots": [made(1)]}, {"current-snapshot-id": -1}])
def test_a_table_without_a_snapshot_stands_nowhere(metadata: dict[str, Any]) -> None:
    found = metadata_snapshot(metadata)

    assert (found.snapshot_id, found.batch, found.records, found.committed_at) == (None, 0, 0, None)


@pytest.mark.spark
def test_java_the_file_and_the_commit_say_the_same(spark: SparkSession) -> None:
    name = quote(*PATH)
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote(*PATH[:-1])}")
    spark.sql(f"CREATE TABLE {name} (id BIGINT) USING iceberg")
    with TableTransaction(spark, PATH, head(spark, name), {"batch": 3}) as batch:
        batch.append(spark.range(5))
        committed = batch.publish()
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH beside")

    by_java = head(spark, name)
    by_file = read_snapshot(by_java.location)

    assert (by_java.batch, by_java.records, by_java.branches) == (3, 5, ("beside",))
    assert (by_file.columns, by_file.snapshots) == ({"id": "bigint"}, 2)  # the branch began with one of no rows
    assert replace(by_file, snapshots=0) == by_java
    assert replace(committed, branches=("beside",), columns=by_java.columns) == by_java


@pytest.mark.spark
@pytest.mark.parametrize("name", ["`lake`.`stands`.`nothing`", "`lake`.`nowhere`.`nothing`"])
def test_a_table_that_does_not_exist_stands_nowhere(spark: SparkSession, name: str) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.stands")

    assert head(spark, name) == TableSnapshot()


@pytest.mark.spark
def test_metadata_names_types_as_spark_does(spark: SparkSession) -> None:
    """So what a plan compares without a JVM is what the engine compares with one."""
    types = [
        *SIMPLE,
        "decimal(12,2)",
        "array<string>",
        "map<string,bigint>",
        "struct<a:timestamp,b:array<decimal(5,0)>>",
    ]
    columns = {f"c{number}": kind for number, kind in enumerate(types)}
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote(*PATH[:-1])}")
    name = quote(*PATH[:-1], "typed")
    spark.sql(
        f"CREATE TABLE {name} ({', '.join(f'{column} {kind}' for column, kind in columns.items())}) USING iceberg"
    )

    by_java = head(spark, name)

    assert by_java.columns == columns
    assert read_snapshot(by_java.location).columns == columns


def test_rows_that_delete_files_remove_are_not_counted() -> None:
    summary = {"total-records": "19", "total-position-deletes": "4", "total-delete-files": "2"}

    assert TableSnapshot(summary=summary).rows == 15
    assert TableSnapshot(summary={**summary, "total-position-deletes": "20"}).rows == 0, "removed twice"
    assert TableSnapshot().rows == 0
