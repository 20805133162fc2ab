"""Write the delta of one mart in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.failpoints import failpoint
from frazil.marts.fold_spec import columns_of, same
from frazil.marts.late import replaced_sql
from frazil.marts.query import query_frames
from frazil.plan.policy import spark_strategy
from frazil.runner.apply.arrow import arrow_delta
from frazil.runner.apply.delta import PositionDelta
from frazil.runner.apply.spark import spark_delta
from frazil.spec import History
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from frazil.lake.commit import TableTransaction
    from frazil.plan.policy import Strategy
    from frazil.runner.apply.delta import DeltaCounts, KeyDelta
    from frazil.runner.apply.mart_batch import MartBatch


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
    delta: PositionDelta | KeyDelta | None = None
    if strategy == "row_delta":
        delta = arrow_delta(batch)
        strategy = spark_strategy(batch.stats.changes, batch.target.rows, batch.policy)
    if delta is None:
        delta = spark_delta(batch)
    counts = delta.counts
    if isinstance(delta, PositionDelta):
        judge(delta)
        failpoint("mart.before_rows")
        _note(transaction, "row_delta", counts)
        transaction.row_delta(delta.rows, delta.positions)
        return "row_delta", counts
    if counts.replaced and (strategy == "overwrite" or not transaction.takes_deletes):
        failpoint("mart.before_rows")
        _note(transaction, "overwrite", counts)
        transaction.replace(kept_rows(batch, delta).unionByName(delta.rows))
        return "overwrite", counts
    if counts.replaced:
        # Another mart of the same session may be updated at the same time.
        view = f"frazil_keys_{batch.target.name}"
        delta.keys.createOrReplaceTempView(quote(view))
        transaction.delete(_condition(batch, counts, view))
    failpoint("mart.before_rows")
    _note(transaction, "delete_append", counts)
    transaction.append(delta.rows)
    return "delete_append", counts


def _note(transaction: TableTransaction, strategy: Strategy, counts: DeltaCounts) -> None:
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
