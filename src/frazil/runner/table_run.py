"""What every step of a table's run works with."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from frazil.iceberg.snapshot import verify_bookmark
from frazil.lake.commit import TableTransaction
from frazil.lake.heads import head
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
    from frazil.runner.report.report import TableReport
    from frazil.spec import Current, History, Pipeline, Table
    from frazil.spec.tables import LakeTable, Role, SourceTables

SMALL_RUN = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"}
"""Settings for small batches: adapting a plan costs more than it can gain."""


class FrameCache:
    """DataFrames by name, each made once however many marts ask for it at the same time.

    The run of a table owns it, and releases it when the last of its marts is done.
    """

    def __init__(self) -> None:
        self._frames: dict[Hashable, DataFrame] = {}
        self._kept: list[DataFrame] = []
        self._locks: dict[Hashable, Lock] = {}

    def share(self, name: Hashable, make: Callable[[], DataFrame]) -> DataFrame:
        """Return the rows of a name, made when they are first asked for."""
        with self._locks.setdefault(name, Lock()):
            if name not in self._frames:
                self._frames[name] = make()
            return self._frames[name]

    def keep(self, name: Hashable, make: Callable[[], DataFrame]) -> DataFrame:
        """Return the rows of a name, computed when they are first read and then kept on the executors."""

        def held() -> DataFrame:
            rows = hold(make(), eager=False)
            self._kept.append(rows)
            return rows

        return self.share(name, held)

    def release(self) -> None:
        """Free all rows at once: Java's garbage collector may do it only hours later."""
        for rows in self._kept:
            release(rows)
        self._kept.clear()
        self._frames.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRun:
    """One table's part of a run.

    Attributes:
        spark: a session of the table's own, so that its settings touch no other table.
        pipeline, table: the declaration.
        now: time of the run; becomes ``_cdc_arrived_at``.
        report: what the table's steps did so far; steps add to it.
        run_id: id of the run, for the summaries of its commits.
        tell: called with a short text when a step begins, for people who wait.
        progress: called with a short text on how far a long step is, now and then.
        wait_for: returns when the run has done what it does for another table, if it comes before this one.
        policy: thresholds.
        heads: newest snapshots of tables by path; :meth:`head` and :meth:`transaction` keep it.
        cache: DataFrames that the table's marts share; who does the table's steps releases it after the last one.
        files: those of its tables by snapshot, None where only Spark can read them;
            :mod:`frazil.runner.batch.driver_lookup` keeps it.
        own_settings: those of the session that stand aside while it works on a small batch; else empty.
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
    files: dict[int, TableFiles | None] = field(default_factory=dict)
    own_settings: dict[str, str] = field(default_factory=dict)

    def work_small(self) -> None:
        """Set what small batches are fast with, until :meth:`work_large`."""
        for name, value in SMALL_RUN.items():
            self.own_settings[name] = self.spark.conf.get(name) or ""
            self.spark.conf.set(name, value)

    def work_large(self) -> None:
        """Set the session's own settings again."""
        for name, value in tuple(self.own_settings.items()):
            self.spark.conf.set(name, value)
        self.own_settings.clear()

    def read_whole(self, path: tuple[str, ...]) -> None:
        """Set the session's own settings before a whole table is read that is larger than a small run.

        A small batch can ask for that: one late change can make silver again, and many changes of few keys a mart.
        """
        if int(self.head(path).summary.get("total-files-size", 0)) > self.policy.small_run_bytes:
            self.work_large()

    def head(self, path: tuple[str, ...], *, rebuilt: bool = False) -> TableSnapshot:
        """Return a table's newest snapshot for this run: the one that was planned on, or that the run has left.

        Never read again: a batch that begins where the plan did is refused if another run published since.
        """
        if path not in self.heads:
            found = head(self.spark, quote(*path), rebuilt=True)
            if not rebuilt:
                verify_bookmark(".".join(path[1:]), found, table=self.table.name, is_bronze=path == self.bronze)
            self.heads[path] = found
        return self.heads[path]

    @contextmanager
    def transaction(self, path: tuple[str, ...], bookmark: Mapping[str, Any]) -> Iterator[TableTransaction]:
        """Open a transaction on a table at its snapshot, and keep the snapshot that it publishes."""
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
        """The tables that are made of the source table."""
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
        """Paths of all tables that are made of the source table."""
        return tuple(made.path for made in (self.tables.bronze, *self.tables.computed))

    def bookmark(self, role: Role, batch: int, **more: object) -> dict[str, object]:
        """Return the bookmark of a commit to one of this table's tables: whose it is, and which batch it is at."""
        return {"pipeline": self.pipeline.pipeline, "table": self.table.name, "role": role, "batch": batch, **more}
