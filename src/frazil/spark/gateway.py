"""The one door to Iceberg's Java API, and what to do where there is none.

Spark Connect has no JVM gateway; then every question has an answer in SQL, only slower.
"""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from frazil.older_spark import is_older
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, SparkSession

_KEPT_SECONDS: Final = 300
"""So long a loaded table is used again. The keys that some catalogs give for its files are good for longer."""
_loaded: Final[WeakKeyDictionary[SparkSession, dict[str, tuple[float, Any]]]] = WeakKeyDictionary()
"""Tables that a session has loaded, by their quoted names, and when."""


def java_class(spark: SparkSession, name: str) -> Any:
    """Return a Java class by its full name; a dotted name under ``_jvm`` would cost a round trip a dot."""
    from py4j.java_gateway import JavaClass  # noqa: PLC0415 - only where Java runs

    return JavaClass(name, spark._jvm._gateway_client)  # type: ignore[union-attr] # noqa: SLF001


def sql_class(name: str) -> str:
    """Return the full name of a class of Spark SQL that Spark 4 has twice: for sessions with a JVM, and for Connect."""
    return f"org.apache.spark.sql.{'' if is_older() else 'classic.'}{name}"


def settings_in_java(spark: SparkSession) -> Any:
    """Return the settings of a session, as a Java map."""
    settings = spark._jsparkSession.conf()  # noqa: SLF001
    if not is_older():
        return settings.getAllAsJava()
    return java_class(spark, "scala.collection.JavaConverters").mapAsJavaMapConverter(settings.getAll()).asJava()


def expression_of(spark: SparkSession, column: Column) -> Any:
    """Return Catalyst's expression of a column."""
    java: Any = column._jc  # noqa: SLF001
    return java.expr() if is_older() else java_class(spark, sql_class("ExpressionUtils")).expression(java)


def column_of(spark: SparkSession, expression: Any) -> Column:
    """Return a column of Catalyst's expression."""
    if is_older():
        from pyspark.sql import Column  # noqa: PLC0415 - a class that cannot be made in Spark 4

        made: Any = Column
        return made(java_class(spark, sql_class("Column"))(expression))  # type: ignore[no-any-return]
    from pyspark.sql.classic.column import Column as ClassicColumn  # noqa: PLC0415 - Spark 3.5 has none

    return ClassicColumn(java_class(spark, sql_class("ExpressionUtils")).column(expression))


def java_table(spark: SparkSession, name: str) -> Any | None:
    """Load an Iceberg table as a Java object, as it is now.

    Each call for a table gives the same object for some minutes, and brings it up to date.

    Args:
        spark: any session.
        name: quoted name of an existing table.

    Returns:
        ``org.apache.iceberg.Table``, or None where the session has no JVM gateway.

    Cost: a question to the catalog; where the table has changed since the last call, its metadata file is read.
    """
    if getattr(spark, "_jvm", None) is None:
        return None
    loaded = _loaded.setdefault(spark, {})
    since, table = loaded.get(name, (0.0, None))
    if table is not None and time.monotonic() - since < _KEPT_SECONDS:
        try:
            table.refresh()
        except Exception:  # noqa: BLE001 - it may be another table by now, or none: loading it tells
            del loaded[name]
        else:
            return table
    table = _load(spark, name)
    loaded[name] = (time.monotonic(), table)
    return table


def _load(spark: SparkSession, name: str) -> Any:
    session = spark._jsparkSession  # noqa: SLF001
    # A catalog is opened with the settings of the thread's active session, which need not be this one.
    java_class(spark, sql_class("SparkSession")).setActiveSession(session)
    return java_class(spark, "org.apache.iceberg.spark.Spark3Util").loadIcebergTable(session, name)


def direct_executor(spark: SparkSession) -> Any:
    """Return an executor of Java that works at once; Iceberg asks its own every ten milliseconds if they are done."""
    executors = java_class(spark, "org.apache.iceberg.relocated.com.google.common.util.concurrent.MoreExecutors")
    return executors.newDirectExecutorService()


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


def append_staged(rows: DataFrame, catalog: str, transaction: Any, summary: Mapping[str, str]) -> None:
    """Append rows, columns by name, to the table of an Iceberg transaction, as Spark does for ``CREATE TABLE ... AS``.

    Args:
        rows: of a session with a JVM gateway.
        catalog: name of the table's catalog; it has the functions that Spark distributes rows by.
        transaction: ``org.apache.iceberg.Transaction``. Nobody sees the rows before it is committed.
        summary: properties of the snapshot.
    """
    spark, java = rows.sparkSession, rows._jdf  # noqa: SLF001
    staged = java_class(spark, "org.apache.iceberg.spark.source.StagedSparkTable")(transaction)
    found = spark._jsparkSession.sessionState().catalogManager().catalog(catalog)  # noqa: SLF001
    functions, nothing = java_class(spark, "scala.Some")(found), _companion(spark, "scala.None")
    relations = _companion(spark, "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation")
    options = {f"snapshot-property.{key}": value for key, value in summary.items()}
    written = java_class(spark, "org.apache.spark.api.python.PythonUtils").toScalaMap(options)
    appends = _companion(spark, "org.apache.spark.sql.catalyst.plans.logical.AppendData")
    relation = relations.create(staged, functions, nothing)
    command = appends.byName(relation, java.queryExecution().analyzed(), written)
    # A command is done when its Dataset is made.
    _companion(spark, sql_class("Dataset")).ofRows(spark._jsparkSession, command)  # noqa: SLF001


def commit_snapshot(spark: SparkSession, table: Any, before: Any, snapshot: Any) -> None:
    """Let ``main`` of a Java table stand at a snapshot that it does not have yet, if it still is as ``before`` says.

    A commit of Iceberg's own would be made again on top of what came in between.
    """
    metadata = java_class(spark, "org.apache.iceberg.TableMetadata").buildFrom(before)
    table.operations().commit(before, metadata.setBranchSnapshot(snapshot, "main").build())


def is_local(spark: SparkSession) -> bool:
    """Return whether driver and executors are one process, which lives and dies as one."""
    return re.match(r"local(\[|$)", f"{spark.sparkContext.master}") is not None


def hold(rows: DataFrame, *, eager: bool = True) -> DataFrame:
    """Compute rows once, and hold them until :func:`release`.

    In one process this is a local checkpoint: Spark forgets how the rows came to be. On a cluster they would be gone
    with the executor that holds them, and the run with them. There two executors hold each row, and Spark remembers
    how it came to be, so that it can be computed again.

    Args:
        rows: any rows of a session with a JVM gateway.
        eager: compute them now, else when they are first read.

    Returns:
        The same rows, from memory or disk of the executors. A table they were read from may change meanwhile.
    """
    spark = rows.sparkSession
    if is_local(spark):
        return rows.localCheckpoint(eager=eager)
    java, level = rows._jdf, java_class(spark, "org.apache.spark.storage.StorageLevel").MEMORY_AND_DISK_2()  # noqa: SLF001
    # Not persist() of the DataFrame: after any write to a table that it reads, Spark reads the rows again from there.
    relations = _companion(spark, "org.apache.spark.sql.execution.columnar.InMemoryRelation")
    held = relations.apply(level, java.queryExecution(), _companion(spark, "scala.None"))
    data = _companion(spark, sql_class("Dataset")).ofRows(spark._jsparkSession, held)  # noqa: SLF001
    if eager:
        data.count()
    return DataFrame(data, spark)


def release(rows: DataFrame) -> None:
    """Free what the rows of :func:`hold` take in memory and on disks: Java would do so some day, hours later."""
    plan = rows._jdf.logicalPlan()  # noqa: SLF001
    if is_local(rows.sparkSession):
        plan.rdd().unpersist(False)
    else:
        plan.cacheBuilder().clearCache(False)


def _companion(spark: SparkSession, name: str) -> Any:
    """Return the object that stands beside a class of Scala."""
    return getattr(java_class(spark, f"{name}$"), "MODULE$")


def call(spark: SparkSession, path: tuple[str, ...], procedure: str, *arguments: str) -> DataFrame:
    """Call a procedure of a table's catalog on the table; further arguments are SQL, ``name => value``."""
    table = literal(".".join(quote(part) for part in path[1:]))
    given = ", ".join([f"table => {table}", *arguments])
    return spark.sql(f"CALL {quote(path[0])}.system.{procedure}({given})")
