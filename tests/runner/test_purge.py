"""Purging a table leaves it the properties that it had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.iceberg.snapshot import BOOKMARK
from frazil.runner.maintain import purge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZE = "commit.manifest.target-size-bytes"
NOTED = "frazil.erase.manifest-bytes"


def properties(spark: SparkSession, name: str) -> dict[str, str]:
    rows = spark.sql(f"SHOW TBLPROPERTIES {name}").collect()
    return {row["key"]: row["value"] for row in rows if row["key"] in (SIZE, NOTED)}


def test_the_size_of_manifests_stays_as_declared_even_after_a_kill(spark: SparkSession) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.purged")
    for table, declared in (("plain", None), ("sized", "4194304")):
        name = f"lake.purged.{table}"
        spark.sql(f"CREATE TABLE {name} (id int) USING iceberg TBLPROPERTIES ('format-version' = '2')")
        if declared:
            spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{SIZE}' = '{declared}')")
        before = properties(spark, name)
        rows = spark.range(1, 3).selectExpr("CAST(id AS int) AS id")
        rows.writeTo(name).option(f"snapshot-property.{BOOKMARK}", '{"batch": 1}').append()
        spark.sql(f"DELETE FROM {name} WHERE id = 1")

        purge(spark, ("lake", "purged", table), target_file_mb=128)
        assert properties(spark, name) == before
        stale = f"SELECT * FROM {name}.manifests WHERE deleted_data_files_count > 0"
        assert spark.sql(stale).collect() == []

        # As a kill between the rewrite of the manifests and what follows it leaves the table.
        noted = f"'{SIZE}' = '7', '{NOTED}' = '{declared or ''}'"
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({noted})")
        purge(spark, ("lake", "purged", table), target_file_mb=128)
        assert properties(spark, name) == before
        assert [row["id"] for row in spark.sql(f"SELECT id FROM {name}").collect()] == [2]
