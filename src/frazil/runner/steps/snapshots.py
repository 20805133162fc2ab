"""Snapshots among changes: delete the rows that a source lost while its log was not read.

A connector that lost its place in the log reads the whole table again. No event deletes a row that was deleted
meanwhile; only the snapshot lacks it. If the declaration says that snapshots are whole, such a row gets a delete at the
snapshot's place (HANDOVER). Otherwise the run stops, because a snapshot may also have some rows only.

A row is deleted if the last change before the snapshot is an upsert, and the snapshot has no read of its key. Reads in
quarantine count. A change may have a place before the snapshot and a time after it; the row of its key stays. Silver
stores the deletes, and its bookmark has the newest snapshot. A late record may void a delete; silver is then rebuilt
from bronze (CONVERGE).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.errors import ContractError
from frazil.runner.batch.bronze_records import bronze_records
from frazil.silver.baseline import baseline_of
from frazil.silver.changes import PROBLEM, change_rows
from frazil.silver.evolution import renamed_bookmark, renamed_records
from frazil.sources.capture import verify_deletes
from frazil.sources.kinds import source_of
from frazil.spark.expressions import expressions_of
from frazil.spec.amount import counted
from frazil.spec.sql.names import literal, quote
from frazil.steps import Normalize

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.sources.base import SnapshotMeaning

SNAPSHOT: Final = "snapshot"
"""Key of silver's bookmark."""
ROW_OF_DELETE: Final = 0
"""Row number of a snapshot's deletes; records have numbers from 1."""
_BEHIND: Final = "~"
"""Sorts after what follows the place of a snapshot in the positions of its records."""
_OLDER, _STAYS = "frazil_older", "frazil_stays"


class LostDeletesError(ContractError):
    """A snapshot lacks rows of the table, and the declaration does not say whether they were deleted."""

    code = "FZ416"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSnapshot:
    """A finished snapshot of a table.

    Attributes:
        position: the position that its records begin with, the greatest of all partitions.
        name: the same without what differs between partitions.
        time: least time of its records, as text; None without one.
        file, batch: place of its last record.
    """

    position: str
    name: str
    time: str | None
    file: str
    batch: int

    @property
    def end(self) -> str:
        """Return a position that comes after all of its records and before all newer changes."""
        return f"{self.position}{_BEHIND}"

    def in_bookmark(self) -> dict[str, Any]:
        """Return the entry of silver's bookmark."""
        return {SNAPSHOT: asdict(self)}

    @classmethod
    def in_silver(cls, bookmark: Mapping[str, Any]) -> Self | None:
        """Return the newest snapshot in silver's bookmark; None without one."""
        found = bookmark.get(SNAPSHOT)
        return None if found is None else cls(**found)


def snapshot_meaning(context: TableRun, contract: Contract) -> SnapshotMeaning | None:
    """Return how to recognize snapshots; None if no record ends one."""
    fields = {name.lower(): name for name, _ in contract.fields}
    return source_of(context.table).meaning(fields, r.POSITION).snapshot


def find_snapshots(
    context: TableRun, contract: Contract, records: DataFrame, known: SourceSnapshot | None
) -> list[SourceSnapshot]:
    """Return the snapshots that end among some records, the oldest first.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        records: records of bronze.
        known: newest snapshot so far; older ones are left out.

    Cost: free until a snapshot has ended. Then a job over the records, and for each snapshot one over bronze.
    """
    meaning = snapshot_meaning(context, contract)
    if meaning is None or meaning.end not in records.columns:
        return []
    ends = (
        records.where(f"{quote(meaning.end)} IS NOT NULL AND {meaning.name} <> ''")
        .groupBy(F.expr(meaning.name).alias("name"))
        .agg(F.min(r.FILE).alias("file"), F.min(r.BATCH).alias("batch"))
        .collect()
    )
    found = []
    for one in ends:
        reads = _bronze(context).where(f"{meaning.name} = {literal(one['name'])}")
        seen = reads.agg(
            F.max(F.expr(meaning.place)).alias("position"), F.min(quote(meaning.time)).alias("time")
        ).collect()[0]
        found.append(SourceSnapshot(name=one["name"], file=one["file"], batch=one["batch"], **seen.asDict()))
    return sorted((one for one in found if _counts(context, one, known)), key=lambda one: one.position)


def _counts(context: TableRun, one: SourceSnapshot, known: SourceSnapshot | None) -> bool:
    """Return whether a snapshot is newer than the newest one so far, and than the baseline."""
    baseline = baseline_of(context.head(context.changes).bookmark)
    is_folded = baseline is not None and (
        one.position <= (baseline.position or "") if baseline.by_place else (one.time or "") < baseline.before
    )
    return not is_folded and (known is None or one.position > known.position)


def _bronze(context: TableRun) -> DataFrame:
    """Return all records of bronze."""
    bookmark = context.head(context.bronze).bookmark
    whole = Normalize(table=context.table.name, after=0, upto=context.head(context.bronze).batch, rebuild=True)
    records = bronze_records(context, whole, renamed_bookmark(context.table, bookmark))
    return renamed_records(records, context.table, bookmark)


def _keys_of(context: TableRun, contract: Contract, records: DataFrame, *more: str) -> DataFrame:
    """Return the typed keys of records, also of bad ones, with ``more`` columns of change rows."""
    since = renamed_bookmark(context.table, context.head(context.bronze).bookmark).get("since", {})
    made = expressions_of(context.spark, contract)
    rows = change_rows(records, contract, source_of(context.table), made, since=since, truncates=True)
    return rows.select(*map(quote, contract.keys), *more).distinct()


def may_void_deletes(
    context: TableRun, contract: Contract, records: DataFrame, least_position: str, known: SourceSnapshot
) -> bool:
    """Return whether some records may change what the newest snapshot deletes.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        records: new records of bronze.
        least_position: least position among them.
        known: the newest snapshot in silver.

    Cost: free if all records are newer. Otherwise a job over them; for reads of the snapshot and changes beside it also
        one over silver's deletes.
    """
    meaning = snapshot_meaning(context, contract)
    if meaning is None or least_position >= known.end:
        return False
    behind = records.where(f"{r.POSITION} < {literal(known.end)}")
    if not behind.where(f"NOT {_is_doubtful(meaning, known)}").isEmpty():
        return True
    deletes = context.spark.table(quote(*context.changes)).where(
        f"{r.CLASS} = {literal(r.DELETE)} AND {r.POSITION} = {literal(known.position)} AND {r.ROW} = {ROW_OF_DELETE}"
    )
    return not deletes.join(_keys_of(context, contract, behind), [*contract.keys], "left_semi").isEmpty()


def _is_doubtful(meaning: SnapshotMeaning, one: SourceSnapshot) -> str:
    """Return SQL for records whose keys a snapshot does not prove absent, among those up to its end."""
    is_read = f"coalesce({meaning.name}, '') = {literal(one.name)}"
    if one.time is None:
        return f"({is_read})"
    return f"({is_read} OR coalesce({quote(meaning.time)} > {literal(one.time)}, false))"


def with_missing_deleted(
    context: TableRun, contract: Contract, rows: DataFrame, found: Sequence[SourceSnapshot], held: DataFrame | None
) -> DataFrame:
    """Return change rows with a delete of each row that a snapshot lacks.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        rows: change rows, good and bad ones.
        found: from :func:`find_snapshots`.
        held: the changes of silver that stay beside the rows; None without any.

    Raises:
        LostDeletesError: the declaration does not say whether snapshots are whole.
        TooManyDeletesError: a snapshot lacks more rows than ``max_delete_fraction`` allows.

    Cost: free without older changes. Otherwise a sort of the keys of silver, and a pass over bronze.
    """
    meaning = snapshot_meaning(context, contract)
    if meaning is None or not found:
        return rows
    names = [*map(quote, contract.keys), r.POSITION, r.ROW, r.CLASS, r.BATCH]
    older = rows.where(f"{PROBLEM} IS NULL AND {r.CLASS} <> {literal(r.TRUNCATE)}").select(*names)
    older = older if held is None else older.unionByName(held.select(*names))
    older = older.where(f"{r.POSITION} < {literal(found[-1].position)}")
    if older.isEmpty():
        return rows
    before = _rows_before(context, contract, older, found, meaning)
    accepted = SourceSnapshot.in_silver(context.head(context.changes).bookmark)
    _verify(context, [one for one in found if accepted is None or one.position > accepted.position], before, meaning)
    return _with_deletes(contract, rows, before.where("_is_missing"), meaning)


def _rows_before(
    context: TableRun, contract: Contract, older: DataFrame, found: Sequence[SourceSnapshot], meaning: SnapshotMeaning
) -> DataFrame:
    """Return keys, snapshot and ``_is_missing`` for each row just before a snapshot.

    An upsert is the row until the next change of its key, or until the first snapshot that lacks it.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        older: keys, place, class and batch of changes before the newest snapshot.
        found: the snapshots.
        meaning: how to recognize them.
    """
    older.createOrReplaceTempView(_OLDER)
    snapshots = " UNION ALL ".join(map(_as_row, found))
    _kept_keys(context, contract, snapshots, meaning).createOrReplaceTempView(_STAYS)
    keys = ", ".join(map(quote, contract.keys))
    of_key = f"OVER (PARTITION BY {keys} ORDER BY {r.POSITION}, {r.ROW}, {r.CLASS} = {literal(r.UPSERT)}"
    same = " AND ".join(f"o.{quote(key)} = k.{quote(key)}" for key in contract.keys)
    return context.spark.sql(f"""
        SELECT * FROM (
            SELECT *, _is_absent AND _snapshot = min(CASE WHEN _is_absent THEN _snapshot END) {_OF_ROW} AS _is_missing,
                coalesce(min(CASE WHEN _is_absent THEN _snapshot END) {_OF_ROW} < _snapshot, false) AS _is_gone
            FROM (
                SELECT o.*, s.*, k._snapshot IS NULL AS _is_absent
                FROM (
                    SELECT {keys}, {r.POSITION} AS _position, {r.CLASS} AS _class,
                        row_number() {of_key}) AS _number, lead({r.POSITION}) {of_key}) AS _next,
                        min({r.BATCH}) OVER (PARTITION BY {keys}) AS _least_batch
                    FROM {_OLDER}
                ) AS o
                JOIN ({snapshots}) AS s ON o._position < s._snapshot AND coalesce(o._next >= s._snapshot, true)
                LEFT JOIN {_STAYS} AS k ON {same} AND s._snapshot = k._snapshot
                WHERE o._class = {literal(r.UPSERT)}
            ) WINDOW of_row AS (PARTITION BY {keys}, _number)
        ) WHERE NOT _is_gone""")


_OF_ROW: Final = "OVER of_row"


def _as_row(one: SourceSnapshot) -> str:
    time = "CAST(NULL AS string)" if one.time is None else literal(one.time)
    return (
        f"SELECT {literal(one.position)} AS _snapshot, {literal(one.name)} AS _name, {time} AS _time, "
        f"{literal(one.file)} AS _file, CAST({int(one.batch)} AS bigint) AS _batch"
    )


def _kept_keys(context: TableRun, contract: Contract, snapshots: str, meaning: SnapshotMeaning) -> DataFrame:
    """Return the keys that each of some snapshots does not prove absent, with ``_snapshot``."""
    bronze, listed = _bronze(context), F.broadcast(context.spark.sql(snapshots))
    names = bronze.columns
    is_beside = f"{r.POSITION} < _snapshot AND {quote(meaning.time)} > _time"
    reads = bronze.join(listed, F.expr(f"{meaning.name} = _name"))
    records = reads.unionByName(bronze.join(listed, F.expr(is_beside)))
    # The rows of a record keep its position, which names its snapshot here.
    records = records.withColumn(r.POSITION, F.col("_snapshot")).select(*map(quote, names))
    return _keys_of(context, contract, records, r.POSITION).withColumnRenamed(r.POSITION, "_snapshot")


def _verify(context: TableRun, new: Sequence[SourceSnapshot], before: DataFrame, meaning: SnapshotMeaning) -> None:
    """Refuse missing rows that the declaration does not explain, and too many of them; count the others."""
    counts = before.groupBy("_snapshot").agg(F.count("*").alias("living"), F.count_if("_is_missing").alias("gone"))
    seen = {row["_snapshot"]: (int(row["living"]), int(row["gone"])) for row in counts.collect()} if new else {}
    for one in new:
        living, gone = seen.get(one.position, (0, 0))
        if not gone:
            continue
        of_time = f"the snapshot of {one.time or one.name}"
        if meaning.is_whole is None:
            raise LostDeletesError(
                f"table {context.table.name!r}: {of_time} lacks {gone:,} of {counted(living, 'row')} that the table "
                "had: they were deleted at the source, or the snapshot has some rows only; it is in bronze, nothing "
                "of the batch is visible past it",
                hint="if the connector reads all rows (no snapshot.select.statement.overrides, no condition of a "
                "signal), set snapshots: whole in the source, and they are deleted; else snapshots: partial, and they "
                "stay; then run again",
            )
        name = f"table {context.table.name!r}: {of_time}"
        verify_deletes(name, living, gone, meaning.limit, of="the table at that time")
        context.report.warnings.append(f"{of_time} lacks {counted(gone, 'row')}: deleted, as snapshots: whole says")


def _with_deletes(contract: Contract, rows: DataFrame, missing: DataFrame, meaning: SnapshotMeaning) -> DataFrame:
    """Return the rows with a delete of each missing row."""
    fields = {name.lower(): name for name, _ in contract.fields}
    times = {column.name for column in contract.columns if fields.get(column.name.lower()) == meaning.time}
    time, lacks = F.col("_time").cast("timestamp"), [name for name in contract.sequence_by if name not in times]
    known = F.array(*(F.lit(column.name) for column in contract.columns if column.name not in lacks))
    values = {
        **{column.name: time if column.name in times else F.lit(None) for column in contract.columns},
        **{key: F.col(quote(key)) for key in contract.keys},
        r.CLASS: F.lit(r.DELETE),
        r.POSITION: F.col("_snapshot"),
        r.ROW: F.lit(ROW_OF_DELETE),
        r.FILE: F.col("_file"),
        r.BATCH: F.greatest("_batch", "_least_batch"),
        r.KNOWN: known if lacks else F.lit(None),
        r.SOURCE_TIME: time,
    }
    made = [values.get(one.name, F.lit(None)).cast(one.dataType).alias(one.name) for one in rows.schema]
    return rows.unionByName(missing.select(*made))
