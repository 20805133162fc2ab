"""Compute the delta of one mart with Spark.

Keys with late changes are recomputed from all their changes, other keys from the batch and their mart rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.marts import late
from frazil.marts.all_rows import all_rows
from frazil.marts.bitemporal import known_versions
from frazil.marts.fold import NEWEST, VALUES, hard_rows, last_known, newest, soft_rows, states
from frazil.marts.history import next_versions
from frazil.marts.late import DELETE_ONLY, IS_LIVE, KINDS, LATE, RECOMPUTE, REPLACED, SUPERSEDED, verdict_sql
from frazil.older_spark import to_arrow
from frazil.runner.apply.mart_batch import DeltaCounts, KeyDelta
from frazil.spec import Current, History
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.runner.apply.mart_batch import MartBatch

_KEYS: Final = "_cdc_keys"


def spark_delta(batch: MartBatch) -> KeyDelta:
    """Return the changes of a batch to a mart.

    Cost: one fold and one scan of the mart. If changes may be late, also a scan of the rows of the mart and the deletes
    in silver that are not older than the batch. Collecting the counts is one job.
    """
    folded = batch.changes.cache.keep((batch.target.name, "folded"), lambda: _folded(batch))
    counts = _counts(folded)
    rows = _new_versions(batch, folded, counts) if isinstance(batch.mart, History) else _states(batch, folded, counts)
    keys = folded.where(REPLACED).selectExpr(*map(quote, batch.spec.keys), RECOMPUTE)
    return KeyDelta(counts=counts, rows=rows, keys=keys)


def _folded(batch: MartBatch) -> DataFrame:
    """Fold the batch: one row per key, with its verdicts, and whether the mart has a row of it."""
    changes = batch.with_prior_order(batch.filled) if batch.compares else batch.filled
    verdicts = verdict_sql(batch.mart, batch.spec, compares=batch.compares, newest_time=batch.stats.before.time)
    folded = newest(changes, batch.spec, *verdicts)
    return late.match_target(folded, batch.target_rows, batch.spec)


def _counts(folded: DataFrame) -> DeltaCounts:
    is_live, delete_only = f"{NEWEST}.{r.CLASS} = '{r.UPSERT}' AS {IS_LIVE}", f"{VALUES} IS NULL AS {DELETE_ONLY}"
    verdicts = folded.selectExpr(LATE, RECOMPUTE, SUPERSEDED, is_live, delete_only, late.IN_TARGET, late.LIVED)
    kinds = verdicts.groupBy(*KINDS).agg(F.expr(f"count(*) AS {_KEYS}"), F.expr(f"sum({LATE}) AS {LATE}"))
    return DeltaCounts.of(to_arrow(kinds), _KEYS)


def _states(batch: MartBatch, folded: DataFrame, counts: DeltaCounts) -> DataFrame:
    """Rows of the batch's keys in a current table."""
    spec, is_soft = batch.spec, isinstance(batch.mart, Current) and batch.mart.deletes == "soft"
    fast = folded.where(f"NOT {RECOMPUTE} AND NOT {SUPERSEDED}")
    rows = soft_rows(fast, spec) if is_soft else hard_rows(fast, spec)
    if is_soft and counts.deletes_without_values:
        dead = states(fast.where(f"{late.IN_TARGET} AND {VALUES} IS NULL"), spec, "soft")
        rows = rows.unionByName(last_known(batch.target.table, dead, spec))
    if counts.recompute:
        rows = rows.unionByName(all_rows(batch.mart, _recomputed(batch, folded), spec))
    return rows


def _new_versions(batch: MartBatch, folded: DataFrame, counts: DeltaCounts) -> DataFrame:
    """Versions of the batch's keys: the open one and later ones, or all versions of recomputed keys."""
    spec, deletes = batch.spec, batch.mart.deletes if isinstance(batch.mart, History) else "close"
    if isinstance(batch.mart, History) and batch.mart.bitemporal:
        held, changes = late.filter_keys(batch.target.table, folded, spec.keys), batch.changes
        every = _recomputed(batch, folded).where(f"{r.BATCH} <= {int(changes.upto)}")
        return known_versions(every, changes.known_times(), spec, deletes, held=held, after=changes.after)
    if not counts.recompute:
        return next_versions(batch.filled, batch.target_rows, spec, deletes, in_one_task=batch.in_one_task)
    recompute = folded.where(RECOMPUTE)
    new, rows = (
        late.filter_keys(some, recompute, spec.keys, among=False) for some in (batch.filled, batch.target_rows)
    )
    return next_versions(new, rows, spec, deletes, whole=_recomputed(batch, folded))


def _recomputed(batch: MartBatch, folded: DataFrame) -> DataFrame:
    """All changes of the recomputed keys."""
    return late.filter_keys(batch.changes.all(batch.spec), folded.where(RECOMPUTE), batch.spec.keys)
