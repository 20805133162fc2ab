"""What every step of a run works with."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from frazil.lake.commit import TableTransaction
from frazil.lake.gateway import release
from frazil.lake.heads import head
from frazil.spec import CATALOG, Current
from frazil.spec.names import quote

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from frazil.engine.driver_batch import DriverBatch
    from frazil.engine.report import TableReport
    from frazil.lake.heads import Head
    from frazil.plan.identity import Role
    from frazil.spec import History, Pipeline, Table


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
    """

    spark: SparkSession
    pipeline: Pipeline
    table: Table
    now: dt.datetime
    report: TableReport
    run_id: str = ""
    tell: Callable[[str], None] = field(default=lambda _: None)
    progress: Callable[[str], None] = field(default=lambda _: None)
    heads: dict[tuple[str, ...], Head] = field(default_factory=dict)
    """Where tables stand, by path; :meth:`head` and :meth:`transaction` keep it."""
    kept: dict[object, DataFrame] = field(default_factory=dict)
    """Rows that several steps read; :meth:`forget` lets them go.

    After a small batch was taken, ``("records", batch)`` are its rows of bronze.
    """
    here: dict[tuple[int, int], DriverBatch] = field(default_factory=dict)
    """Of a small batch that was just refined, by its span, its rows of silver, as ``change_columns`` has them."""
    measured: dict[tuple[int, int], Mapping[str, Any]] = field(default_factory=dict)
    """What silver saw of the batches it has just written, by their span: see :mod:`frazil.engine.batch_stats`.

    Of a first load and of a rebuild only ``ends``.
    """
    checkpoints: list[DataFrame] = field(default_factory=list)
    """Those of them that are computed once and held in memory."""
    locks: dict[object, Lock] = field(default_factory=dict)
    """One for each of them: marts ask for the same rows at the same time."""

    def head(self, path: tuple[str, ...], *, rebuilt: bool = False) -> Head:
        """Tell where a table stands for this run: as it was when the run was planned, or as the run left it.

        Never read again: a batch that begins where the plan did is refused if another run published since.
        """
        if path not in self.heads:
            self.heads[path] = head(self.spark, quote(*path), rebuilt=rebuilt)
        return self.heads[path]

    @contextmanager
    def transaction(self, path: tuple[str, ...], bookmark: Mapping[str, Any]) -> Iterator[TableTransaction]:
        """Open a batch of writes to a table from where it stands, and keep where it stands afterwards."""
        with TableTransaction(self.spark, path, self.head(path), bookmark, run_id=self.run_id) as batch:
            yield batch
            if batch.published is not None:
                self.heads[path] = batch.published
                if batch.published.snapshot_id is not None:
                    self.report.commits[".".join(path[1:])] = batch.published.snapshot_id

    def keep(self, what: object, rows: Callable[[], DataFrame], *, in_memory: bool = False) -> DataFrame:
        """Give rows that are computed once, however often they are read; ``what`` names them.

        Those that are ``in_memory`` need not be.
        """
        with self.locks.setdefault(what, Lock()):
            if what not in self.kept:
                self.kept[what] = rows() if in_memory else rows().localCheckpoint(eager=False)
                if not in_memory:
                    self.checkpoints.append(self.kept[what])
            return self.kept[what]

    def forget(self) -> None:
        """Let go of all that was kept, at once: Java's collector may come to it only hours later."""
        for rows in self.checkpoints:
            release(rows)
        self.checkpoints.clear()
        self.kept.clear()
        self.here.clear()

    @property
    def bronze(self) -> tuple[str, ...]:
        """Path of the bronze table."""
        return (CATALOG, self.pipeline.lake.namespaces.bronze, self.table.name)

    @property
    def changes(self) -> tuple[str, ...]:
        """Path of the silver table."""
        return (CATALOG, self.pipeline.lake.namespaces.silver, f"{self.table.name}_changes")

    @property
    def quarantine(self) -> tuple[str, ...]:
        """Path of the quarantine table."""
        return (CATALOG, self.pipeline.lake.namespaces.silver, f"{self.table.name}_quarantine")

    def mart_path(self, mart: Current | History) -> tuple[str, ...]:
        """Path of a mart."""
        return (CATALOG, self.pipeline.lake.namespaces.marts, self.table.mart_name(mart))

    def bookmark(self, role: Role, batch: int, **more: object) -> dict[str, object]:
        """Build the bookmark that a commit of one of this table's tables carries: whose it is, and where it stands."""
        return {"pipeline": self.pipeline.pipeline, "table": self.table.name, "role": role, "batch": batch, **more}
