"""Context of one table in one run."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from frazil.iceberg.snapshot import verify_bookmark
from frazil.lake.commit import TableTransaction
from frazil.lake.refs import head
from frazil.plan.policy import DEFAULT_POLICY
from frazil.spark.gateway import hold, release
from frazil.spec.sql.names import quote
from frazil.spec.tables import source_tables

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.lake.table_files import TableFiles
    from frazil.plan.policy import Policy
    from frazil.runner.report import TableReport
    from frazil.spec import Current, History, Pipeline, Table
    from frazil.spec.tables import LakeTable, Role, SourceTables
    from frazil.steps import NeedsSpark

SMALL_RUN = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"}
"""Settings for small batches: adaptive planning costs more than it gains."""


class FrameCache:
    """DataFrames by name; each is created once, even if several marts request it concurrently.

    The run of a table owns the cache and releases it after the last mart.
    """

    def __init__(self) -> None:
        self._frames: dict[Hashable, DataFrame] = {}
        self._kept: list[DataFrame] = []
        self._locks: dict[Hashable, Lock] = {}

    def share(self, name: Hashable, make: Callable[[], DataFrame]) -> DataFrame:
        """Return the DataFrame of a name; the first call creates it."""
        with self._locks.setdefault(name, Lock()):
            if name not in self._frames:
                self._frames[name] = make()
            return self._frames[name]

    def keep(self, name: Hashable, make: Callable[[], DataFrame]) -> DataFrame:
        """Return the DataFrame of a name; the executors keep its rows after the first read."""

        def held() -> DataFrame:
            rows = hold(make(), eager=False)
            self._kept.append(rows)
            return rows

        return self.share(name, held)

    def release(self) -> None:
        """Free all rows now; Java's garbage collector may free them only hours later."""
        for rows in self._kept:
            release(rows)
        self._kept.clear()
        self._frames.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRun:
    """One table's part of a run.

    Attributes:
        spark: the table's own session, so that its settings do not affect other tables.
        pipeline, table: the declaration.
        now: time of the run; becomes ``_cdc_arrived_at``.
        report: results of the table's steps so far; each step adds its own.
        run_id: id of the run, for the summaries of its commits.
        tell: called with a short text when a step begins.
        progress: called from time to time with the progress of a long step.
        wait_for: blocks until the run is done with another table, if that table comes first.
        policy: thresholds.
        heads: newest snapshots of tables by path; :meth:`head` and :meth:`transaction` maintain it.
        cache: DataFrames that the table's marts share; :func:`frazil.runner.run.do_table` releases it.
        files: data files of its tables by snapshot, or why only Spark can read them;
            :mod:`frazil.runner.batch.driver_batch` maintains it.
        own_settings: the session's own settings while those of a small batch replace them; else empty.
    """

    spark: SparkSession
    pipeline: Pipeline
    table: Table
    now: dt.datetime
    report: TableReport
    run_id: str = ""
    tell: Callable[[str], None] = field(default=lambda _: None)
    progress: Callable[[str], None] = field(default=lambda _: None)
    wait_for: Callable[[str], object] = field(default=lambda _: None)
    policy: Policy = DEFAULT_POLICY
    heads: dict[tuple[str, ...], TableSnapshot] = field(default_factory=dict)
    cache: FrameCache = field(default_factory=FrameCache)
    files: dict[int, TableFiles | NeedsSpark] = field(default_factory=dict)
    own_settings: dict[str, str] = field(default_factory=dict)

    def work_small(self) -> None:
        """Apply the settings for small batches until :meth:`work_large`."""
        for name, value in SMALL_RUN.items():
            self.own_settings[name] = self.spark.conf.get(name) or ""
            self.spark.conf.set(name, value)

    def work_large(self) -> None:
        """Restore the session's own settings."""
        for name, value in tuple(self.own_settings.items()):
            self.spark.conf.set(name, value)
        self.own_settings.clear()

    def read_whole(self, path: tuple[str, ...]) -> None:
        """Restore the session's own settings before a full read of a table larger than a small run.

        A small batch can need such a read: one late change can rebuild silver, and many changes of few keys a mart.
        """
        if int(self.head(path).summary.get("total-files-size", 0)) > self.policy.small_run_bytes:
            self.work_large()

    def head(self, path: tuple[str, ...], *, rebuilt: bool = False) -> TableSnapshot:
        """Return a table's newest snapshot for this run: the planned one, or the one the run has published.

        The catalog is read once. A commit on top of this snapshot is refused if another run has published since.

        Args:
            path: path of the table.
            rebuilt: the table is rebuilt, so its bookmark is not verified.
        """
        if path not in self.heads:
            found = head(self.spark, quote(*path), rebuilt=True)
            if not rebuilt:
                verify_bookmark(".".join(path[1:]), found, table=self.table.name, is_bronze=path == self.bronze)
            self.heads[path] = found
        return self.heads[path]

    def overtaken(self) -> tuple[str, ...] | None:
        """Return the path of a table that another process has committed to since this run read it; None without one.

        An erase or a maintenance on another host may then have removed files that this run still reads.
        """
        for path, known in self.heads.items():
            if head(self.spark, quote(*path), rebuilt=True).snapshot_id != known.snapshot_id:
                return path
        return None

    @contextmanager
    def transaction(self, path: tuple[str, ...], bookmark: Mapping[str, Any]) -> Iterator[TableTransaction]:
        """Open a transaction on a table at its snapshot, and record the published snapshot."""
        base, file_bytes = self.head(path), self.policy.file_bytes
        with TableTransaction(
            self.spark, path, base, bookmark, run_id=self.run_id, file_bytes=file_bytes
        ) as transaction:
            yield transaction
            if transaction.published is not None:
                self.heads[path] = transaction.published
                if transaction.published.snapshot_id is not None:
                    self.report.commits[".".join(path[1:])] = transaction.published.snapshot_id

    @property
    def tables(self) -> SourceTables:
        """The lake tables of the source table."""
        return source_tables(self.pipeline, self.table)

    @property
    def bronze(self) -> tuple[str, ...]:
        """Path of the bronze table."""
        return self.tables.bronze.path

    @property
    def changes(self) -> tuple[str, ...]:
        """Path of the silver table."""
        return self.tables.changes.path

    @property
    def quarantine(self) -> tuple[str, ...]:
        """Path of the quarantine table."""
        return self.tables.quarantine.path

    def mart_path(self, mart: Current | History) -> tuple[str, ...]:
        """Path of a mart."""
        return self.mart_table(mart).path

    def mart_table(self, mart: Current | History) -> LakeTable:
        """Table of a mart."""
        return next(made for made in self.tables.marts if made.mart == mart)

    def mart(self, name: str) -> Current | History:
        """Declaration of a mart."""
        return next(mart for mart in self.table.marts if self.table.mart_name(mart) == name)

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """Paths of all lake tables of the source table."""
        return tuple(made.path for made in (self.tables.bronze, *self.tables.computed))

    def bookmark(self, role: Role, batch: int, **more: object) -> dict[str, object]:
        """Return the bookmark of a commit to one of the table's lake tables: owner, role and batch."""
        return {"pipeline": self.pipeline.pipeline, "table": self.table.name, "role": role, "batch": batch, **more}


_BEFORE: Final = "declared_before"
_SAYS: Final = (
    "this declaration built the table before, then another one did, and now this one does again: if two hosts or "
    "branches run the pipeline, give them the same declaration, because each turn rebuilds tables"
)


def declared_bookmark(context: TableRun, base: Mapping[str, Any], declared: str) -> dict[str, str]:
    """Return the entries of a bookmark that name a table's declaration and the one before it.

    If ``declared`` is the declaration before the last change, the report gets one warning.

    Args:
        context: the table's part of the run.
        base: the bookmark that the new one follows; empty for a new table.
        declared: hash of the declaration.
    """
    was, before = base.get("declared", declared), base.get(_BEFORE)
    if declared != was:
        if declared == before and _SAYS not in context.report.warnings:
            context.report.warnings.append(_SAYS)
        before = was
    return {"declared": declared} | ({_BEFORE: before} if before else {})
