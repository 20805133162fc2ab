"""Bring one mart up to date with silver, in one transaction."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from frazil.failpoints import failpoint
from frazil.lake.commit import takes_row_deltas
from frazil.lake.row_lookup import AT_FILE, AT_POS
from frazil.lake.tables import ensure, replace_table, table_fits
from frazil.marts.late import replaced_sql
from frazil.marts.layout import columns_of, fold_spec, mart_layout, same, with_event_time
from frazil.marts.query import query_frames
from frazil.plan.layout import mart_table_layout
from frazil.plan.policy import MartStats, choose_strategy, spark_strategy
from frazil.runner.apply.arrow import arrow_delta
from frazil.runner.apply.left_rows import (
    count_late,
    count_whole,
    left_by_delta,
    left_in_memory,
    left_on_branch,
    left_whole,
    whole_rows,
)
from frazil.runner.apply.mart_batch import BatchChanges, MartBatch, MartTarget, PositionDelta
from frazil.runner.apply.spark import spark_delta
from frazil.runner.batch.batch_stats import Newest, batch_stats, measure, measure_newest
from frazil.runner.batch.driver_batch import find_changes, find_deletes, find_in_mart
from frazil.runner.compact import compact_mart
from frazil.runner.report import MartReport
from frazil.runner.steps.alter import keep_live_view, note_layout
from frazil.runner.table_run import declared_bookmark
from frazil.silver.changes import rows_of_batches
from frazil.silver.contract import declared_mart, settings
from frazil.spec import Current, History
from frazil.spec.sql.names import quote
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.lake.commit import TableTransaction
    from frazil.marts.layout import FoldSpec
    from frazil.plan.layout import TableLayout
    from frazil.plan.policy import Strategy
    from frazil.runner.apply.mart_batch import DeltaCounts, KeyDelta, MartDelta
    from frazil.runner.batch.batch_stats import BatchStats, Normalized
    from frazil.runner.limits.rules import TableRules
    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.steps import UpdateMart


@dataclass(frozen=True, slots=True, kw_only=True)
class _Update:
    """One mart and the batch to apply.

    Attributes:
        mart, spec: the mart, and key, order and value columns of the table.
        layout: layout of its table.
        base: its newest snapshot.
        changes: the batch.
        stats: statistics of the batch; None if the mart is computed from all changes.
        rules: rules over whole marts.
    """

    mart: Current | History
    spec: FoldSpec
    layout: TableLayout
    base: TableSnapshot
    changes: BatchChanges
    stats: BatchStats | None
    rules: TableRules

    @property
    def name(self) -> str:
        """Quoted name of the table."""
        return quote(*self.layout.path)

    @property
    def rows(self) -> int:
        """Number of its rows."""
        return int(self.base.summary.get("total-records", 0))


def update_mart(
    context: TableRun, step: UpdateMart, contract: Contract, rules: TableRules, normalized: Normalized | None = None
) -> MartReport:
    """Apply the changes after the mart's bookmark.

    Args:
        context: the table's part of the run.
        step: the mart and the batches.
        contract: the table's contract.
        rules: rules over whole marts.
        normalized: result of the step before, if this run has written silver.

    Returns:
        The report of the mart.

    Raises:
        RuleBrokenError: the batch breaks a rule that stops the run; it is not visible in the mart.
    """
    began = time.monotonic()
    context.tell(f"apply to {step.mart}")
    mart = context.mart(step.mart)
    layout = mart_table_layout(context.mart_table(mart), contract)
    base = context.head(layout.path, rebuilt=step.rebuild)
    replaces_table = (step.rebuild or base.snapshot_id is None) and not _fits(context, layout, base)
    if not replaces_table:
        ensure(context.spark, layout)
        # Before the rows are written, so that a run killed after the commit has no remaining work.
        keep_live_view(context.spark, layout.path, mart)
    silver = context.head(context.changes).bookmark
    spec = fold_spec(
        contract,
        mart,
        since=silver.get("since", {}),
        partial=bool(silver.get("partial")),
        snapshot_places=context.table.source.snapshot_places,
    )
    if normalized is not None and (normalized.after, normalized.upto) != (step.after, step.upto):
        normalized = None
    changes = _changes(context, step, normalized)
    stats = None
    if not step.rebuild and step.after > 0:
        measures = (normalized and normalized.measures) or measure(changes.new(spec), contract)
        stats = batch_stats(measures, contract, before=Newest.in_bookmark(base.bookmark))
    update = _Update(mart=mart, spec=spec, layout=layout, base=base, changes=changes, stats=stats, rules=rules)
    bookmark = context.bookmark(
        "mart",
        step.upto,
        **declared_bookmark(context, base.bookmark, declared_mart(context.table, mart)),
        settings=settings(context.table, mart),
        layout=mart_layout(mart),
        **(_newest(context, step, contract, normalized) if stats is None else stats.newest).as_bookmark(),
        made_by=context.run_id if stats is None else base.bookmark.get("made_by", ""),
        silver_made_by=silver.get("made_by", ""),
    )
    report = MartReport(mart=step.mart, batch=step.upto)
    failpoint("mart.before_write")
    published = (_replace_table if replaces_table else _write)(context, update, bookmark, report)
    report.rows = int(published.summary.get("added-records", 0))
    if not replaces_table:
        report.compacted = compact_mart(context, layout.path, published, after=step.after, upto=step.upto)
    report.seconds = time.monotonic() - began
    return report


def _fits(context: TableRun, layout: TableLayout, base: TableSnapshot) -> bool:
    """Return whether a mart's table fits the declaration, as it is or with columns added or widened."""
    before = base.bookmark.get("layout", {}).get("partition_by", [*layout.partition_by])
    return bool(before == [*layout.partition_by]) and table_fits(context.spark, layout)


def _changes(context: TableRun, step: UpdateMart, normalized: Normalized | None) -> BatchChanges:
    return BatchChanges(
        spark=context.spark,
        silver=quote(*context.changes),
        bronze=quote(*context.bronze),
        files=int(context.head(context.changes).summary.get("total-data-files", 0)),
        after=step.after,
        upto=step.upto,
        driver_batch=None if normalized is None else normalized.driver_batch,
        find_deletes=partial(find_deletes, context),
        find_all=partial(find_changes, context),
        cache=context.cache,
        is_shared=len(context.table.marts) > 1,
    )


def _newest(context: TableRun, step: UpdateMart, contract: Contract, normalized: Normalized | None) -> Newest:
    """Return the newest order and time of all changes."""
    if normalized is not None:
        return normalized.newest
    silver = context.spark.table(quote(*context.changes))
    return measure_newest(rows_of_batches(silver, 0, step.upto), contract)


def _replace_table(
    context: TableRun, update: _Update, bookmark: dict[str, object], report: MartReport
) -> TableSnapshot:
    """Replace a mart's table and rows in one commit, because its columns or partitions differ from the declaration."""
    spark, base, path = context.spark, update.base, update.layout.path
    rows = whole_rows(update.mart, update.changes, update.spec, context.policy)
    update.rules.judge(report.mart, lambda: left_whole(rows, update.spec, None, None))
    failpoint("mart.before_publish")
    has_view = isinstance(update.mart, Current) and update.mart.live_view is not None
    # The view needs the new columns, so it is created last; until then the bookmark records that it is missing.
    begun = bookmark | {"layout": mart_layout(update.mart) | {"live_view": None}} if has_view else bookmark
    published = replace_table(spark, update.layout, base, begun, rows, run_id=context.run_id)
    context.heads[path] = published
    failpoint("mart.after_publish")
    if has_view:
        keep_live_view(spark, update.layout.path, update.mart)
        note_layout(context, update.mart)
    before = None
    if base.snapshot_id is not None:
        before = spark.sql(f"SELECT * FROM {update.name} VERSION AS OF {base.snapshot_id}")
    counts = count_whole(before, spark.table(update.name), update.spec)
    report.inserted, report.updated, report.deleted = counts.inserted, counts.updated, counts.deleted
    report.strategy = "load" if base.snapshot_id is None else "recompute"
    return published


def _write(context: TableRun, update: _Update, bookmark: dict[str, object], report: MartReport) -> TableSnapshot:
    """Apply the batch in one transaction, with the strategy for its size."""
    strategy = _strategy(context, update)
    with context.transaction(update.layout.path, bookmark) as transaction:
        if update.stats is None or strategy in ("load", "recompute"):
            _write_whole(context, update, transaction, strategy, report)
        else:
            target = MartTarget(
                name=report.mart,
                mart=update.mart,
                spec=update.spec,
                read=lambda: with_event_time(
                    context.spark.table(update.name), update.spec, f"_file AS {AT_FILE}", f"_pos AS {AT_POS}"
                ),
                rows=update.rows,
                find=partial(find_in_mart, context, update.layout.path),
            )
            batch = MartBatch(target=target, changes=update.changes, stats=update.stats, policy=context.policy)
            strategy, counts = apply_batch(batch, transaction, strategy, partial(_judge_delta, update, batch))
            report.by_spark = [*dict.fromkeys(batch.by_spark)]
            report.inserted, report.updated, report.deleted = counts.inserted, counts.updated, counts.deleted
            report.late = counts.late
            if strategy != "row_delta":
                before, appends = context.spark.table(update.name), strategy == "delete_append"
                update.rules.judge(
                    report.mart,
                    lambda: left_on_branch(transaction, update.spec, before, counts, is_appended=appends),
                )
        report.strategy = strategy
        failpoint("mart.before_publish")
        published = transaction.publish()
    failpoint("mart.after_publish")
    return published


def _judge_delta(update: _Update, batch: MartBatch, delta: PositionDelta) -> None:
    columns = update.rules.columns
    needed = update.rules.judge(
        batch.target.name,
        lambda: left_by_delta(batch, delta, columns),
        in_memory=lambda: left_in_memory(batch, delta, columns),
    )
    batch.by_spark.extend([needed.reason] if needed is not None else ())


def _strategy(context: TableRun, update: _Update) -> Strategy:
    stats, base = update.stats, update.base
    is_bitemporal = isinstance(update.mart, History) and update.mart.bitemporal  # its keys are all recomputed
    mart = MartStats(
        rows=update.rows,
        dead=base.position_deletes,
        size_bytes=int(base.summary.get("total-files-size", 0)),
        is_new=base.snapshot_id is None,
        takes_row_deltas=stats is not None
        and not is_bitemporal
        and takes_row_deltas(context.spark, update.name, deletes=True),
    )
    changes, size_bytes = (None, 0) if stats is None else (stats.changes, stats.size_bytes)
    return choose_strategy(changes, size_bytes, mart, context.policy)


def _write_whole(
    context: TableRun, update: _Update, transaction: TableTransaction, strategy: Strategy, report: MartReport
) -> None:
    """Write all rows and count the changes to the mart, before the commit is published.

    Changes after the mart's bookmark are late unless they are newer than all earlier ones.
    """
    context.read_whole(context.changes)
    rows, base = whole_rows(update.mart, update.changes, update.spec, context.policy), update.base
    transaction.note(strategy=strategy)
    before: DataFrame | None = None
    if base.snapshot_id is None:
        transaction.append(rows)
    else:
        transaction.replace(rows)
        before = context.spark.table(transaction.table)
    counts = count_whole(before, context.spark.table(transaction.branch), update.spec)
    report.inserted, report.updated, report.deleted = counts.inserted, counts.updated, counts.deleted
    by_batch = (None, None) if update.stats is None else (before, counts)
    update.rules.judge(report.mart, lambda: left_whole(transaction.written(), update.spec, *by_batch))
    all_newer = update.stats is not None and update.stats.all_newer
    if before is not None and base.batch < report.batch and not all_newer:
        report.late = count_late(update.changes, update.spec, after=base.batch)


def apply_batch(
    batch: MartBatch, transaction: TableTransaction, strategy: Strategy, judge: Callable[[PositionDelta], None]
) -> tuple[Strategy, DeltaCounts]:
    """Write the changes of a batch to a mart; return the actual strategy and the counts.

    If Arrow cannot compute a row delta, Spark's strategy for this batch size is used. An overwrite that replaces no
    rows becomes ``delete_append``. A ``delete_append`` becomes an overwrite if the table does not accept row deletes.

    Args:
        batch: the batch and the mart.
        transaction: an open transaction on the mart's table.
        strategy: ``row_delta``, ``delete_append`` or ``overwrite``.
        judge: called with a row delta before it is written; an exception stops the batch.
    """
    delta: MartDelta | NeedsSpark = arrow_delta(batch) if strategy == "row_delta" else spark_delta(batch)
    if isinstance(delta, NeedsSpark):
        batch.by_spark.append(delta.reason)
        strategy = spark_strategy(batch.stats.changes, batch.target.rows, batch.policy)
        delta = spark_delta(batch)
    counts = delta.counts
    if isinstance(delta, PositionDelta):
        judge(delta)
        failpoint("mart.before_rows")
        _note(transaction, "row_delta", batch, counts)
        transaction.row_delta(delta.rows, delta.positions)
        return "row_delta", counts
    if counts.replaced and (strategy == "overwrite" or not transaction.takes_deletes):
        failpoint("mart.before_rows")
        _note(transaction, "overwrite", batch, counts)
        transaction.replace(kept_rows(batch, delta).unionByName(delta.rows))
        return "overwrite", counts
    if counts.replaced:
        # Another mart of the same session may be updated at the same time.
        view = f"frazil_keys_{batch.target.name}"
        delta.keys.createOrReplaceTempView(quote(view))
        transaction.delete(_condition(batch, counts, view))
    failpoint("mart.before_rows")
    _note(transaction, "delete_append", batch, counts)
    transaction.append(delta.rows)
    return "delete_append", counts


def _note(transaction: TableTransaction, strategy: Strategy, batch: MartBatch, counts: DeltaCounts) -> None:
    transaction.note_spark(batch.by_spark)
    transaction.note(
        strategy=strategy,
        inserted=counts.inserted,
        updated=counts.updated,
        deleted=counts.deleted,
        late=counts.late,
    )


def kept_rows(batch: MartBatch, delta: KeyDelta) -> DataFrame:
    """Return the rows of the mart that the batch does not replace."""
    return query_frames(
        f"""
        SELECT /*+ BROADCAST(k) */ {columns_of(delta.rows.columns, "t")} FROM frazil_target AS t
        LEFT ANTI JOIN frazil_keys AS k ON {same(batch.spec.keys, "t", "k")} AND {replaced_sql(batch.mart)}""",
        frazil_target=batch.target.table,
        frazil_keys=delta.keys,
    )


def _condition(batch: MartBatch, counts: DeltaCounts, view: str) -> str:
    """Return an SQL condition for the mart's rows ``t`` that the batch replaces; a view has the keys."""
    among = (
        f"EXISTS (SELECT /*+ BROADCAST(k) */ 1 FROM {quote(view)} AS k "
        f"WHERE {same(batch.spec.keys, 't', 'k')} AND {replaced_sql(batch.mart)})"
    )
    # The open versions are a separate partition, so only that is read.
    return f"t.is_current AND {among}" if isinstance(batch.mart, History) and not counts.recompute else among
