"""The ledger of a bronze table: read once, then kept level by the runs of this process that take files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.older_spark import to_arrow
from frazil.sources.ledger import LEDGER_FIELDS, Ledger
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.runner.table_run import TableRun

_COLUMNS: Final = (r.FILE, r.POSITION, r.BATCH, r.LEDGER)

_known: Final[dict[tuple[str, ...], tuple[int | None, Ledger]]] = {}
"""Ledgers by the path of their table, each with the snapshot it was read at.

A snapshot never changes, so one that is the table's newest tells all; any other, be it of another lake's table
with the same name, tells nothing, and the ledger is read again.
"""


def read_ledger(context: TableRun) -> Ledger:
    """Return the files that bronze knows.

    Cost: one Spark job over the ledger's rows, and none while only runs of this process have written to the table.
    """
    path, at = context.bronze, context.head(context.bronze).snapshot_id
    if at is None:
        return Ledger()
    snapshot, ledger = _known.get(path, (None, Ledger()))
    if snapshot != at:
        ledger = _read(context)
        _known[path] = at, ledger
    return ledger


def keep_ledger(context: TableRun, before: TableSnapshot, rows: Iterable[pa.Table]) -> None:
    """Add to a known ledger what the batch brought that has just been published.

    Args:
        context: the table's part of the run.
        before: where bronze stood before.
        rows: the batch's rows of the ledger, among any others.
    """
    snapshot, ledger = _known.pop(context.bronze, (None, Ledger()))
    if snapshot == before.snapshot_id:
        for some in rows:
            ledger.add(_lines(some.filter(pc.equal(some[r.KIND], r.LEDGER_ROW))))
        _known[context.bronze] = context.head(context.bronze).snapshot_id, ledger


def _read(context: TableRun) -> Ledger:
    rows = context.spark.table(quote(*context.bronze)).where(f"{r.KIND} = {literal(r.LEDGER_ROW)}")
    return Ledger.of(_lines(to_arrow(rows.select(*_COLUMNS))))


def _lines(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    told = rows[r.LEDGER].combine_chunks()
    columns = [*(rows[name] for name in _COLUMNS[:-1]), *(pc.struct_field(told, name) for name in LEDGER_FIELDS)]
    return zip(*(column.to_pylist() for column in columns), strict=True)
