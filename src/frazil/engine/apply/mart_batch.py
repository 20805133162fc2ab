"""One batch and the mart that it is applied to: what a backend takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.marts import late
from frazil.marts.fold import fill_from
from frazil.marts.fold_spec import EVENT_TIME
from frazil.spec import History
from frazil.spec.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.engine.apply.changes import BatchChanges
    from frazil.engine.batch_stats import BatchStats
    from frazil.marts.fold_spec import FoldSpec
    from frazil.plan.policy import Policy
    from frazil.spec import Current

AT_FILE: Final = "_cdc_at_file"
AT_POS: Final = "_cdc_at_pos"
"""Where a row of the mart is: its file, and its number in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MartTarget:
    """A mart that has rows.

    Attributes:
        name: of the mart.
        mart, spec: the mart and the table's parts.
        table: its rows as they are, with event time, ``_cdc_at_file`` and ``_cdc_at_pos``. Read at ``main``: the branch
            will have lost rows by the time the new ones are computed.
        rows: how many they are, about.
    """

    name: str
    mart: Current | History
    spec: FoldSpec
    table: DataFrame
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MartBatch:
    """One batch and the mart that it is applied to.

    Attributes:
        target: the mart.
        changes: the batch's changes, among all of the table.
        stats: statistics of the batch.
        policy: thresholds.
        newest_rows: those that may be the newest of one of the batch's keys, by the bounds of the batch.
        keys: keys of the batch's changes, with repeats.
        target_rows: :func:`frazil.marts.late.target_rows` of the batch, with file and position; where changes may lack
            columns, with all of them.
        living_rows: those of ``newest_rows`` that are not deleted: the values in force before the batch.
        has_order: ``target_rows`` has the first order column too.
        compares: changes may be late.
        by_order: the order alone decides whether they are; history may depend on event times.
    """

    target: MartTarget
    changes: BatchChanges
    stats: BatchStats
    policy: Policy
    newest_rows: DataFrame
    keys: DataFrame
    target_rows: DataFrame
    living_rows: DataFrame
    has_order: bool
    compares: bool
    by_order: bool

    @property
    def mart(self) -> Current | History:
        """The mart's declaration."""
        return self.target.mart

    @property
    def spec(self) -> FoldSpec:
        """The table's parts."""
        return self.target.spec

    @property
    def new(self) -> DataFrame:
        """The batch's changes, with event time."""
        new = self.changes.new(self.spec)
        return new.coalesce(1) if self.in_one_task else new

    @property
    def in_one_task(self) -> bool:
        """Whether one task folds the batch."""
        return self.stats.changes <= self.policy.single_task_changes

    @property
    def filled(self) -> DataFrame:
        """The batch's changes, each with every column; not of keys that must be recomputed.

        Cost: where some do not carry every column, a scan of the mart's rows of their keys.
        """
        if not self.spec.fills:
            return self.new
        name = (self.target.name, "filled")
        return self.changes.cache.keep(name, lambda: fill_from(self.new, self.living_rows, self.spec))

    def with_prior_order(self, changes: DataFrame) -> DataFrame:
        """Join each of some changes of the batch with the newest order already held for its key.

        Cost: a scan of those rows of the mart and deletes in silver that are not older than the batch.
        """
        held = self.target_rows if isinstance(self.mart, History) else self.newer_rows(self.keys)
        name, cache = ("tombstones", self.by_order, self.changes.upto), self.changes.cache
        dead = cache.keep(name, self.tombstones) if self.changes.is_shared else self.tombstones()
        return late.with_prior_order(changes, late.held_order(held, self.spec), dead, self.spec)

    def tombstones(self) -> DataFrame:
        """Return the newest delete of each of the batch's keys in earlier batches."""
        deletes = self.changes.earlier_deletes(self.spec, self._not_older())
        in_one_task = self.changes.files <= self.policy.single_task_files
        return late.tombstones(deletes, self.keys, self.spec, in_one_task=in_one_task)

    def newer_rows(self, keys: DataFrame) -> DataFrame:
        """Return the mart's rows of some keys that may make a change late, by the bounds of the batch."""
        # History has its rows already; a current table is scanned again.
        among = self.target_rows if isinstance(self.mart, History) else self.newest_rows.where(self._not_older())
        return late.filter_keys(among, keys, self.spec.keys)

    def _not_older(self) -> str:
        """SQL condition of all rows that may make a change of the batch late; it prunes files."""
        if not (self.spec.sequence_by and self.by_order):
            return "true"
        if self.spec.types[self.spec.sequence_by[0]] in ("float", "double"):
            return "true"  # NaN is the greatest number here, but files are pruned as if it were none
        return f"{quote(self.spec.sequence_by[0])} >= {self.stats.oldest}"


def mart_batch(target: MartTarget, changes: BatchChanges, stats: BatchStats, policy: Policy) -> MartBatch:
    """Look up the mart's rows of a batch.

    Args:
        target: the mart.
        changes: the batch's changes.
        stats: statistics of the batch.
        policy: thresholds.

    Cost: nothing yet; once it is read, one scan of the mart against a broadcast of the batch's keys.
    """
    mart, spec = target.mart, target.spec
    is_history = isinstance(mart, History)
    # Where each change is newer than all before, none is late. History asks for event times, which may differ.
    by_order = spec.times_follow_order or not is_history
    compares = not (stats.all_newer and by_order)
    has_order = is_history or target.rows <= policy.order_column_rows
    also = [AT_FILE, AT_POS]
    if is_history:  # the rows themselves are needed again
        also += [quote(column) for column in spec.columns if column not in spec.keys]
        also += ["valid_from", "is_deleted", r.POSITION, r.ROW, EVENT_TIME]
    else:  # what nobody asks for is not read
        wanted = spec.columns if spec.fills else ()
        wanted = (*wanted, *(spec.order_columns[:1] if compares and has_order else ()))
        also += [quote(column) for column in dict.fromkeys(wanted) if column not in spec.keys]
    keys = changes.new_keys(spec)
    if changes.driver_batch is None and stats.changes <= policy.single_task_changes:
        keys = keys.coalesce(1)
    newest_rows = target.table.where(f"is_current AND {stats.key_predicate}" if is_history else stats.key_predicate)
    lives = "NOT is_deleted" if is_history or mart.deletes == "soft" else "true"
    found = late.target_rows(newest_rows, keys, spec, *also, lives=lives)
    rows = changes.cache.keep((target.name, "target_rows"), lambda: found) if is_history else found
    return MartBatch(
        target=target,
        changes=changes,
        stats=stats,
        policy=policy,
        newest_rows=newest_rows,
        keys=keys,
        target_rows=rows,
        living_rows=rows.where(late.LIVED) if is_history else newest_rows.where(lives),
        has_order=has_order,
        compares=compares,
        by_order=by_order,
    )
