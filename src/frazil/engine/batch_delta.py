"""What a batch means for a mart that has rows: which of them it replaces, and by what.

Keys with late or incomplete changes are recomputed from all their changes; all others from the batch and the rows
the mart has of them, which are looked for once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final, Self

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.engine.batch_stats import all_changes, new_changes
from frazil.marts import late
from frazil.marts.all_rows import all_rows
from frazil.marts.arrow_fold import DELETE_ONLY, IS_LIVE
from frazil.marts.current import hard, soft, states
from frazil.marts.fold import NEWEST, VALUES, fill, newest
from frazil.marts.fold_spec import EVENT_TIME, columns_of, same
from frazil.marts.history import BASE, versions
from frazil.marts.query import query
from frazil.silver.batches import other_batches
from frazil.spec import Current, History
from frazil.spec.names import quote

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from frazil.engine.batch_stats import BatchStats
    from frazil.engine.table_run import TableRun
    from frazil.marts.fold_spec import FoldSpec
    from frazil.steps import UpdateMart

FEW_CHANGES = 500_000
"""Batches of up to this many changes are folded in one task: what one task holds is not shuffled."""

_FILES_A_TASK: Final = 64
"""Silver's files up to which one task reads the deletes among them: about half, and so many small ones Iceberg
gives to a task by itself."""

_ROWS_ALONG: Final = 10_000_000
"""Rows of a current table up to which the first column of their order is read along with their places. Of more, one
more look at what is not older than the batch costs less, which is a few files of many."""

AT_FILE, AT_POS = "_cdc_at_file", "_cdc_at_pos"
"""Where a row of the mart stands: its file, and its number in it."""

RECOMPUTE, SUPERSEDED, LATE = "_cdc_recompute", "_cdc_superseded", "_cdc_late"
KEYS = "_cdc_keys"
FLAGS: Final = ("is_deleted", "deleted_at", r.POSITION, r.ROW)
COMPARED: Final = (LATE, RECOMPUTE, SUPERSEDED)
"""Verdicts on a folded key that come from what there is of it."""
VERDICT: Final = (*COMPARED, f"{NEWEST}.{r.CLASS} = '{r.UPSERT}' AS {IS_LIVE}", f"{VALUES} IS NULL AS {DELETE_ONLY}")
"""What there is to say of a folded key beside whether the mart has a row of it, as SQL."""
KINDS: Final = (RECOMPUTE, SUPERSEDED, IS_LIVE, DELETE_ONLY, late.IN_TARGET, late.LIVED)
"""Columns of which :meth:`Seen.of` is made, each true or false."""
_REPLACED: Final = f"({RECOMPUTE} OR ({late.IN_TARGET} AND NOT {SUPERSEDED}))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Increment:
    """What one mart has to take on.

    Attributes:
        context: the table's part of the run.
        step: which mart, and which batches.
        mart, spec: the mart and the table's parts.
        stats: how much the batch is.
        target: rows of the mart as they are, with event time and place. Read at ``main``: the branch will have lost
            rows by the time the new ones are computed.
        heads: those that may be the newest of one of the batch's keys, by what is known of the whole batch.
        touched: keys of the batch's changes.
        target_rows: what :func:`frazil.marts.late.target_rows` returns for the batch, with file and position.
        along: ``target_rows`` has the first column of their order too.
        compares: changes may be late.
        by_order: the order alone tells whether they are; history may ask for event times.
        kept: what :meth:`once` has of ``folded``.
    """

    context: TableRun
    step: UpdateMart
    mart: Current | History
    spec: FoldSpec
    stats: BatchStats
    target: DataFrame
    heads: DataFrame
    touched: DataFrame
    target_rows: DataFrame
    along: bool
    compares: bool
    by_order: bool
    kept: DataFrame | None = None

    @property
    def new(self) -> DataFrame:
        """The batch's changes, with event time."""
        new = new_changes(self.context, self.step, self.spec)
        return new.coalesce(1) if self.is_few else new

    @property
    def is_few(self) -> bool:
        """Whether the changes are so few that one task folds them."""
        return self.stats.changes <= FEW_CHANGES

    def in_memory(self) -> pa.Table:
        """Bring the batch's changes to the driver, as silver has them; what refined them may have left them there."""
        here = self.context.here.get((self.step.after, self.step.upto))
        if here is not None:
            return here.rows
        names = (*self.spec.columns, r.CLASS, r.POSITION, r.ROW, r.BATCH, r.KNOWN)
        return self.new.select(*map(quote, names)).toArrow()

    def fold(self) -> DataFrame:
        """Fold the batch: one row per key, with the verdicts that come from comparing each change with what there is.

        Cost: the fold, and where it compares a scan of those rows of the mart and deletes in silver that are not older
        than the batch, against broadcasts.
        """
        verdicts = self.verdicts(compared=self.compares)
        return newest(self.compared_changes() if self.compares else self.new, self.spec, *verdicts)

    def compared_changes(self) -> DataFrame:
        """Put beside every change of the batch how new what its key already has is."""
        held = self.target_rows if isinstance(self.mart, History) else self.newer(self.touched)
        name = "tombstones", self.by_order, self.step.upto
        dead = self.context.keep(name, self.tombstones) if len(self.context.table.marts) > 1 else self.tombstones()
        return late.with_prior_order(self.new, late.held_order(held, self.spec), dead, self.spec)

    def tombstones(self) -> DataFrame:
        """Give the newest delete of each of the batch's keys in earlier batches."""
        files = int(self.context.head(self.context.changes).summary.get("total-data-files", 0))
        earlier = other_batches(all_changes(self.context, self.spec), self.step.after, self.step.upto)
        deletes = earlier.where(f"{r.CLASS} = '{r.DELETE}' AND {self.order_predicate()}")
        return late.tombstones(deletes, self.touched, self.spec, in_one_task=files <= _FILES_A_TASK)

    def newer(self, keys: DataFrame) -> DataFrame:
        """Give the mart's rows of some keys that may make a change late, by what is known of the whole batch."""
        # History keeps what it has found; a current table is looked through again.
        among = self.target_rows if isinstance(self.mart, History) else self.heads.where(self.order_predicate())
        return late.filter_keys(among, keys, self.spec.keys)

    def order_predicate(self) -> str:
        """SQL condition that all rows fulfil that may make a change of the batch late; files are pruned by it."""
        if not (self.spec.sequence_by and self.by_order):
            return "true"
        if self.spec.types[self.spec.sequence_by[0]] in ("float", "double"):
            return "true"  # NaN is the greatest number here, but files are pruned as if it were none
        return f"{quote(self.spec.sequence_by[0])} >= {self.stats.oldest}"

    def verdicts(self, *, compared: bool) -> list[str]:
        """Aggregates that decide per key how its changes, compared if ``compared``, are applied; as SQL."""
        mart, spec = self.mart, self.spec
        is_late, incomplete = late.is_late(spec) if compared else "false", f"bool_or({late.is_incomplete(spec)})"
        recompute = f"bool_or({is_late}) OR {incomplete}"
        if isinstance(mart, History) and compared:
            recompute = f"bool_or({late.is_not_after(spec)} OR {is_late}) OR {incomplete}"
        elif isinstance(mart, Current) and mart.deletes == "hard" and not spec.fills:
            # A whole row needs no older one, so a late change simply drops out.
            recompute = "false"
        return [
            f"count_if({is_late}) AS {LATE}",
            f"{recompute} AS {RECOMPUTE}",
            f"bool_and({is_late}) AS {SUPERSEDED}",
        ]

    @property
    def folded(self) -> DataFrame:
        """What :meth:`fold` gives, with whether the mart has a row of each key, and where."""
        if self.kept is not None:
            return self.kept
        return late.match_target(self.fold(), self.target_rows, self.spec, AT_FILE, AT_POS)

    def once(self) -> Self:
        """The same, with ``folded`` computed once, however often it is read."""
        return replace(self, kept=self.context.keep((self.step.mart, "folded"), lambda: self.folded))

    def rows(self, seen: Seen) -> DataFrame:
        """Rows that the batch brings, of all keys whose rows it replaces and of new ones."""
        return _new_versions(self, seen) if isinstance(self.mart, History) else _new_states(self, seen)

    def keys(self) -> DataFrame:
        """Keys of which rows are replaced: with ``_cdc_recompute``, which tells that all rows of the key are."""
        return self.folded.where(_REPLACED).selectExpr(*map(quote, self.spec.keys), RECOMPUTE)

    def replaced(self) -> str:
        """SQL condition, between a row ``t`` of the mart and a row ``k`` of :meth:`keys` with equal keys."""
        return f"(k.{RECOMPUTE} OR t.is_current)" if isinstance(self.mart, History) else "true"

    def seen(self) -> Seen:
        """Count the verdicts."""
        kinds = self.folded.selectExpr(*VERDICT, late.IN_TARGET, late.LIVED).groupBy(*KINDS)
        return Seen.of(kinds.agg(F.expr(f"count(*) AS {KEYS}"), F.expr(f"sum({LATE}) AS {LATE}")).toArrow())


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """How many keys of a batch there are of each verdict; ``late`` counts changes.

    Attributes:
        late, inserted, updated, deleted: as :class:`frazil.engine.report.MartReport` defines them.
        recompute: keys recomputed from all their changes.
        replaced: keys of which the mart loses rows.
        deletes_without_values: keys that go, by a change that came without the row's values.
    """

    late: int
    recompute: int
    replaced: int
    inserted: int
    updated: int
    deleted: int
    deletes_without_values: int

    @classmethod
    def of(cls, kinds: pa.Table) -> Self:
        """Count from numbers of keys of each kind: ``KINDS``, ``_cdc_keys``, and ``_cdc_late``, their late changes."""
        of: Counter[str] = Counter()
        for kind in kinds.to_pylist():
            keys, recompute, superseded = kind[KEYS], kind[RECOMPUTE], kind[SUPERSEDED]
            is_there, lived = kind[late.IN_TARGET], kind[late.LIVED]
            lives = lived if superseded else kind[IS_LIVE]  # late changes do not decide whether a key lives
            of["late"] += kind[LATE]
            of["recompute"] += keys * recompute
            of["replaced"] += keys * (recompute or (is_there and not superseded))
            of["inserted"] += keys * (lives and not lived)
            of["updated"] += keys * (lives and lived and not superseded)
            of["deleted"] += keys * (lived and not lives)
            of["deletes_without_values"] += keys * (
                not kind[IS_LIVE] and kind[DELETE_ONLY] and is_there and not recompute
            )
        return cls(**{field.name: of[field.name] for field in fields(cls)})


def increment(
    context: TableRun,
    step: UpdateMart,
    *,
    mart: Current | History,
    spec: FoldSpec,
    target: DataFrame,
    stats: BatchStats,
    rows: int,
) -> Increment:
    """Fold one batch of changes, and judge every key of it.

    Args:
        context: the table's part of the run.
        step: what to do.
        mart: the mart.
        spec: the table's parts.
        target: rows of the mart, with event time and place.
        stats: how much the batch is.
        rows: how many rows the mart has, about.

    Cost: nothing yet; once it is read, one scan of the mart for the batch's keys, one fold, and where changes may be
    late a look at those tombstones, and rows of a current table, that are not older than the batch.
    """
    is_history = isinstance(mart, History)
    # Where each change is newer than all before, none is late. History asks for event times, which may differ.
    by_order = spec.times_follow_order or not is_history
    compares = not (stats.all_newer and by_order)
    along = is_history or rows <= _ROWS_ALONG
    also = [AT_FILE, AT_POS]
    if is_history:  # the rows themselves are needed again
        also += [quote(name) for name in spec.columns if name not in spec.keys]
        also += ["valid_from", "is_deleted", r.POSITION, r.ROW, EVENT_TIME]
    elif compares and along:
        also += [quote(name) for name in spec.order_columns[:1] if name not in spec.keys]
    here = context.here.get((step.after, step.upto))
    if here is None:
        touched = new_changes(context, step, spec).select(*map(quote, spec.keys))
        touched = touched.coalesce(1) if stats.changes <= FEW_CHANGES else touched
    else:
        touched = here.frame(context.spark, spec.keys)
    heads = target.where(f"is_current AND {stats.key_predicate}" if is_history else stats.key_predicate)
    lives = "NOT is_deleted" if is_history or mart.deletes == "soft" else "true"
    target_rows = late.target_rows(heads, touched, spec, *also, lives=lives)
    return Increment(
        context=context,
        step=step,
        mart=mart,
        spec=spec,
        stats=stats,
        target=target,
        heads=heads,
        touched=touched,
        target_rows=context.keep((step.mart, "target_rows", step.upto), lambda: target_rows)
        if is_history
        else target_rows,
        along=along,
        compares=compares,
        by_order=by_order,
    )


def _new_states(mine: Increment, seen: Seen) -> DataFrame:
    """Rows of the touched keys of a current table."""
    spec, is_soft = mine.spec, isinstance(mine.mart, Current) and mine.mart.deletes == "soft"
    fast = mine.folded.where(f"NOT {RECOMPUTE} AND NOT {SUPERSEDED}")
    rows = soft(fast, spec) if is_soft else hard(fast, spec)
    if is_soft and seen.deletes_without_values:
        dead = states(fast.where(f"{late.IN_TARGET} AND {VALUES} IS NULL"), spec, "soft")
        rows = rows.unionByName(last_known(mine, dead))
    if seen.recompute:
        rows = rows.unionByName(all_rows(mine.mart, _recomputed_changes(mine), spec))
    return rows


def last_known(mine: Increment, dead: DataFrame) -> DataFrame:
    """Rows of a soft table for keys whose delete came without values: the table has those, ``dead`` the flags."""
    spec = mine.spec
    return query(
        f"""
        SELECT /*+ BROADCAST(d) */ {columns_of(spec.columns, "t")}, {columns_of(FLAGS, "d")}
        FROM frazil_target AS t JOIN frazil_dead AS d ON {same(spec.keys, "t", "d")}""",
        frazil_target=mine.target,
        frazil_dead=dead,
    )


def _new_versions(mine: Increment, seen: Seen) -> DataFrame:
    """Versions of all touched keys: the open one and what follows, or all of them for keys that are recomputed."""
    spec, new, target_rows = mine.spec, mine.new, mine.target_rows
    if seen.recompute:
        recompute = mine.folded.where(RECOMPUTE)
        new, target_rows = (late.filter_keys(rows, recompute, spec.keys, among=False) for rows in (new, target_rows))
    held = target_rows.selectExpr(
        *map(quote, spec.columns),
        f"CASE WHEN is_deleted THEN '{r.DELETE}' ELSE '{r.UPSERT}' END AS {r.CLASS}",
        r.POSITION,
        r.ROW,
        f"valid_from AS {EVENT_TIME}",
        f"true AS {BASE}",
    )
    change = [*map(quote, spec.columns), r.CLASS, r.POSITION, r.ROW, EVENT_TIME, f"false AS {BASE}"]
    rows = new.selectExpr(*change).union(held)
    if seen.recompute:
        changes = _recomputed_changes(mine)
        whole = fill(changes, spec) if spec.fills else changes
        rows = rows.union(whole.selectExpr(*change))
    elif mine.is_few:
        rows = rows.coalesce(1)
    deletes = mine.mart.deletes if isinstance(mine.mart, History) else "close"
    return versions(rows, spec, "mark" if deletes == "mark" else "close")


def _recomputed_changes(mine: Increment) -> DataFrame:
    return late.filter_keys(all_changes(mine.context, mine.spec), mine.folded.where(RECOMPUTE), mine.spec.keys)
