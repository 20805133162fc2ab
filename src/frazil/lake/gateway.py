"""The one door to Iceberg's Java API, and what to do where there is none.

Spark Connect has no JVM gateway; then every question has an answer in SQL, only slower.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def java_table(spark: SparkSession, name: str) -> Any | None:
    """Load an Iceberg table as a Java object, fresh from the catalog.

    Args:
        spark: any session.
        name: quoted name of an existing table.

    Returns:
        ``org.apache.iceberg.Table``, or None where the session has no JVM gateway.
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        return None
    session = spark._jsparkSession  # noqa: SLF001
    # A catalog is opened with the settings of the thread's active session, which need not be this one.
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session)
    return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, name)


def snapshot_fields(spark: SparkSession, snapshot: Any) -> dict[str, Any]:
    """Read a Java snapshot, as Iceberg writes it to JSON: ``snapshot-id``, ``summary`` and so on."""
    parser = spark._jvm.org.apache.iceberg.SnapshotParser  # type: ignore[union-attr] # noqa: SLF001
    fields: dict[str, Any] = json.loads(parser.toJson(snapshot))
    return fields


def release(checkpointed: DataFrame) -> None:
    """Free the memory of rows that a local checkpoint holds; without a gateway Spark does it some day."""
    rows = getattr(checkpointed, "_jdf", None)
    if rows is not None:
        rows.logicalPlan().rdd().unpersist(False)
