"""Normalize a large batch on the driver: what is plain is typed by Arrow, and Spark gets what is left.

Spark takes ten times as long for the usual forms of values. Nothing depends on who does it: what is not proven to be
a plain change is Spark's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.bronze import record as r
from frazil.engine.truncates import known_truncates
from frazil.lake.data_files import local_data_files
from frazil.lake.gateway import is_local
from frazil.lake.row_delta import takes_row_deltas
from frazil.silver.baseline import baseline_of
from frazil.silver.plain_changes import PlainChanges
from frazil.sources.kinds import source_of
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from frazil.engine.table_run import TableRun
    from frazil.lake.snapshot import TableSnapshot
    from frazil.silver.contract import Contract
    from frazil.steps import Normalize

_AT_ONCE: Final = 65_536
_KINDS: Final = (r.RECORD, r.BAD)
_NUMBERED: Final = frozenset({"int", "bigint", "timestamp", "timestamp_ntz"})


@dataclass(slots=True)
class PlainBatch:
    """A batch, its plain changes and its other records apart.

    Attributes:
        changes: makes the plain changes.
        after, upto: the batches ``after < batch <= upto`` of bronze.
        files: files of bronze that have them.
        count: number of plain changes.
        newest: greatest value of the first sequence column among them, as a number; None where it is none.
        others: the other records, as rows of bronze; None where there are none.
        held: the plain changes, as long as they are few.
    """

    changes: PlainChanges
    after: int
    upto: int
    files: list[Path]
    count: int = 0
    newest: int | None = None
    others: pa.Table | None = None
    held: list[pa.Table] | None = field(default_factory=list)

    def rows(self) -> Iterator[pa.Table]:
        """Yield the plain changes."""
        if self.held is not None:
            yield from self.held
            return
        for path in self.files:
            for records, _ in self._pieces(path):
                yield self.changes.made_of(records)[0]

    def sort(self, held_bytes: int, others_bytes: int) -> bool:
        """Tell plain changes from other records; return whether few enough are others.

        Cost: one pass over the files, and one over those that have others.
        """
        others, size = [], 0
        for path in self.files:
            left = []
            for records, places in self._pieces(path):
                made, is_plain = self.changes.made_of(records)
                left.append(places.filter(pc.invert(is_plain)))
                self._count(made, held_bytes)
            if any(map(len, left)):
                others.append(pq.read_table(path, partitioning=None).take(pa.chunked_array(left)))
                size += others[-1].nbytes
                if size > others_bytes:
                    return False
        if others:
            self.others = pa.concat_tables(others, promote_options="default")
        return True

    def _count(self, made: pa.Table, held_bytes: int) -> None:
        self.count += made.num_rows
        newest = _newest(made, self.changes.contract)
        if newest is not None:
            self.newest = newest if self.newest is None else max(self.newest, newest)
        if self.held is not None:
            self.held.append(made)
            if sum(one.nbytes for one in self.held) > held_bytes:
                self.held = None

    def _pieces(self, path: Path) -> Iterator[tuple[pa.RecordBatch, Any]]:
        """Yield the records of a file with the columns that changes are made of, and their places in it."""
        with pq.ParquetFile(path) as file:
            has = file.schema_arrow
            start = 0
            read = [name for name in self.changes.reads if name in has.names]
            for piece in file.iter_batches(_AT_ONCE, columns=read):
                places = pa.array(np.arange(start, start + len(piece)))
                start += len(piece)
                batch = piece[r.BATCH]
                is_here = pc.and_(pc.greater(batch, self.after), pc.less_equal(batch, self.upto))
                is_here = pc.and_(is_here, pc.is_in(piece[r.KIND], pa.array(_KINDS)))
                records = pa.RecordBatch.from_pydict(
                    {
                        name: piece[name] if name in has.names else pa.nulls(len(piece), pa.string())
                        for name in self.changes.reads
                    }
                )
                whole = pc.all(is_here).as_py()
                yield (records, places) if whole else (records.filter(is_here), places.filter(is_here))


def plain_batch(
    context: TableRun, step: Normalize, contract: Contract, base: TableSnapshot, bronze: Mapping[str, Any]
) -> PlainBatch | None:
    """Return a batch with its plain changes apart; None where Spark has to do it all, or has a cluster to do it.

    Args:
        context: the table's part of the run.
        step: which batches.
        contract: the table's contract.
        base: where silver stands.
        bronze: bookmark of bronze.
    """
    if step.rebuild or bronze.get("corrections") or known_truncates(base.bookmark):
        return None
    if not is_local(context.spark):
        return None  # executors share the work
    meaning = source_of(context.table).meaning({name.lower(): name for name, _ in contract.fields}, r.POSITION)
    changes = PlainChanges.of(contract, meaning.plain, baseline_of(base.bookmark))
    at = context.head(context.bronze).snapshot_id
    if changes is None or at is None or not takes_row_deltas(context.spark, quote(*context.changes), deletes=False):
        return None
    files = local_data_files(context.spark, quote(*context.bronze), at, {r.KIND: [*_KINDS]}, (r.BATCH, step.after))
    if not files:
        return None
    batch = PlainBatch(changes, step.after, step.upto, files)
    policy = context.policy
    if context.table.source.truncates and _may_truncate(batch):
        return None
    return batch if batch.sort(policy.plain_bytes, policy.row_delta_bytes) else None


def _may_truncate(batch: PlainBatch) -> bool:
    """Return whether some operation is none of those that plain changes have."""
    meaning = batch.changes.meaning
    known = pa.array([*meaning.classes], pa.string())
    for path in batch.files:
        said = pq.read_table(path, columns=[meaning.operation], partitioning=None)[0].drop_null()
        if not pc.all(pc.is_in(said, known)).as_py():
            return True
    return False


def _newest(made: pa.Table, contract: Contract) -> int | None:
    """Return the greatest value of the first sequence column as a number of the same order; None where it has none."""
    if not contract.sequence_by:
        return None
    name = contract.sequence_by[0]
    kind = next(column.type for column in contract.columns if column.name == name)
    if kind not in {*_NUMBERED, "date"}:
        return None
    numbers = made[name].cast(pa.int32() if kind in {"int", "date"} else pa.int64())
    newest: int | None = pc.max(numbers).as_py()
    return newest
