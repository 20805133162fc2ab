"""Normalize a batch on the driver: Arrow types plain records, and Spark the others.

Spark takes ten times as long for the usual forms of values. Both produce the same result: Spark gets every record that
is not proven to be a plain change.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.host import usable_cores
from frazil.lake.commit import takes_row_deltas
from frazil.lake.table_files import local_data_files
from frazil.older_spark import to_arrow
from frazil.runner.batch.batch_stats import Newest, newest_of
from frazil.runner.batch.bronze_records import bronze_records, columns_since, corrections_after
from frazil.runner.batch.driver_batch import spark_frame, spark_types
from frazil.runner.key_changes.moves import NO_MOVE, last_move
from frazil.runner.limits.batch_limits import count_behind, is_limited, known_newest
from frazil.runner.steps.snapshots import SourceSnapshot, find_snapshots, snapshot_meaning
from frazil.runner.steps.truncates import Horizon, known_truncates
from frazil.silver import unsequenced
from frazil.silver.arrow import PlainChanges
from frazil.silver.baseline import baseline_of
from frazil.sources.kinds import source_of
from frazil.spark.expressions import VALUE, is_kept
from frazil.spec.sql.names import quote
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.runner.key_changes.moves import Place
    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.steps import Normalize

_AT_ONCE: Final = 65_536
_KINDS: Final = (r.RECORD, r.BAD)
_KEPT: Final = "kept"


@dataclass(frozen=True, slots=True)
class _File:
    """Rows of bronze in a data file."""

    path: Path

    def pieces(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield all rows in pieces, with those of the columns that exist."""
        with pq.ParquetFile(self.path) as file:
            has = file.schema_arrow
            yield from file.iter_batches(_AT_ONCE, columns=[name for name in names if name in has.names])

    def rows(self) -> pa.Table:
        """Return all rows."""
        return pq.read_table(self.path, partitioning=None)


@dataclass(frozen=True, slots=True)
class _Held:
    """Rows of bronze in the driver's memory."""

    table: pa.Table

    def pieces(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield all rows in pieces, with those of the columns that exist."""
        has = {*self.table.schema.names}
        yield from self.table.select([name for name in names if name in has]).to_batches()

    def rows(self) -> pa.Table:
        """Return all rows."""
        return self.table


@dataclass(slots=True)
class _Sorted:
    """A part of a batch, split into plain changes and other records.

    Attributes:
        made: the plain changes, while the batch is held in memory.
        count, partial, untimed, behind, void, newest: values for the plain changes, as in :class:`PlainBatch`.
        left: places of the other records.
    """

    made: list[pa.Table] = field(default_factory=list)
    count: int = 0
    partial: int = 0
    untimed: int = 0
    behind: int = 0
    void: int = 0
    newest: Newest = field(default_factory=Newest)
    left: list[pa.Array] = field(default_factory=list)


@dataclass(slots=True)
class PlainBatch:
    """A batch, split into plain changes and other records.

    Attributes:
        changes: converts records to plain changes.
        after, upto: the batches ``after < batch <= upto`` of bronze.
        parts: rows of bronze that have the batches.
        spark: session for the rules that Arrow cannot check.
        count: number of plain changes.
        partial: number of upserts among them that lack columns.
        untimed: number of deletes among them without a time of the source.
        known: greatest order and event time of earlier changes.
        behind: number of changes that are not after all earlier ones.
        horizon: place and order after all truncates in silver; None without truncates.
        void: number of changes that may be older than a truncate.
        newest: their greatest order and event time.
        others: the other records, as rows of bronze; None without any.
        held: the plain changes, while they are few; else None.
        last_move: place of the newest change of key in silver; the batch comes after it. None if changes before a
            change of key do not matter.
        snapshot: newest finished snapshot of the source; all changes of the batch come after it, or are its reads.
    """

    changes: PlainChanges
    after: int
    upto: int
    parts: Sequence[_File | _Held]
    spark: SparkSession
    count: int = 0
    partial: int = 0
    untimed: int = 0
    known: Newest = field(default_factory=Newest)
    behind: int = 0
    horizon: Horizon | None = None
    void: int = 0
    newest: Newest = field(default_factory=Newest)
    others: pa.Table | None = None
    held: list[pa.Table] | None = field(default_factory=list)
    last_move: Place | None = None
    snapshot: SourceSnapshot | None = None

    def streams(self) -> list[Iterator[pa.Table]]:
        """Return the plain changes, in streams that can be read in parallel."""
        if self.held is not None:
            return [iter(self.held)]
        return [self._plain_rows(part) for part in self.parts]

    def _plain_rows(self, part: _File | _Held) -> Iterator[pa.Table]:
        for records, _ in self._pieces(part):
            yield self._plain(records)[0]

    def sort(self, held_bytes: int, others_bytes: int) -> NeedsSpark | None:
        """Split the batch into plain changes and other records; return why Spark must compute it all, if it must.

        Args:
            held_bytes: limit for plain changes in memory.
            others_bytes: limit for the other records.

        Cost: one parallel pass over the parts, and one over the parts with other records.
        """
        others, size = [], 0
        with ThreadPoolExecutor(usable_cores()) as pool:
            sort = partial(self._sorted, held_bytes=held_bytes)
            for part, found in zip(self.parts, pool.map(sort, self.parts), strict=True):
                self._count(found)
                self._hold(found.made, held_bytes)
                if any(map(len, found.left)):
                    others.append(part.rows().take(pa.chunked_array(found.left)))
                    size += others[-1].nbytes
                if size > others_bytes or self.void:
                    pool.shutdown(cancel_futures=True)
                    return NeedsSpark("early_change" if self.void else "unusual")
        if others:
            self.others = self._with_fields(pa.concat_tables(others, promote_options="default"))
        return None

    def _sorted(self, part: _File | _Held, held_bytes: int) -> _Sorted:
        """Split a part into plain changes and other records."""
        found = _Sorted()
        for records, places in self._pieces(part):
            made, is_plain = self._plain(records)
            found.left.append(places.filter(pc.invert(is_plain)))
            found.count += made.num_rows
            lists = pc.and_(made[r.KNOWN].is_valid(), pc.equal(made[r.CLASS], r.UPSERT))
            found.partial += pc.sum(lists).as_py() or 0
            untimed = pc.and_(pc.equal(made[r.CLASS], r.DELETE), pc.is_null(made[r.SOURCE_TIME]))
            found.untimed += pc.sum(untimed).as_py() or 0
            found.behind += count_behind(made, self.changes.contract, self.known)
            if self.horizon is not None and self.horizon.newest.order is not None:
                found.void += count_behind(made, self.changes.contract, self.horizon.newest)
            found.newest = found.newest.later(newest_of(made, self.changes.contract))
            if self.held is not None:
                found.made.append(made)
                if sum(one.nbytes for one in found.made) > held_bytes:
                    self.held = None
        return found

    def _with_fields(self, rows: pa.Table) -> pa.Table:
        """Add NULL columns for fields that are newer than the rows' files."""
        for name, _ in self.changes.contract.fields:
            if name not in rows.column_names:
                rows = rows.append_column(name, pa.nulls(rows.num_rows, pa.string()))
        return rows

    def may_truncate(self) -> bool:
        """Return whether some record has an operation that plain changes cannot have."""
        meaning = self.changes.meaning
        known = pa.array([*meaning.classes], pa.string())
        said = [meaning.operation] if meaning.operation is not None else []
        pieces = (piece[0].drop_null() for part in self.parts if said for piece in part.pieces(said))
        return not all(pc.all(pc.is_in(piece, known)).as_py() in {True, None} for piece in pieces)

    def has_any(self, field: str) -> bool:
        """Return whether some record has a value in a column of bronze."""
        pieces = (piece for part in self.parts for piece in part.pieces([field]))
        return any(piece.num_columns and piece[0].null_count < len(piece) for piece in pieces)

    def may_move(self) -> bool:
        """Return whether some record may change a key, or precedes a change of key in silver."""
        if not self.changes.meaning.old_keys:
            return False
        pieces = (records for part in self.parts for records, _ in self._pieces(part))
        return any(self.changes.may_move(records) or self._is_late(records) for records in pieces)

    def may_come_before(self, position: str) -> bool:
        """Return whether some record is not after a position."""
        pieces = (piece[0].drop_null() for part in self.parts for piece in part.pieces([r.POSITION]))
        return any(len(piece) > 0 and pc.min(piece).as_py() <= position for piece in pieces)

    def _is_late(self, records: pa.RecordBatch) -> bool:
        if self.last_move in {None, NO_MOVE}:
            return False
        least = pc.min(records[r.POSITION]).as_py()
        return least is not None and least <= self.last_move[0]

    def _plain(self, records: pa.RecordBatch) -> tuple[pa.Table, pa.Array]:
        """Return the plain changes among records, and a mask of these records."""
        made, is_plain = self.changes.made_of(records)
        if not self.changes.exprs or not made.num_rows:
            return made, is_plain
        is_kept = self._keeps(made)
        if pc.all(is_kept).as_py():
            return made, is_plain
        places = pc.indices_nonzero(is_plain).filter(is_kept)
        return made.filter(is_kept), pc.is_in(pa.array(np.arange(len(records), dtype=np.uint64)), places)

    def _keeps(self, made: pa.Table) -> pa.Array:
        """Check rules over several columns with Spark; return the changes that fulfil all of them, as a mask.

        Cost: a Spark job over the columns of the rules.
        """
        exprs = self.changes.exprs
        types = {column.name: column.type for column in self.changes.contract.columns} | {r.CLASS: "string"}
        read = [name for name in types if name == r.CLASS or any(name in rule.columns for rule in exprs)]
        frame = spark_frame(self.spark, made.select(read), spark_types({name: types[name] for name in read}))
        is_judged = F.col(r.CLASS) == r.UPSERT
        kept = [is_kept(self.spark, rule.expr or "") for rule in exprs]
        keeps = [one.isNotNull() & F.coalesce(one[VALUE] != "false", F.lit(True)) for one in kept]
        all_kept = ~is_judged | reduce(lambda some, one: some & one, keeps)
        return to_arrow(frame.select(all_kept.alias(_KEPT)))[_KEPT].combine_chunks()

    def _count(self, found: _Sorted) -> None:
        self.count += found.count
        self.partial += found.partial
        self.untimed += found.untimed
        self.behind += found.behind
        self.void += found.void
        self.newest = self.newest.later(found.newest)

    def _hold(self, made: Sequence[pa.Table], held_bytes: int) -> None:
        if self.held is not None:
            self.held += made
            if sum(one.nbytes for one in self.held) > held_bytes:
                self.held = None

    def _pieces(self, part: _File | _Held) -> Iterator[tuple[pa.RecordBatch, Any]]:
        """Yield the records of a part, with the columns that changes need, and their places in it."""
        start = 0
        for piece in part.pieces(self.changes.reads):
            places = pa.array(np.arange(start, start + len(piece)))
            start += len(piece)
            batch, has = piece[r.BATCH], {*piece.schema.names}
            is_here = pc.and_(pc.greater(batch, self.after), pc.less_equal(batch, self.upto))
            is_here = pc.and_(is_here, pc.is_in(piece[r.KIND], pa.array(_KINDS)))
            records = pa.RecordBatch.from_pydict(
                {name: piece[name] if name in has else pa.nulls(len(piece), pa.string()) for name in self.changes.reads}
            )
            whole = pc.all(is_here).as_py()
            yield (records, places) if whole else (records.filter(is_here), places.filter(is_here))


def plain_batch(
    context: TableRun,
    step: Normalize,
    contract: Contract,
    bronze: Mapping[str, Any],
    at_hand: pa.Table | None,
) -> PlainBatch | NeedsSpark:
    """Return a batch split into plain changes and other records, or why Spark must compute it all.

    Args:
        context: the table's part of the run.
        step: the batches.
        contract: the table's contract.
        bronze: bookmark of bronze.
        at_hand: rows of bronze in the driver's memory; None reads its files.
    """
    base = context.head(context.changes)
    try:
        horizon = Horizon.of(known_truncates(base.bookmark), contract)
    except ValueError:
        return NeedsSpark("early_change")
    if corrections_after(bronze, step.after):
        return NeedsSpark("corrections")
    changes = _converter(context, contract, bronze)
    if isinstance(changes, NeedsSpark):
        return changes
    parts = _files(context, step) if at_hand is None else [_Held(at_hand)]
    if isinstance(parts, NeedsSpark):
        return parts
    known = known_newest(context) if is_limited(context, step) else Newest()
    batch = PlainBatch(changes, step.after, step.upto, parts, context.spark, known=known, horizon=horizon)
    if changes.meaning.old_keys:
        batch.last_move = last_move(context)
    return (
        _obstacle(context, batch, base.bookmark)
        or _take_snapshot(context, step, contract, batch)
        or batch.sort(context.policy.plain_bytes, context.policy.row_delta_bytes)
        or batch
    )


def _converter(context: TableRun, contract: Contract, bronze: Mapping[str, Any]) -> PlainChanges | NeedsSpark:
    """Return the converter of the table's records to plain changes."""
    meaning = source_of(context.table).meaning({name.lower(): name for name, _ in contract.fields}, r.POSITION)
    baseline = baseline_of(context.head(context.changes).bookmark)
    return PlainChanges.of(contract, meaning.plain, columns_since(contract, bronze), baseline)


def _obstacle(context: TableRun, batch: PlainBatch, silver: Mapping[str, Any]) -> NeedsSpark | None:
    """Return why no record of a batch can be a plain change; None if some can. ``silver`` is silver's bookmark."""
    if context.table.source.truncates and batch.may_truncate():
        return NeedsSpark("truncate")
    if batch.may_move():
        return NeedsSpark("key_change")
    places = [silver.get(unsequenced.POSITION), None if batch.horizon is None else batch.horizon.position]
    if any(batch.may_come_before(place) for place in places if place is not None):
        return NeedsSpark("early_change")
    return None


def _take_snapshot(context: TableRun, step: Normalize, contract: Contract, batch: PlainBatch) -> NeedsSpark | None:
    """Note the newest snapshot of the source in a batch; return an obstacle if it may delete rows, or comes late."""
    base = context.head(context.changes)
    batch.snapshot = SourceSnapshot.in_silver(base.bookmark)
    if batch.snapshot is not None and batch.may_come_before(batch.snapshot.end):
        return NeedsSpark("early_change")
    meaning = snapshot_meaning(context, contract)
    if meaning is None or not batch.has_any(meaning.end):
        return None
    if base.snapshot_id is not None:
        return NeedsSpark("snapshot")
    records = bronze_records(context, step, context.head(context.bronze).bookmark)
    for one in find_snapshots(context, contract, records, None):
        if batch.may_come_before(one.position):
            return NeedsSpark("snapshot")
        batch.snapshot = one
    return None


def _files(context: TableRun, step: Normalize) -> list[_File] | NeedsSpark:
    """Return the files of bronze with a step's records."""
    at = context.head(context.bronze).snapshot_id
    if at is None or not takes_row_deltas(context.spark, quote(*context.changes), deletes=False):
        return NeedsSpark("files")
    kinds = {r.KIND: [*_KINDS]}
    found = local_data_files(context.spark, quote(*context.bronze), at, kinds, (r.BATCH, step.after))
    if isinstance(found, NeedsSpark):
        return found
    return [_File(path) for path in found] or NeedsSpark("files")
