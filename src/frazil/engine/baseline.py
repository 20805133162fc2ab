"""Fold what is older than the horizon: silver keeps a baseline of it, bronze drops its records.

Silver is first. A fold that was killed after its commit is ended by the next run, before anything else: until bronze
has dropped the records, a rebuild would take them for late ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.engine.bronze_records import bronze_records
from frazil.engine.expressions import expressions_of
from frazil.engine.moves import tells_old_keys
from frazil.engine.truncates import in_bookmark, known_truncates
from frazil.failpoints import failpoint
from frazil.lake.gateway import hold, release
from frazil.lake.tables import ensure
from frazil.marts.baseline import baseline_rows, served_of
from frazil.marts.fold_spec import EVENT_TIME, with_event_time
from frazil.marts.layout import fold_spec
from frazil.plan.table_layout import bronze_layout
from frazil.silver.baseline import BASELINE, Baseline, baseline_of, is_older
from frazil.silver.changes import PROBLEM, change_rows
from frazil.silver.quarantine import good
from frazil.silver.renames import renamed_bookmark, renamed_records
from frazil.sources.kinds import source_of
from frazil.spec.names import literal, quote
from frazil.steps import Normalize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from frazil.engine.table_run import TableRun
    from frazil.engine.truncates import Truncate
    from frazil.lake.snapshot import TableSnapshot
    from frazil.silver.contract import Contract
    from frazil.steps import FoldChanges

_PLACE = [r.FILE, r.ROW]


def baseline_changes(context: TableRun, contract: Contract) -> DataFrame | None:
    """Return the changes of the baseline; None where there is none."""
    found = baseline_of(context.head(context.changes, rebuilt=True).bookmark)
    if found is None:
        return None
    return context.spark.table(quote(*context.changes)).where(is_older(contract, found.before))


def with_baseline(context: TableRun, contract: Contract, rows: DataFrame, step: Normalize) -> DataFrame:
    """Return the good ones among change rows; in a rebuild with those of the baseline, which bronze has not."""
    changes = good(rows)
    held = baseline_changes(context, contract) if step.rebuild else None
    if held is None:
        return changes
    kinds = {field.name: field.dataType for field in changes.schema}
    kept = [F.col(quote(name)).cast(kinds[name]).alias(name) for name in held.columns if name in kinds]
    return changes.unionByName(held.select(*kept), allowMissingColumns=True)


def fold_changes(context: TableRun, contract: Contract, step: FoldChanges) -> None:
    """Fold the changes of a table that are older than a horizon; all of its tables are level.

    Killed at any instant, the next run ends it: see the module.

    Cost: silver is written again, and bronze; a shuffle of the older changes by key. It is due once in a tenth of the
    retention.
    """
    context.tell(f"fold changes before {step.before[:10]}")
    base = context.head(context.changes)
    found = baseline_of(base.bookmark)
    if found is None or found.before < step.before:
        if not _fold_silver(context, contract, base, step.before):
            return
        failpoint("fold.after_silver")
    _prune_bronze(context, contract)
    failpoint("fold.after_bronze")


def _fold_silver(context: TableRun, contract: Contract, base: TableSnapshot, before: str) -> bool:
    """Write silver again with a baseline in place of the older changes; return whether that could be done."""
    silver = base.bookmark
    spec = fold_spec(contract, None, since=silver.get("since", {}), partial=bool(silver.get("partial")))
    older = is_older(contract, before)
    changes = with_event_time(context.spark.table(quote(*context.changes)), spec)
    place = F.expr(f"max(struct({r.POSITION}, {r.ROW}))").alias("place")
    [seen] = changes.where(older).agg(F.count("*").alias("count"), place).collect()
    position, row = seen["place"] or (None, None)
    truncates = [one for one in known_truncates(silver) if not _is_before(one, contract, before)]
    if position is not None and any(one.place < (position, row) for one in truncates):
        context.report.warnings.append(
            f"changes before {before[:10]} are not folded yet: a newer truncate stands before one of them in its source"
        )
        return False
    served = served_of(context.table.marts, contract)
    made = Baseline(before=before, batch=base.batch, position=position, row=row, served=served)
    bookmark = {name: value for name, value in silver.items() if name != "truncates"}
    bookmark |= made.in_bookmark() | in_bookmark(truncates)
    with context.transaction(context.changes, bookmark) as batch:
        batch.note(strategy="fold", folded=int(seen["count"]))
        rest = changes.where(f"NOT {older}").drop(EVENT_TIME)
        if seen["count"]:
            moves = tells_old_keys(context.table, contract)
            batch.replace(rest.unionByName(baseline_rows(changes.where(older), spec, served, moves=moves)))
        else:
            batch.append(rest.limit(0))
        failpoint("fold.before_publish")
        batch.publish()
    return True


def _is_before(one: Truncate, contract: Contract, before: str) -> bool:
    # Texts of times compare as the times do; a date is shorter.
    text = one.values.get(contract.sequence_by[0])
    return text is not None and text < before[: len(text)]


def _prune_bronze(context: TableRun, contract: Contract) -> None:
    """Drop the records whose changes are in the baseline, and note of each file how many they are.

    A record in quarantine stays, however old it is.
    """
    found, base = baseline_of(context.head(context.changes).bookmark), context.head(context.bronze)
    if found is None or base.bookmark.get(BASELINE) == found.before:
        return
    rows = _typed(context, contract, found, base.bookmark)
    is_folded = f"{PROBLEM} IS NULL AND {is_older(contract, found.before)} AND {r.BATCH} <= {found.batch}"
    # A table that an older version made lacks the column that counts.
    ensure(context.spark, bronze_layout(context.tables.bronze, base.bookmark.get("fields", {})))
    quarantine = context.spark.table(quote(*context.quarantine)).select(*_PLACE)
    gone = hold(rows.where(is_folded).select(*_PLACE).distinct().join(quarantine, _PLACE, "left_anti"))
    bronze = context.spark.table(quote(*context.bronze))
    is_stub = f"{r.KIND} = {literal(r.FOLDED)}"
    with context.transaction(context.bronze, {**base.bookmark, BASELINE: found.before}) as batch:
        batch.note(strategy="fold")
        if gone.isEmpty():
            batch.append(bronze.limit(0))
        else:
            living = bronze.where(f"NOT {is_stub}").join(gone, _PLACE, "left_anti").select(*map(quote, bronze.columns))
            batch.replace(living.unionByName(_stubs(bronze, gone), allowMissingColumns=True))
        failpoint("fold.before_bronze")
        batch.publish()
    release(gone)


def _typed(context: TableRun, contract: Contract, baseline: Baseline, bookmark: Mapping[str, Any]) -> DataFrame:
    """Return the change rows of all records of bronze, as they were judged when they came."""
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
    """Return a row for each file of which records are gone: their number, those of earlier folds too."""
    counted = f"{r.KIND} IN ({literal(r.RECORD)}, {literal(r.BAD)})"
    new = bronze.where(counted).join(gone, _PLACE, "left_semi").select(r.FILE, r.BATCH, F.lit(1).alias("_count"))
    old = bronze.where(f"{r.KIND} = {literal(r.FOLDED)}").select(r.FILE, r.BATCH, F.col(r.OFFSET).alias("_count"))
    by_file = new.unionByName(old).groupBy(r.FILE).agg(F.min(r.BATCH).alias(r.BATCH), F.sum("_count").alias(r.OFFSET))
    return by_file.withColumn(r.KIND, F.lit(r.FOLDED))
