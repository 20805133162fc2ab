"""Remove the files that no version of a table names, safely beside unknown writers.

A writer reads the table's newest snapshot, writes files, and commits them if that snapshot is still the newest. Until
then its files look like orphans. Orphans are therefore listed first. Then an empty commit, the *fence*, changes the
newest snapshot: a writer of a listed file has either committed the file before the fence, or its commit is refused.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import BusyError
from frazil.lake.commit import TableTransaction
from frazil.lake.refs import head
from frazil.spark.gateway import java_class, java_table
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

_TRIES: Final = 5
_LISTED: Final = "file_path string, last_modified timestamp"
"""Schema of a file listing for Iceberg."""


def fence(spark: SparkSession, path: tuple[str, ...]) -> None:
    """Make the catalog refuse every commit that is based on an earlier read of the table.

    The fence is an empty snapshot: readers see the same rows. A table without a snapshot needs none.

    Raises:
        BusyError: other runs published first, at each of several attempts.
    """
    for left in reversed(range(_TRIES)):
        base = head(spark, quote(*path), rebuilt=True)
        if base.snapshot_id is None:
            return
        try:
            with TableTransaction(spark, path, base, base.bookmark) as batch:
                batch.touch()
                batch.publish()
        except BusyError:
            if not left:
                raise
        else:
            return


def unnamed_files(spark: SparkSession, path: tuple[str, ...], before: dt.datetime) -> list[str]:
    """List the files of a table's folder that no version of the table names.

    A writer may still commit them: see :func:`remove_unnamed`.

    Args:
        spark: a session with the lake.
        path: catalog, namespace and name of the table.
        before: only files that were last written before this time are listed.

    Cost: a listing of the table's folder, and a Spark job over its manifests.
    """
    table = java_table(spark, quote(*path))
    # An object that accepts paths and does nothing: the files are only listed.
    nothing = java_class(spark, "java.util.stream.Stream").builder()
    action = _action(spark, table, before).usePrefixListing(has_own_listing(table.location())).deleteWith(nothing)
    return [*action.execute().orphanFileLocations()]


def remove_unnamed(spark: SparkSession, path: tuple[str, ...], listed: Sequence[str], before: dt.datetime) -> int:
    """Remove the listed files that no version of a table names after a :func:`fence`.

    Args:
        spark: a session with the lake.
        path: catalog, namespace and name of the table.
        listed: result of :func:`unnamed_files` from before the fence.
        before: as for :func:`unnamed_files`.

    Returns:
        Number of removed files.

    Cost: a Spark job over the table's manifests, where any file is listed.
    """
    if not listed:
        return 0
    long_ago = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    rows = spark.createDataFrame([(file, long_ago) for file in listed], _LISTED)
    action = _action(spark, java_table(spark, quote(*path)), before).compareToFileList(rows._jdf)  # noqa: SLF001
    # No folder as a filter: a listing can spell the table's folder differently than the table does.
    action = action.location("")
    return sum(1 for _ in action.execute().orphanFileLocations())


def remove_orphans(spark: SparkSession, path: tuple[str, ...], before: dt.datetime) -> int:
    """Remove the files of a table's folder that no version of the table names.

    If there are any, commits of writers that began earlier are refused.

    Args:
        spark: a session with the lake.
        path: catalog, namespace and name of the table.
        before: only files that were last written before this time are removed.

    Returns:
        Number of removed files.

    Raises:
        As :func:`fence`.
    """
    listed = unnamed_files(spark, path, before)
    if listed:
        fence(spark, path)
    return remove_unnamed(spark, path, listed, before)


def _action(spark: SparkSession, table: Any, before: dt.datetime) -> Any:
    actions = java_class(spark, "org.apache.iceberg.spark.actions.SparkActions").get(spark._jsparkSession)  # noqa: SLF001
    return actions.deleteOrphanFiles(table).olderThan(int(before.timestamp() * 1000))


def has_own_listing(address: str) -> bool:
    """Return whether Iceberg's own storage client must list a folder.

    Hadoop lists local disks and HDFS, and has no client for other stores here.
    """
    return re.match(r"(?!file:|hdfs:)[a-z][a-z0-9+.-]+:", address) is not None
