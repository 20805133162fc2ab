"""Where a table stands: its newest snapshot and the bookmark it carries."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frazil.errors import HistoryChangedError
from frazil.lake.gateway import java_table

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
    """

    snapshot_id: int | None = None
    bookmark: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, str] = field(default_factory=dict)
    branches: tuple[str, ...] = ()

    @property
    def batch(self) -> int:
        """The batch of bronze the table stands at; 0 for none."""
        return int(self.bookmark.get("batch", 0))


def head(spark: SparkSession, name: str) -> Head:
    """Read where a table stands. A table that does not exist stands nowhere.

    Raises:
        BookmarkLostError: the table has a snapshot, and no ancestor of it carries a bookmark.
    """
    if not spark.catalog.tableExists(name):
        return Head()
    table = java_table(spark, name)
    found = _head_by_java(table) if table is not None else _head_by_sql(spark, name)
    if found.snapshot_id is not None and not found.bookmark and found.summary.get("total-records") != "0":
        raise BookmarkLostError(
            f"{name.replace('`', '')} has rows and no bookmark: something else wrote it, or expired its history",
            hint="run: frazil rebuild TABLE, which makes silver and marts anew from bronze",
        )
    return found


def _head_by_java(table: Any) -> Head:
    snapshot = table.currentSnapshot()
    names = tuple(str(name) for name in table.refs().keySet() if name != "main")
    if snapshot is None:
        return Head(branches=names)
    summary = dict(snapshot.summary())
    at, bookmark = snapshot, summary.get(BOOKMARK)
    while bookmark is None and at.parentId() is not None:
        at = table.snapshot(at.parentId())
        if at is None:
            break
        bookmark = at.summary().get(BOOKMARK)
    return Head(
        snapshot_id=snapshot.snapshotId(),
        bookmark=json.loads(bookmark) if bookmark else {},
        summary=summary,
        branches=names,
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
