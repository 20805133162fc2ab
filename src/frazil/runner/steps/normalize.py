"""Bring silver up to date with bronze: typed changes, and quarantine for bad records."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from frazil.bronze import record as r
from frazil.bronze.pii import BRONZE_MADE_BY, MADE_BY
from frazil.failpoints import failpoint
from frazil.lake.tables import ensure, replace_table, table_fits
from frazil.older_spark import nullable, to_arrow
from frazil.plan.layout import changes_layout, quarantine_layout
from frazil.runner.batch.batch_stats import Measures, Normalized, measure_sql, newest_in, newest_sql
from frazil.runner.batch.bronze_records import IS_RECORD, bronze_records, columns_since
from frazil.runner.batch.driver_batch import DriverBatch, spark_frame, spark_types
from frazil.runner.key_changes.departures import DEPARTED
from frazil.runner.key_changes.moves import last_move_bookmark
from frazil.runner.limits import batch_limits
from frazil.runner.limits.batch_limits import (
    bad_by_batch,
    check_limits,
    corrected_places,
    count_behind,
    is_limited,
    known_newest,
    passes,
    verify_not_late,
    write_quarantine,
)
from frazil.runner.limits.full_loads import unended_snapshots, verify_load_keys, verify_second_loads
from frazil.runner.limits.lost_values import digits_cut, fields_left_out, missing_field_error
from frazil.runner.limits.rules import Watched
from frazil.runner.steps.baseline import baseline_changes, with_baseline
from frazil.runner.steps.plain_batch import PlainBatch, plain_batch
from frazil.runner.steps.snapshots import SourceSnapshot
from frazil.runner.steps.truncates import Beside, Spread, known_truncates, spread_truncates, truncate_bookmark
from frazil.runner.table_run import declared_bookmark
from frazil.silver import unsequenced
from frazil.silver.baseline import baseline_of, came_too_late, kept_baseline
from frazil.silver.changes import CAST, FAILS, PROBLEM, change_columns, change_rows, rows_of_batches
from frazil.silver.contract import LAWS, Contract, MissingFieldError, declared, retyped_fields, settings, settle
from frazil.silver.evolution import REFUSED, Evolved, evolved, renamed_bookmark, renamed_records
from frazil.sources.kinds import source_of
from frazil.spark.expressions import expressions_of, reasons
from frazil.spark.gateway import is_local
from frazil.spec.sql.names import literal, quote
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.plan.layout import TableLayout
    from frazil.runner.batch.batch_stats import Ingested
    from frazil.runner.table_run import TableRun
    from frazil.steps import Normalize

_OP_AND_ONE = 2
"""With at most this number of fields, the files probably could not be parsed."""

_IS_GOOD: Final = f"{PROBLEM} IS NULL"
OLD_KEY: Final = "a change arrived that comes before a delete or a change of its key"
"""Reason of a rebuild of silver that only this step can detect."""


class _UnsequencedError(Exception):
    """Deletes of a batch lack their sequence and were not completed."""


_SUMS: Final = (
    f"count_if({_IS_GOOD}) AS good",
    f"count_if({PROBLEM} IS NOT NULL) AS bad",
    f"count_if({_IS_GOOD} AND {r.KNOWN} IS NOT NULL AND {r.CLASS} = {literal(r.UPSERT)}) AS partial",
    f"count_if({_IS_GOOD} AND {r.CLASS} = {literal(r.DELETE)} AND {r.SOURCE_TIME} IS NULL) AS untimed",
    f"count_if({PROBLEM}.rule = {literal(FAILS)}) AS failed",
)
"""Counts over the change rows during the write."""


def contract_of(context: TableRun) -> Contract:
    """Return the table's contract over the fields of bronze.

    Raises:
        MissingFieldError: all files lack the field of a declared column; the error lists files that could not be read.
    """
    fields = _bronze_bookmark(context).get("fields", {})
    try:
        return settle(context.table, fields, _evolved(context))
    except MissingFieldError as error:
        raise (missing_field_error(context, error) if len(fields) <= _OP_AND_ONE else error) from None


def _evolved(context: TableRun) -> Evolved:
    return evolved(context.table, _bronze_bookmark(context), context.head(context.changes).bookmark)


def _bronze_bookmark(context: TableRun) -> Mapping[str, Any]:
    """Return bronze's bookmark with the current names of its fields."""
    return renamed_bookmark(context.table, context.head(context.bronze).bookmark)


def normalize(context: TableRun, step: Normalize, contract: Contract, ingested: Ingested | None = None) -> Normalized:
    """Type and check the records after silver's bookmark.

    Args:
        context: the table's part of the run.
        step: the batches.
        contract: the table's contract.
        ingested: result of the step before, if this run has appended to bronze.

    Raises:
        TooManyBadRowsError: more records are bad than ``max_bad_rows`` or ``max_bad_fraction`` allow; the batch stays
            invisible past bronze.
        RepeatedKeyError: a full load has different records of one key, beyond ``max_repeated_key_fraction``; likewise.
        SecondLoadError: a second full load differs from the table; likewise.
        RuleBrokenError: changes break a rule that stops the run; likewise.
        LateChangesError: more changes are late than ``max_late_fraction`` allows; likewise.
    """
    context.tell("normalize")
    spark, layout = context.spark, changes_layout(context.tables.changes, contract)
    ensure(spark, quarantine_layout(context.tables.quarantine))
    at_hand = _at_hand(step, ingested)
    verify_load_keys(context, step, contract, ingested, at_hand)
    verify_second_loads(context, step, contract, ingested, lambda: _all_changes(context, step, contract))
    context.report.warnings += unended_snapshots(context, contract, step, at_hand)
    if (step.rebuild or context.head(context.changes).snapshot_id is None) and not table_fits(spark, layout):
        return _replace_all(context, step, contract, layout)
    ensure(spark, layout)
    if context.head(context.changes).snapshot_id is None:
        context.report.warnings += digits_cut(context, contract, step, _bronze_bookmark(context), at_hand)
    if not _is_for_driver(context, step, at_hand):
        return _normalize_by_spark(context, step, contract, at_hand)
    plain = plain_batch(context, step, contract, _bronze_bookmark(context), at_hand)
    if isinstance(plain, PlainBatch) and at_hand is None and is_limited(context, step) and not _passes(context, plain):
        plain = NeedsSpark("late")
    if isinstance(plain, NeedsSpark):
        context.report.by_spark.append(plain.reason)
        return _normalize_by_spark(context, step, contract, at_hand)
    with suppress(_UnsequencedError):
        return _normalize_plain(context, step, contract, plain, is_held=at_hand is not None)
    context.report.by_spark.append("unsequenced")
    return _normalize_all(context, step, contract, at_hand, completes=True)


def _is_for_driver(context: TableRun, step: Normalize, at_hand: pa.Table | None) -> bool:
    """Return whether the driver tries a step: a rebuild is Spark's, and executors share the files of a large batch."""
    return context.policy.plain and not step.rebuild and (at_hand is not None or is_local(context.spark))


def _passes(context: TableRun, plain: PlainBatch) -> bool:
    # With several batches, the limits apply to each.
    return passes(context, plain.behind, plain.count if plain.upto == plain.after + 1 else 0)


def _normalize_by_spark(context: TableRun, step: Normalize, contract: Contract, at_hand: pa.Table | None) -> Normalized:
    """Compute all changes with Spark; ``at_hand`` has the rows of bronze that are in the driver's memory.

    Cost: if the write shows that deletes lack their sequence, the changes are written a second time.
    """
    try:
        return _normalize_all(context, step, contract, at_hand)
    except _UnsequencedError:
        return _normalize_all(context, step, contract, at_hand, completes=True)


def _normalize_all(
    context: TableRun, step: Normalize, contract: Contract, at_hand: pa.Table | None, *, completes: bool = False
) -> Normalized:
    spark = context.spark
    base, bronze = context.head(context.changes, rebuilt=step.rebuild), _bronze_bookmark(context)
    held = None if at_hand is None else spark_frame(spark, at_hand).where(IS_RECORD)
    records = bronze_records(context, step, bronze) if held is None else held
    spread = _rows(context, contract, records, base, rebuild=step.rebuild, completes=completes)
    if spread.is_late:
        context.read_whole(context.bronze)
        return normalize(context, replace(step, after=0, rebuild=True, reason=OLD_KEY), contract)
    counts, watched = Observation(), Watched.of(contract, columns_since(contract, bronze))
    rows, is_new = spread.rows, step.after > 0 and not step.rebuild
    observed = rows.observe(counts, *_sums(contract, is_new=is_new), *watched.sums(spark))
    failpoint("silver.before_write")
    bookmark = _bookmark(context, step, contract, base, bronze) | spread.in_bookmark()
    with context.transaction(context.changes, bookmark) as batch:
        batch.note(strategy="recompute" if step.rebuild else "append")
        batch.note_spark(context.report.by_spark)
        here = None if at_hand is None else DriverBatch(to_arrow(observed), nullable(rows.schema))
        kept = None if here is None else _good(here, contract)
        staged = kept.rows if kept is not None and batch.takes_rows else None
        if staged is None:
            new = with_baseline(context, contract, observed, step) if kept is None else kept.frame(spark)
            (batch.replace if step.rebuild else batch.append)(new)
        seen = counts.get
        if seen[unsequenced.POSITION] is not None and not completes:
            raise _UnsequencedError
        _judge(context, step, watched, seen, rows)
        if is_limited(context, step):
            _judge_late(context, contract, kept, lambda: rows_of_batches(batch.written(), step.after, step.upto))
        if (more := _seen_in_bookmark(bookmark, seen)) != bookmark:
            # The entry must be in the commit with the first such change.
            batch.set_bookmark(more)
        if staged is not None:
            batch.note(changes=int(seen["good"]), quarantined=int(seen["bad"]))
            batch.row_delta(staged)
        if seen["bad"] or step.rebuild or corrected_places(context, step) is not None:
            bad = rows if here is None else here.frame(spark)
            write_quarantine(context, step, bad, reasons(spark, contract, bad) if seen["failed"] else {})
        failpoint("silver.before_publish")
        batch.publish()
    failpoint("silver.after_publish")
    _report(context, contract, seen)
    _warn_of_left_out(context, contract, records, step)
    newest, measures = newest_in(seen), Measures.of(seen) if is_new else None
    return Normalized(after=step.after, upto=step.upto, newest=newest, measures=measures, driver_batch=kept)


def _seen_in_bookmark(bookmark: Mapping[str, Any], seen: Mapping[str, Any]) -> dict[str, Any]:
    """Return silver's bookmark with facts on its new changes."""
    more: dict[str, Any] = {"partial": bool(bookmark["partial"] or seen["partial"])}
    more |= {REFUSED: True} if seen[REFUSED] else {}
    if (position := seen.get(unsequenced.POSITION)) is not None:
        more[unsequenced.POSITION] = max(position, bookmark.get(unsequenced.POSITION, ""))
    return {**bookmark, **more}


def _warn_of_left_out(context: TableRun, contract: Contract, records: DataFrame, step: Normalize) -> None:
    if step.rebuild:
        return
    renamed = renamed_records(records, context.table, context.head(context.bronze).bookmark)
    context.report.warnings += fields_left_out(renamed, contract)


def _good(batch: DriverBatch, contract: Contract) -> DriverBatch:
    return batch.filter(pc.is_null(batch.rows[PROBLEM]), [*change_columns(contract)])


def _report(context: TableRun, contract: Contract, seen: Mapping[str, Any]) -> None:
    context.report.changes, context.report.quarantined = int(seen["good"]), int(seen["bad"])
    context.report.untimed_deletes = int(seen["untimed"])
    told = retyped_fields(context.table, contract, {REFUSED: seen[REFUSED]})
    context.report.warnings += [text for text in told if text not in context.report.warnings]


def _normalize_plain(
    context: TableRun, step: Normalize, contract: Contract, plain: PlainBatch, *, is_held: bool
) -> Normalized:
    """Write plain changes, together with the changes that Spark computes from the other records.

    Args:
        context: the table's part of the run.
        step: the batches.
        contract: the table's contract.
        plain: the batch.
        is_held: the batch is small enough for the driver's memory.
    """
    spark, names = context.spark, change_columns(contract)
    base, bronze = context.head(context.changes), _bronze_bookmark(context)
    bookmark = _bookmark(context, step, contract, base, bronze) | last_move_bookmark(plain.last_move)
    bookmark |= truncate_bookmark(known_truncates(base.bookmark))
    bookmark |= {} if plain.snapshot is None else plain.snapshot.in_bookmark()
    rest, seen = _rest(context, contract, plain)
    seen["good"], seen["partial"] = int(seen["good"]) + plain.count, int(seen["partial"]) + plain.partial
    seen["untimed"] = int(seen["untimed"]) + plain.untimed
    newest = plain.newest if rest is None else plain.newest.later(newest_in(seen))
    streams = plain.streams()
    if rest is not None:
        streams.append(iter([_good(rest, contract).rows]))
    held = _held(streams, names) if is_held else None
    failpoint("silver.before_write")
    bad = None if rest is None else rest.frame(spark)
    check_limits(context, {step.upto: seen}, bad, is_first=step.after == 0)
    if held is not None and is_limited(context, step) and not _passes(context, plain):
        verify_not_late(context, contract, held.frame(spark), few=True)
    with context.transaction(context.changes, _seen_in_bookmark(bookmark, seen)) as batch:
        batch.note(strategy="append", changes=seen["good"], quarantined=int(seen["bad"]), plain=plain.count)
        if held is None:
            batch.stream(streams, [*names])
        elif batch.takes_rows:
            batch.row_delta(held.rows)
        else:
            batch.append(held.frame(spark))
        if rest is not None and seen["bad"]:
            write_quarantine(context, step, rest.frame(spark), {})
        failpoint("silver.before_publish")
        batch.publish()
    failpoint("silver.after_publish")
    pa.default_memory_pool().release_unused()
    _report(context, contract, seen)
    return Normalized(
        after=step.after,
        upto=step.upto,
        newest=newest,
        measures=Measures.of_rows(held.rows, contract) if held is not None and step.after > 0 else None,
        driver_batch=held,
    )


def _rest(context: TableRun, contract: Contract, plain: PlainBatch) -> tuple[DriverBatch | None, dict[str, Any]]:
    """Return the changes that Spark computes from a batch's other records, and their counts.

    Raises:
        _UnsequencedError: deletes among them lack their sequence, which depends on the plain changes too.
    """
    if plain.others is None:
        return None, {"good": 0, "bad": 0, "partial": 0, "untimed": 0, "failed": 0, REFUSED: 0}
    spark, base, bronze = context.spark, context.head(context.changes), _bronze_bookmark(context)
    counts, watched = Observation(), Watched.of(contract, columns_since(contract, bronze))
    rows = _rows(context, contract, spark_frame(spark, plain.others), base, rebuild=False).rows
    observed = rows.observe(counts, *_sums(contract, is_new=False), *watched.sums(spark))
    rest, seen = DriverBatch(to_arrow(observed), nullable(rows.schema)), dict(counts.get)
    if seen[unsequenced.POSITION] is not None:
        raise _UnsequencedError
    watched.report(context, seen)
    return rest, seen


def _judge_late(
    context: TableRun, contract: Contract, held: DriverBatch | None, written: Callable[[], DataFrame]
) -> None:
    """Refuse changes that are mostly late; ``written`` returns them if they are not ``held``."""
    if held is None:
        verify_not_late(context, contract, written(), few=False)
    elif not passes(context, count_behind(held.rows, contract, known_newest(context)), held.rows.num_rows):
        verify_not_late(context, contract, held.frame(context.spark), few=True)


def _held(streams: Iterable[Iterator[pa.Table]], names: Mapping[str, str]) -> DriverBatch:
    """Return all rows of some streams as one table; all streams have the same columns."""
    types = spark_types(names)
    schema = to_arrow_schema(types)
    rows = [piece.select([*names]).cast(schema) for stream in streams for piece in stream]
    return DriverBatch(pa.concat_tables(rows or [schema.empty_table()]).combine_chunks(), types)


def _sums(contract: Contract, *, is_new: bool) -> list[SparkColumn]:
    """Return counts of good and bad rows for the write; for a new batch also the statistics that its marts need."""
    measured = measure_sql(contract, _IS_GOOD) if is_new else newest_sql(contract, _IS_GOOD)
    unheld = ", ".join(literal(name) for name, _ in contract.unheld)
    is_refused = f"{PROBLEM}.rule = {literal(CAST)} AND {PROBLEM}.column IN ({unheld})" if unheld else "false"
    sums = [*measured, *_SUMS, f"count_if({is_refused}) AS {REFUSED}", unsequenced.last_position(contract)]
    return [*map(F.expr, sums)]


def _rows(
    context: TableRun,
    contract: Contract,
    records: DataFrame,
    base: TableSnapshot,
    *,
    rebuild: bool,
    completes: bool = False,
) -> Spread:
    """Return the change rows of records of bronze, with their truncates and changes of key resolved.

    With ``completes``, deletes without a sequence are completed.
    """
    source, can_truncate = source_of(context.table), context.table.source.truncates
    expressions, bronze = expressions_of(context.spark, contract), _bronze_bookmark(context)
    records = renamed_records(records, context.table, context.head(context.bronze).bookmark)
    baseline = baseline_of(base.bookmark)
    judged = contract if baseline is None else replace(contract, too_late=came_too_late(contract, baseline))
    rows = change_rows(records, judged, source, expressions, since=bronze.get("since", {}), truncates=can_truncate)
    if rebuild:
        beside = Beside(records=records, rows=baseline_changes(context, contract), is_rebuild=True)
    else:
        held = None if base.snapshot_id is None else context.spark.table(quote(*context.changes))
        beside = Beside(
            records=records,
            rows=held,
            truncates=known_truncates(base.bookmark),
            snapshot=SourceSnapshot.in_silver(base.bookmark),
        )
    spread = spread_truncates(context, contract, rows, columns_since(contract, bronze), beside)
    if spread.is_late:
        return spread
    orders_records = context.table.source.orders_records
    if beside.rows is not None and not rebuild and unsequenced.POSITION in base.bookmark:
        late = unsequenced.late_sequences(spread.rows, beside.rows, contract, orders_records=orders_records)
        spread = replace(spread, is_late=late.first() is not None)
    if completes and not spread.is_late:
        rows = unsequenced.with_sequences(spread.rows, beside.rows, contract, orders_records=orders_records)
        spread = replace(spread, rows=rows)
    return spread


def _all_changes(context: TableRun, step: Normalize, contract: Contract) -> DataFrame:
    """Return all good changes up to a step's last batch, as a rebuild would write them."""
    whole = replace(step, after=0, rebuild=True)
    records = bronze_records(context, whole, _bronze_bookmark(context))
    completes = bool(contract.sequence_by)
    spread = _rows(context, contract, records, context.head(context.changes), rebuild=True, completes=completes)
    return with_baseline(context, contract, spread.rows, whole)


def _at_hand(step: Normalize, ingested: Ingested | None) -> pa.Table | None:
    """Return the rows of bronze to normalize, if they are in the driver's memory."""
    if ingested is None or step.rebuild or not ingested.batch == step.upto == step.after + 1:
        return None
    return ingested.rows


def _replace_all(context: TableRun, step: Normalize, contract: Contract, layout: TableLayout) -> Normalized:
    """Replace a silver table and its rows in one commit, because its columns differ from the declaration."""
    base, bronze = context.head(context.changes, rebuilt=True), _bronze_bookmark(context)
    whole = replace(step, after=0, rebuild=True)
    spread = _rows(context, contract, bronze_records(context, whole, bronze), base, rebuild=True)
    rows = spread.rows
    watched = Watched.of(contract, columns_since(contract, bronze))
    sums = [*_sums(contract, is_new=False), *watched.sums(context.spark)]
    (seen,) = (row.asDict() for row in rows.agg(*sums).collect())
    if seen[unsequenced.POSITION] is not None:
        spread = _rows(context, contract, bronze_records(context, whole, bronze), base, rebuild=True, completes=True)
        rows = spread.rows
        (seen,) = (row.asDict() for row in rows.agg(*sums).collect())
    _judge(context, whole, watched, seen, rows)
    failpoint("silver.before_write")
    write_quarantine(context, whole, rows, reasons(context.spark, contract, rows) if seen["failed"] else {})
    failpoint("silver.before_publish")
    bookmark = _bookmark(context, whole, contract, base, bronze) | spread.in_bookmark()
    bookmark = _seen_in_bookmark(bookmark, seen)
    context.heads[context.changes] = replace_table(
        context.spark, layout, base, bookmark, with_baseline(context, contract, rows, whole), run_id=context.run_id
    )
    failpoint("silver.after_publish")
    _report(context, contract, seen)
    return Normalized(after=0, upto=step.upto, newest=newest_in(seen))


def _bookmark(
    context: TableRun, step: Normalize, contract: Contract, base: TableSnapshot, bronze: Mapping[str, Any]
) -> dict[str, Any]:
    """Return silver's bookmark, including the first batch of each column that was added later."""
    kept = kept_baseline(base.bookmark)
    return context.bookmark(
        "silver",
        step.upto,
        settings=settings(context.table),
        laws=LAWS,
        since=columns_since(contract, bronze),
        # A rebuild keeps the baseline, whose changes may lack columns.
        partial=bool(base.bookmark.get("partial", False)) and (not step.rebuild or bool(kept)),
        made_by=context.run_id if step.rebuild else base.bookmark.get("made_by", ""),
        **declared_bookmark(context, base.bookmark, declared(context.table)),
        **_bronze_made_by(step, base, bronze),
        **_evolved(context).in_bookmark(),
        **kept,
        **batch_limits.late_bookmark(context, step, base.bookmark),
        **{name: value for name, value in base.bookmark.items() if name in {unsequenced.POSITION, DEPARTED}},
        **({REFUSED: True} if base.bookmark.get(REFUSED) and not step.rebuild else {}),
    )


def _bronze_made_by(step: Normalize, base: TableSnapshot, bronze: Mapping[str, Any]) -> dict[str, str]:
    """Return the id of the bronze that the changes come from, if its values were ever replaced."""
    is_whole = step.rebuild or not step.after
    made_by = bronze.get(MADE_BY) if is_whole else base.bookmark.get(BRONZE_MADE_BY)
    return {BRONZE_MADE_BY: made_by} if made_by else {}


def note_declared(context: TableRun) -> None:
    """Store the declaration in silver's bookmark, in a commit without rows: its columns were renamed."""
    contract, base = contract_of(context), context.head(context.changes)
    table, bronze = context.table, _bronze_bookmark(context)
    bookmark = {
        **base.bookmark,
        **declared_bookmark(context, base.bookmark, declared(table)),
        "settings": settings(table),
        "since": columns_since(contract, bronze),
        **_evolved(context).in_bookmark(),
    }
    with context.transaction(context.changes, bookmark) as transaction:
        transaction.append(context.spark.table(quote(*context.changes)).limit(0))
        failpoint("silver.before_publish")
        transaction.publish()
    failpoint("silver.after_publish")


def _judge(context: TableRun, step: Normalize, watched: Watched, seen: Mapping[str, Any], rows: DataFrame) -> None:
    """Check the counts over change rows against the contract's rules and the table's limits."""
    watched.report(context, seen)
    by_batch = {step.upto: seen} if not step.rebuild else bad_by_batch(context, rows, int(seen["bad"]))
    check_limits(context, by_batch, rows, is_first=step.after == 0)
