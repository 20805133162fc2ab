"""Fold changes older than the horizon: silver keeps a baseline of them, and bronze drops their records.

Silver commits first. After a kill between the two commits, the next run finishes the fold before any other step: a
rebuild would otherwise treat the records that are still in bronze as late changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.failpoints import failpoint
from frazil.lake.tables import ensure
from frazil.marts.baseline import baseline_rows, served_of
from frazil.marts.layout import EVENT_TIME, fold_spec, with_event_time
from frazil.plan.layout import bronze_layout
from frazil.runner.batch.bronze_records import bronze_records
from frazil.runner.key_changes.moves import tells_old_keys
from frazil.runner.limits.batch_limits import place_sql
from frazil.runner.steps.truncates import known_truncates, truncate_bookmark
from frazil.silver.baseline import BASELINE, Baseline, baseline_of, is_before, is_before_sql
from frazil.silver.cast import exact
from frazil.silver.changes import PROBLEM, change_rows, good
from frazil.silver.evolution import renamed_bookmark, renamed_records
from frazil.silver.unsequenced import lacks_sequence
from frazil.sources.kinds import source_of
from frazil.spark.expressions import expressions_of
from frazil.spark.gateway import hold, release
from frazil.spec.sql.names import literal, quote
from frazil.steps import Normalize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.runner.steps.truncates import Truncate
    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.steps import FoldChanges

_PLACE = [r.FILE, r.ROW]


def baseline_changes(context: TableRun, contract: Contract) -> DataFrame | None:
    """Return the changes of the baseline; None without a baseline."""
    found = baseline_of(context.head(context.changes, rebuilt=True).bookmark)
    if found is None:
        return None
    return context.spark.table(quote(*context.changes)).where(is_before_sql(contract, found))


def with_baseline(context: TableRun, contract: Contract, rows: DataFrame, step: Normalize) -> DataFrame:
    """Return the good change rows; in a rebuild also the changes of the baseline, which bronze lacks.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        rows: change rows, good and bad ones.
        step: the batches.
    """
    changes = good(rows)
    held = baseline_changes(context, contract) if step.rebuild else None
    if held is None:
        return changes
    kinds = {field.name: field.dataType for field in changes.schema}
    kept = [F.col(quote(name)).cast(kinds[name]).alias(name) for name in held.columns if name in kinds]
    return changes.unionByName(held.select(*kept), allowMissingColumns=True)


def fold_changes(context: TableRun, contract: Contract, step: FoldChanges) -> None:
    """Fold the changes of a table that are older than the horizon; all its lake tables must be up to date.

    After a kill at any point the next run finishes the fold: see the module.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        step: the horizon.

    Cost: a rewrite of silver and of bronze, and a shuffle of the older changes by key. A fold runs once per tenth of
    the retention.
    """
    context.tell(f"fold changes before {step.before[:10]}")
    base = context.head(context.changes)
    found = baseline_of(base.bookmark)
    if found is None or found.reaches < step.before:
        if not _fold_silver(context, contract, base, step.before):
            return
        failpoint("fold.after_silver")
    _prune_bronze(context, contract)
    failpoint("fold.after_bronze")


def _fold_silver(context: TableRun, contract: Contract, base: TableSnapshot, before: str) -> bool:
    """Rewrite silver with a baseline instead of the older changes; return False if they cannot be folded yet."""
    silver = base.bookmark
    spec = fold_spec(contract, None, since=silver.get("since", {}), partial=bool(silver.get("partial")))
    changes = with_event_time(context.spark.table(quote(*context.changes)), spec)
    made, count = _baseline(context, contract, changes, before)
    truncates = [one for one in known_truncates(silver) if not _is_folded(one, contract, made)]
    if not made.by_place and made.position is not None:
        last = (made.position, made.row)
        if any(one.place < last for one in truncates):
            context.report.warnings.append(
                f"changes before {before[:10]} are not folded yet: a newer truncate precedes one of them in its source"
            )
            return False
    older = is_before_sql(contract, made)
    bookmark = {name: value for name, value in silver.items() if name != "truncates"}
    bookmark |= made.in_bookmark() | truncate_bookmark(truncates)
    with context.transaction(context.changes, bookmark) as batch:
        batch.note(strategy="fold", folded=count)
        rest = changes.where(f"NOT {older}").drop(EVENT_TIME)
        if count:
            moves = tells_old_keys(context.table, contract)
            # Deletes without a sequence stay, together with the rows they end.
            among = older if made.by_place else is_before(contract, made.before)
            kept = baseline_rows(changes.where(among), spec, made, moves=moves).where(older)
            batch.replace(rest.unionByName(kept))
        else:
            batch.append(rest.limit(0))
        failpoint("fold.before_publish")
        batch.publish()
    return True


def _baseline(context: TableRun, contract: Contract, changes: DataFrame, before: str) -> tuple[Baseline, int]:
    """Return the baseline of the changes before a time, and the number of these changes.

    If the source orders its changes, the baseline ends before the first change that is not older than the time.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        changes: all of silver, with event time.
        before: the time, as text in UTC.

    Cost: a job that counts; where the source orders its changes two more, over their places and times.
    """
    asked, by_place = before, not contract.sequence_by
    batch, served = context.head(context.changes).batch, served_of(context.table.marts, contract)
    if by_place:
        times = _times(context, contract, changes)
        is_newer = f"coalesce(time >= CAST({literal(asked)} AS timestamp), true)"
        [first] = times.where(is_newer).agg(F.min("place")).collect()[0]
        older = "true" if first is None else f"struct({r.POSITION}, {r.ROW}) < {place_sql(*first)}"
        if first is not None and served.tracked:
            least = F.date_format(F.min("time"), "yyyy-MM-dd HH:mm:ss.SSSSSS")
            [behind] = times.where(f"place >= {place_sql(*first)}").agg(least).collect()[0]
            before = min(asked, behind or asked)
    else:
        older = f"({is_before(contract, asked)} AND NOT {lacks_sequence(contract)})"
    place = F.expr(f"max(struct({r.POSITION}, {r.ROW}))").alias("place")
    [seen] = changes.where(older).agg(F.count("*").alias("count"), place).collect()
    position, row = seen["place"] or (None, None)
    made = Baseline(
        before=before,
        batch=batch,
        position=position,
        row=row,
        served=served,
        by_place=by_place,
        asked=asked,
    )
    return made, int(seen["count"])


def _times(context: TableRun, contract: Contract, changes: DataFrame) -> DataFrame:
    """Return place and time of each change: the time in marts, or else the time of its record."""
    if contract.event_time is not None:
        return changes.selectExpr(f"struct({r.POSITION}, {r.ROW}) AS place", f"{EVENT_TIME} AS time")
    bronze, told = context.spark.table(quote(*context.bronze)), context.table.source.event_time
    field = next(name for name in bronze.columns if name.lower() == told.lower())
    time = exact(quote(field), "timestamp")
    records = bronze.where(f"{r.KIND} = {literal(r.RECORD)}")
    return records.selectExpr(f"struct({r.POSITION}, {r.ROW}) AS place", f"{time} AS time")


def _is_folded(one: Truncate, contract: Contract, baseline: Baseline) -> bool:
    if baseline.by_place:
        return baseline.position is not None and one.place <= (baseline.position, baseline.row or 0)
    # Texts of times sort like the times; a date is shorter.
    text = one.values.get(contract.sequence_by[0])
    return text is not None and text < baseline.before[: len(text)]


def _prune_bronze(context: TableRun, contract: Contract) -> None:
    """Drop the records whose changes are in the baseline, and store their number for each file.

    Records in quarantine stay, regardless of their age.
    """
    found, base = baseline_of(context.head(context.changes).bookmark), context.head(context.bronze)
    if found is None or base.bookmark.get(BASELINE) == found.reaches:
        return
    rows = _typed(context, contract, found, base.bookmark)
    is_folded = f"{PROBLEM} IS NULL AND {is_before_sql(contract, found)} AND {r.BATCH} <= {found.batch}"
    # A table of an older version lacks the column for the number.
    ensure(context.spark, bronze_layout(context.tables.bronze, base.bookmark.get("fields", {})))
    quarantine = context.spark.table(quote(*context.quarantine)).select(*_PLACE)
    held = hold(rows.where(is_folded).select(*_PLACE).distinct().join(quarantine, _PLACE, "left_anti"))
    count = held.count()
    # Spark does not know that they are few, and would sort all of bronze to exclude them.
    gone = F.broadcast(held) if count <= context.policy.broadcast_changes else held
    bronze = context.spark.table(quote(*context.bronze))
    is_stub = f"{r.KIND} = {literal(r.FOLDED)}"
    with context.transaction(context.bronze, {**base.bookmark, BASELINE: found.reaches}) as batch:
        batch.note(strategy="fold")
        if not count:
            batch.append(bronze.limit(0))
        else:
            living = bronze.where(f"NOT {is_stub}").join(gone, _PLACE, "left_anti").select(*map(quote, bronze.columns))
            batch.replace(living.unionByName(_stubs(bronze, gone), allowMissingColumns=True))
        failpoint("fold.before_bronze")
        batch.publish()
    release(held)


def _typed(context: TableRun, contract: Contract, baseline: Baseline, bookmark: Mapping[str, Any]) -> DataFrame:
    """Return the change rows of all records of bronze, checked as they were on arrival."""
    whole = Normalize(table=context.table.name, after=0, upto=baseline.batch, rebuild=True)
    known = renamed_bookmark(context.table, bookmark)
    records = renamed_records(bronze_records(context, whole, known), context.table, bookmark)
    return change_rows(
        records,
        contract,
        source_of(context.table),
        expressions_of(context.spark, contract),
        since=known.get("since", {}),
        truncates=context.table.source.truncates,
    )


def _stubs(bronze: DataFrame, gone: DataFrame) -> DataFrame:
    """Return a row for each file with folded records: their number, including earlier folds."""
    counted = f"{r.KIND} IN ({literal(r.RECORD)}, {literal(r.BAD)})"
    new = bronze.where(counted).join(gone, _PLACE, "left_semi").select(r.FILE, r.BATCH, F.lit(1).alias("_count"))
    old = bronze.where(f"{r.KIND} = {literal(r.FOLDED)}").select(r.FILE, r.BATCH, F.col(r.OFFSET).alias("_count"))
    by_file = new.unionByName(old).groupBy(r.FILE).agg(F.min(r.BATCH).alias(r.BATCH), F.sum("_count").alias(r.OFFSET))
    return by_file.withColumn(r.KIND, F.lit(r.FOLDED))
