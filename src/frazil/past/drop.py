"""Remove tables from the lake, with their files."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from frazil.catalog.lock import waiting_lock
from frazil.iceberg.damage import local_path
from frazil.lake.refs import is_missing
from frazil.spark.gateway import java_table
from frazil.spec import CATALOG
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline


def drop(
    pipeline: Pipeline,
    spark: SparkSession,
    names: Iterable[tuple[str, str]],
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Drop tables and delete their files; tables that do not exist are skipped.

    Args:
        pipeline: the declaration; its lake is locked meanwhile.
        spark: a session with the lake.
        names: namespace and name of each table.
        tell: called with each table's name when its turn comes.

    Returns:
        The tables that were dropped, with their namespaces.

    Raises:
        BusyError: another run holds the pipeline for more than a minute.
    """
    dropped = []
    with waiting_lock(pipeline):
        for namespace, name in names:
            tell(f"{namespace}.{name}")
            if _drop(spark, (CATALOG, namespace, name)):
                dropped.append(f"{namespace}.{name}")
    return dropped


def _drop(spark: SparkSession, path: tuple[str, ...]) -> bool:
    name = quote(*path)
    try:
        table = java_table(spark, name)
    except Exception as error:
        if is_missing(error):
            return False
        raise
    folder = None if table is None else local_path(table.location())
    spark.sql(f"DROP TABLE IF EXISTS {name} PURGE")
    if folder is not None:
        # Killed runs leave files without a table; leftover metadata would look like a lost table.
        shutil.rmtree(folder, ignore_errors=True)
    return True
