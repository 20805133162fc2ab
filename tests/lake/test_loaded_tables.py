"""A table is loaded once, and is each time what it is by then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frazil.lake.refs import head, is_missing
from frazil.spark.gateway import java_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

NAME = "`lake`.`marts`.`loaded`"


@pytest.fixture(autouse=True)
def table(spark: SparkSession) -> Iterator[None]:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS `lake`.`marts`")
    spark.sql(f"CREATE TABLE {NAME} (id int) USING iceberg")
    yield
    spark.sql(f"DROP TABLE IF EXISTS {NAME} PURGE")


def test_commits_of_other_sessions_are_visible(spark: SparkSession) -> None:
    first = java_table(spark, NAME)
    assert first is not None
    at_first = first.currentSnapshot()

    spark.newSession().sql(f"INSERT INTO {NAME} VALUES (1)")

    again = java_table(spark, NAME)
    assert again is not None
    assert again is first
    assert at_first is None
    assert again.currentSnapshot().summary().get("total-records") == "1"


def test_a_table_that_is_gone_is_missing(spark: SparkSession) -> None:
    java_table(spark, NAME)
    spark.newSession().sql(f"DROP TABLE {NAME}")

    with pytest.raises(Exception, match="loaded") as caught:
        java_table(spark, NAME)

    assert is_missing(caught.value)
    assert head(spark, NAME).location is None


def test_another_table_of_the_same_name_is_another_table(spark: SparkSession) -> None:
    before = java_table(spark, NAME)
    assert before is not None
    beside = spark.newSession()
    beside.sql(f"DROP TABLE {NAME}")
    beside.sql(f"CREATE TABLE {NAME} (id int, city string) USING iceberg")

    after = java_table(spark, NAME)

    assert after is not None
    assert after.uuid() != before.uuid()
    assert list(head(spark, NAME).columns) == ["id", "city"]
