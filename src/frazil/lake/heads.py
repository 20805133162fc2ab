"""Where a table stands: its newest snapshot and the bookmark it carries."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frazil.errors import HistoryChangedError
from frazil.lake.gateway import java_table, snapshot_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

BOOKMARK = "frazil.bookmark"
"""Key of the snapshot summary. One snapshot carries rows and bookmark, so they cannot part (ONCE)."""


class BookmarkLostError(HistoryChangedError):
    """A table has rows and no snapshot that says which changes they hold."""

    code = "FZ702"


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest snapshot of a table's main branch.

    Attributes:
        snapshot_id: None for a table without a snapshot.
        bookmark: what the newest bookmark in the snapshot's ancestry says; empty for a table never written.
        summary: the snapshot's own summary.
        branches: names of all other branches.
        location: address of the table's metadata file; None for a table that does not exist, or where Java's API cannot
            be asked. No part of where a table stands: a commit does not know the one it has made.
    """

    snapshot_id: int | None = None
    bookmark: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, str] = field(default_factory=dict)
    branches: tuple[str, ...] = ()
    location: str | None = field(default=None, compare=False)

    @property
    def batch(self) -> int:
        """The batch of bronze the table stands at; 0 for none."""
        return int(self.bookmark.get("batch", 0))


def head(spark: SparkSession, name: str, *, rebuilt: bool = False) -> Head:
    """Read where a table stands. A table that does not exist stands nowhere.

    Args:
        spark: a session with the lake.
        name: quoted name of the table.
        rebuilt: the table is about to be made anew, so a lost bookmark does not matter.

    Raises:
        BookmarkLostError: the table has a snapshot, and no ancestor of it carries a bookmark.
    """
    try:
        table = java_table(spark, name)
        found = _head_by_java(spark, table) if table is not None else _head_by_sql(spark, name)
    except Exception as error:
        if is_missing(error):
            return Head()
        raise
    if rebuilt or found.bookmark:
        return found
    if found.snapshot_id is not None and found.summary.get("total-records") != "0":
        raise BookmarkLostError(
            f"{name.replace('`', '')} has rows and no bookmark: something else wrote it, or expired its history",
            hint="run: frazil rebuild --select TABLE, which rebuilds silver and marts from bronze",
        )
    return found


def is_missing(error: Exception) -> bool:
    """Whether an error says that there is no such table.

    Known by its words: naming Spark's classes would load Spark for commands that start no Java.
    """
    return any(sign in str(error) for sign in ("NoSuchTable", "NoSuchNamespace", "TABLE_OR_VIEW_NOT_FOUND"))


def _head_by_java(spark: SparkSession, table: Any) -> Head:
    snapshot = table.currentSnapshot()
    # As one text each: a Java collection read item by item costs a round trip an item.
    names = tuple(re.findall(r"[^\[\], ]+", table.refs().keySet().toString()))
    branches = tuple(name for name in names if name != "main")
    location = table.operations().current().metadataFileLocation()
    if snapshot is None:
        return Head(branches=branches, location=location)
    newest = snapshot_fields(spark, snapshot)
    at, bookmark = newest, newest["summary"].get(BOOKMARK)
    while bookmark is None and at.get("parent-snapshot-id") is not None:
        parent = table.snapshot(at["parent-snapshot-id"])
        if parent is None:
            break
        at = snapshot_fields(spark, parent)
        bookmark = at["summary"].get(BOOKMARK)
    return Head(
        snapshot_id=newest["snapshot-id"],
        bookmark=json.loads(bookmark) if bookmark else {},
        summary=newest["summary"],
        branches=branches,
        location=location,
    )


def _head_by_sql(spark: SparkSession, name: str) -> Head:
    refs = {
        row["name"]: row["snapshot_id"] for row in spark.sql(f"SELECT name, snapshot_id FROM {name}.refs").collect()
    }
    names = tuple(ref for ref in refs if ref != "main")
    if "main" not in refs:
        return Head(branches=names)
    snapshots = {row["snapshot_id"]: row for row in spark.sql(f"SELECT * FROM {name}.snapshots").collect()}
    newest = snapshots[refs["main"]]
    at, bookmark = newest, newest["summary"].get(BOOKMARK)
    while bookmark is None and at["parent_id"] in snapshots:
        at = snapshots[at["parent_id"]]
        bookmark = at["summary"].get(BOOKMARK)
    return Head(
        snapshot_id=refs["main"],
        bookmark=json.loads(bookmark) if bookmark else {},
        summary=newest["summary"],
        branches=names,
    )
