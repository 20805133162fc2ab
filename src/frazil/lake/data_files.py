"""The data files of a table that the driver can read by itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from frazil.spark.gateway import java_class, java_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

_SCHEME: Final = "file:"


def local_data_files(
    spark: SparkSession,
    name: str,
    snapshot_id: int,
    values: Mapping[str, Sequence[str]],
    above: tuple[str, int],
) -> list[Path] | None:
    """Return the Parquet files that may have rows with some values.

    Args:
        spark: a session.
        name: quoted name of a table.
        snapshot_id: the snapshot that is read.
        values: column -> its values.
        above: a column, and a number that it is greater than.

    Returns:
        The files, by their paths; None without a JVM gateway, where a file is not on this machine or not Parquet, or
        where rows of one are deleted.
    """
    table = java_table(spark, name)
    if table is None:
        return None
    expressions = java_class(spark, "org.apache.iceberg.expressions.Expressions")
    condition = expressions.greaterThan(*above)
    for column, some in values.items():
        either = expressions.alwaysFalse()
        for value in some:
            either = getattr(expressions, "or")(either, expressions.equal(column, value))
        condition = getattr(expressions, "and")(condition, either)
    found = []
    tasks = table.newScan().useSnapshot(snapshot_id).filter(condition).planFiles()
    try:
        iterator = tasks.iterator()
        while iterator.hasNext():
            task = iterator.next()
            path = Path(str(task.file().location()).removeprefix(_SCHEME))
            if task.deletes().size() or path.suffix != ".parquet" or not path.is_file():
                return None
            found.append(path)
    finally:
        tasks.close()
    return sorted(found)
