"""The one door to Iceberg's Java API, and what to do where there is none.

Spark Connect has no JVM gateway; then every question has an answer in SQL, only slower.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def java_class(spark: SparkSession, name: str) -> Any:
    """Return a Java class by its full name; a dotted name under ``_jvm`` would cost a round trip a dot."""
    from py4j.java_gateway import JavaClass  # noqa: PLC0415 - only where Java runs

    return JavaClass(name, spark._jvm._gateway_client)  # type: ignore[union-attr] # noqa: SLF001


def java_table(spark: SparkSession, name: str) -> Any | None:
    """Load an Iceberg table as a Java object, fresh from the catalog.

    Args:
        spark: any session.
        name: quoted name of an existing table.

    Returns:
        ``org.apache.iceberg.Table``, or None where the session has no JVM gateway.
    """
    if getattr(spark, "_jvm", None) is None:
        return None
    session = spark._jsparkSession  # noqa: SLF001
    # A catalog is opened with the settings of the thread's active session, which need not be this one.
    java_class(spark, "org.apache.spark.sql.classic.SparkSession").setActiveSession(session)
    return java_class(spark, "org.apache.iceberg.spark.Spark3Util").loadIcebergTable(session, name)


def snapshot_fields(spark: SparkSession, snapshot: Any) -> dict[str, Any]:
    """Read a Java snapshot, as Iceberg writes it to JSON: ``snapshot-id``, ``summary`` and so on."""
    parser = java_class(spark, "org.apache.iceberg.SnapshotParser")
    fields: dict[str, Any] = json.loads(parser.toJson(snapshot))
    return fields


def schema_fields(spark: SparkSession, schema: Any) -> list[dict[str, Any]]:
    """Read the fields of a Java schema, as Iceberg writes them to JSON."""
    parser = java_class(spark, "org.apache.iceberg.SchemaParser")
    fields: list[dict[str, Any]] = json.loads(parser.toJson(schema))["fields"]
    return fields


def release(checkpointed: DataFrame) -> None:
    """Free the memory of rows that a local checkpoint holds; without a gateway Spark does it some day."""
    rows = getattr(checkpointed, "_jdf", None)
    if rows is not None:
        rows.logicalPlan().rdd().unpersist(False)
