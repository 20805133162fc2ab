"""Remove the files that no version of a table names, beside writers that nobody knows of.

A writer reads where a table stands, writes files, and commits what names them, if the table stands there still. Its
files look like orphans until then. So they are listed, then the table is moved by an empty commit, the *fence*: whoever
wrote a listed file either has committed by now, and the table names the file, or is refused.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import BusyError
from frazil.lake.commit import TableTransaction
from frazil.lake.heads import head
from frazil.spark.gateway import java_class, java_table
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

_TRIES: Final = 5
_LISTED: Final = "file_path string, last_modified timestamp"
"""What Iceberg takes for a listing."""


def fence(spark: SparkSession, path: tuple[str, ...]) -> None:
    """Have every commit refused whose writer has read the table before; readers see the same rows.

    Nothing is done for a table without a snapshot.

    Raises:
        BusyError: other runs published first, again and again.
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
    """List the files of a table's folder that are older than ``before``, and that no version of the table names now.

    They may be of a writer that is going to commit: see :func:`remove_unnamed`.

    Cost: a listing of the table's folder, and a Spark job over its manifests.
    """
    table = java_table(spark, quote(*path))
    if table is None:
        return []
    # Some object that takes texts and does nothing with them: the files are listed and stay.
    nothing = java_class(spark, "java.util.stream.Stream").builder()
    action = _action(spark, table, before).usePrefixListing(has_own_listing(table.location())).deleteWith(nothing)
    return [*action.execute().orphanFileLocations()]


def remove_unnamed(spark: SparkSession, path: tuple[str, ...], listed: Sequence[str], before: dt.datetime) -> int:
    """Remove those of some listed files that no version of a table names, after a :func:`fence` came between.

    Returns:
        How many went.

    Cost: a Spark job over the table's manifests, where any file is listed.
    """
    if not listed:
        return 0
    long_ago = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    rows = spark.createDataFrame([(file, long_ago) for file in listed], _LISTED)
    action = _action(spark, java_table(spark, quote(*path)), before).compareToFileList(rows._jdf)  # noqa: SLF001
    # Wherever they are: a listing can write the table's folder otherwise than the table does.
    action = action.location("")
    return sum(1 for _ in action.execute().orphanFileLocations())


def remove_orphans(spark: SparkSession, path: tuple[str, ...], before: dt.datetime) -> int:
    """Remove the files of a table's folder that no version of it names, older ones than ``before``; return how many.

    Where there are any, writers who began before this are refused.

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
    """Return whether Iceberg's own client of a store lists a folder.

    Hadoop knows local disks and HDFS, and has no client for the others here.
    """
    return re.match(r"(?!file:|hdfs:)[a-z][a-z0-9+.-]+:", address) is not None
