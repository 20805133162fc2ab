"""The keys of a batch in the driver's memory whose rows are made from all their changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.lake.file_writer import FILE_PATH, LIVING, POS
from frazil.lake.row_lookup import AT_FILE, AT_POS
from frazil.marts import late
from frazil.marts.arrow.fill import fill_arrow, lacking_columns
from frazil.marts.arrow.fold import event_times, grouped_keys, has_ties, match_keys
from frazil.marts.fold_spec import EVENT_TIME
from frazil.marts.verdict import RECOMPUTE
from frazil.spec import History

if TYPE_CHECKING:
    from frazil.marts.fold_spec import FoldSpec
    from frazil.runner.apply.mart_batch import MartBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeKeys:
    """Some keys of a batch, with all that there is of them.

    Attributes:
        changes: all their changes, the batch's among them, in the shape of silver, each with every column.
        places: where the mart's rows of them are, as :mod:`frazil.lake.row_delta` takes it.
    """

    changes: pa.Table
    places: pa.Table

    def among(self, changes: pa.Table, keys: pa.Table, spec: FoldSpec) -> pa.Table:
        """Return the changes of a batch with all changes of these keys in place of the batch's, with event time.

        Args:
            changes: of the batch, with event time.
            keys: folded, with verdicts.
            spec: the table's parts.
        """
        is_whole = keys[RECOMPUTE].take(match_keys(grouped_keys(changes, spec), keys, spec.keys))
        every = self.changes.append_column(EVENT_TIME, event_times(self.changes, spec))
        return pa.concat_tables([changes.filter(pc.invert(is_whole)).select(every.column_names), every])


def whole_keys(batch: MartBatch, keys: pa.Table) -> WholeKeys | None:
    """Find all changes of some folded keys, and all rows of the mart.

    None where Spark must: some upserts of the table came without columns that it had, or there are too many changes,
    or of other types than the batch's.

    Cost: a look at silver for the keys, and in a history one at the mart.
    """
    spec, shape = batch.spec, batch.changes.in_memory(batch.spec).schema
    if spec.partial:
        return None
    names = [*dict.fromkeys((*spec.keys, *spec.columns, r.CLASS, r.POSITION, r.ROW, r.BATCH, r.SOURCE_TIME))]
    some = keys.select([*spec.keys])
    changes = batch.changes.find_all(some, [name for name in names if name not in spec.keys])
    if changes is None or any(changes.schema.field(name).type != shape.field(name).type for name in names):
        return None
    if has_ties(changes, spec):
        return None
    changes = changes.select(names).append_column(r.KNOWN, pa.nulls(changes.num_rows, shape.field(r.KNOWN).type))
    lacking = lacking_columns(changes, spec)
    if lacking:  # they are of a time when the table had fewer
        if {*lacking} & {*spec.event_times}:
            return None
        nothing = pa.table({name: pa.nulls(some.num_rows, shape.field(name).type) for name in lacking})
        changes = fill_arrow(changes, match_keys(grouped_keys(changes, spec), keys, spec.keys), nothing, spec)
    if isinstance(batch.mart, History):
        rows = batch.target.find(some, [LIVING])
        if rows is None:
            return None
    else:
        rows = keys.filter(keys[late.IN_TARGET])
        rows = rows.append_column(LIVING, pa.repeat(True, rows.num_rows))
    return WholeKeys(changes=changes, places=places(rows, rows[LIVING]))


def places(rows: pa.Table, living: pa.ChunkedArray | pa.Array) -> pa.Table:
    """Return where rows of a mart that were found are; ``living``: of each, whether it is current."""
    return pa.table({FILE_PATH: rows[AT_FILE], POS: rows[AT_POS], LIVING: living})
