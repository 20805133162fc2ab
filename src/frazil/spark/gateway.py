"""The only access to Iceberg's Java API, through a session's JVM gateway.

Sessions of Spark Connect have no gateway: :func:`frazil.spark.session.refuse_connect` refuses them first.
"""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from frazil.older_spark import is_older_spark
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, SparkSession

_KEPT_SECONDS: Final = 300
"""How long a loaded table is reused. Credentials that catalogs hand out for its files are valid for longer."""
_loaded: Final[WeakKeyDictionary[SparkSession, dict[str, tuple[float, Any]]]] = WeakKeyDictionary()
"""Tables that a session has loaded, by their quoted names, with the time."""


def java_class(spark: SparkSession, name: str) -> Any:
    """Return a Java class by its full name; a dotted name under ``_jvm`` would cost a round trip a dot."""
    from py4j.java_gateway import JavaClass  # noqa: PLC0415 - only where Java runs

    return JavaClass(name, spark._jvm._gateway_client)  # type: ignore[union-attr] # noqa: SLF001


def sql_class(name: str) -> str:
    """Return the full name of a Spark SQL class, in Spark 4 of its classic version (not that of Connect)."""
    return f"org.apache.spark.sql.{'' if is_older_spark() else 'classic.'}{name}"


def settings_in_java(spark: SparkSession) -> Any:
    """Return the settings of a session, as a Java map."""
    settings = spark._jsparkSession.conf()  # noqa: SLF001
    if not is_older_spark():
        return settings.getAllAsJava()
    return java_class(spark, "scala.collection.JavaConverters").mapAsJavaMapConverter(settings.getAll()).asJava()


def expression_of(spark: SparkSession, column: Column) -> Any:
    """Return Catalyst's expression of a column."""
    java: Any = column._jc  # noqa: SLF001
    return java.expr() if is_older_spark() else java_class(spark, sql_class("ExpressionUtils")).expression(java)


def column_of(spark: SparkSession, expression: Any) -> Column:
    """Return a column of Catalyst's expression."""
    if is_older_spark():
        from pyspark.sql import Column  # noqa: PLC0415 - a class that cannot be made in Spark 4

        made: Any = Column
        return made(java_class(spark, sql_class("Column"))(expression))  # type: ignore[no-any-return]
    from pyspark.sql.classic.column import Column as ClassicColumn  # noqa: PLC0415 - Spark 3.5 has none

    return ClassicColumn(java_class(spark, sql_class("ExpressionUtils")).column(expression))


def java_table(spark: SparkSession, name: str) -> Any:
    """Load an Iceberg table as a Java object, in its current state.

    For some minutes each call for a table returns the same object, refreshed.

    Args:
        spark: any session.
        name: quoted name of an existing table.

    Returns:
        ``org.apache.iceberg.Table``.

    Cost: one catalog request, and one read of the metadata file if the table has changed since the last call.
    """
    loaded = _loaded.setdefault(spark, {})
    since, table = loaded.get(name, (0.0, None))
    if table is not None and time.monotonic() - since < _KEPT_SECONDS:
        try:
            table.refresh()
        except Exception:  # noqa: BLE001 - it may have been replaced or dropped: loading it shows that
            del loaded[name]
        else:
            return table
    table = _load(spark, name)
    loaded[name] = (time.monotonic(), table)
    return table


def _load(spark: SparkSession, name: str) -> Any:
    session = spark._jsparkSession  # noqa: SLF001
    # A catalog opens with the settings of the thread's active session, which may be another one.
    java_class(spark, sql_class("SparkSession")).setActiveSession(session)
    return java_class(spark, "org.apache.iceberg.spark.Spark3Util").loadIcebergTable(session, name)


def direct_executor(spark: SparkSession) -> Any:
    """Return a Java executor that runs tasks immediately; Iceberg polls its own executors every ten milliseconds."""
    executors = java_class(spark, "org.apache.iceberg.relocated.com.google.common.util.concurrent.MoreExecutors")
    return executors.newDirectExecutorService()


def snapshot_fields(spark: SparkSession, snapshot: Any) -> dict[str, Any]:
    """Read a Java snapshot, as Iceberg writes it to JSON: ``snapshot-id``, ``summary`` and so on."""
    parser = java_class(spark, "org.apache.iceberg.SnapshotParser")
    fields: dict[str, Any] = json.loads(parser.toJson(snapshot))
    return fields


def schema_fields(spark: SparkSession, schema: Any) -> list[dict[str, Any]]:
    """Read the fields of a Java schema, as Iceberg writes them to JSON."""
    fields: list[dict[str, Any]] = _schema(spark, schema)["fields"]
    return fields


def identifier_fields(spark: SparkSession, schema: Any) -> set[int]:
    """Read the ids of a Java schema's identifier fields."""
    return set(_schema(spark, schema).get("identifier-field-ids", ()))


def _schema(spark: SparkSession, schema: Any) -> dict[str, Any]:
    """Read a Java schema, as Iceberg writes it to JSON."""
    written: dict[str, Any] = json.loads(java_class(spark, "org.apache.iceberg.SchemaParser").toJson(schema))
    return written


def append_staged(rows: DataFrame, catalog: str, transaction: Any, summary: Mapping[str, str]) -> None:
    """Append rows, columns by name, to the table of an Iceberg transaction, as Spark does for ``CREATE TABLE ... AS``.

    Args:
        rows: rows of a session.
        catalog: name of the table's catalog, whose functions Spark needs to distribute rows.
        transaction: ``org.apache.iceberg.Transaction``. The rows become visible when it is committed.
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
    # Spark runs a command when its Dataset is created.
    _companion(spark, sql_class("Dataset")).ofRows(spark._jsparkSession, command)  # noqa: SLF001


def commit_snapshot(spark: SparkSession, table: Any, before: Any, snapshot: Any) -> None:
    """Commit a staged snapshot to ``main`` of a table, unless the table has changed.

    Iceberg's own commits would be retried on top of a concurrent change.

    Args:
        spark: any session.
        table: Iceberg's Java table.
        before: the table's Java metadata, which the commit is based on.
        snapshot: the staged Java snapshot.
    """
    metadata = java_class(spark, "org.apache.iceberg.TableMetadata").buildFrom(before)
    table.operations().commit(before, metadata.setBranchSnapshot(snapshot, "main").build())


def is_local(spark: SparkSession) -> bool:
    """Return whether driver and executors are one process."""
    return re.match(r"local(\[|$)", f"{spark.sparkContext.master}") is not None


def hold(rows: DataFrame, *, eager: bool = True) -> DataFrame:
    """Compute rows once, and keep them until :func:`release`.

    In one process this is a local checkpoint, which discards the rows' lineage. On a cluster a lost executor would then
    fail the run, so two executors store each row, and Spark keeps the lineage to compute it again.

    Args:
        rows: any rows of a session.
        eager: compute the rows now; otherwise when they are first read.

    Returns:
        The same rows, from memory or disk of the executors. Later changes of their tables do not affect them.
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
    """Free the memory and disk of the rows of :func:`hold`, which Java may otherwise keep for hours."""
    plan = rows._jdf.logicalPlan()  # noqa: SLF001
    if is_local(rows.sparkSession):
        plan.rdd().unpersist(False)
    else:
        plan.cacheBuilder().clearCache(False)


def _companion(spark: SparkSession, name: str) -> Any:
    """Return the companion object of a Scala class."""
    return getattr(java_class(spark, f"{name}$"), "MODULE$")


def call(spark: SparkSession, path: tuple[str, ...], procedure: str, *arguments: str) -> DataFrame:
    """Call a procedure of a table's catalog on the table.

    Args:
        spark: a session with the lake.
        path: catalog, namespace and name of the table.
        procedure: name of the procedure.
        arguments: further arguments in SQL, ``name => value``.
    """
    table = literal(".".join(quote(part) for part in path[1:]))
    given = ", ".join([f"table => {table}", *arguments])
    return spark.sql(f"CALL {quote(path[0])}.system.{procedure}({given})")
