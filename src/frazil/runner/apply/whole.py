"""All rows of a mart from all changes, and what became of its keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.catalog.trouble import translate_error
from frazil.iceberg.damage import DamagedTableError
from frazil.marts.all_rows import all_rows, multi_change_keys, single_change_rows
from frazil.marts.counts import compared, late_changes, living
from frazil.marts.late import filter_keys
from frazil.spec import History

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.marts.fold_spec import FoldSpec
    from frazil.plan.policy import Policy
    from frazil.runner.apply.changes import BatchChanges
    from frazil.spec import Current


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeCounts:
    """What became of the keys of a mart that was written whole, as ``MartReport`` defines it."""

    inserted: int
    updated: int = 0
    deleted: int = 0


def whole_rows(mart: Current | History, changes: BatchChanges, spec: FoldSpec, policy: Policy) -> DataFrame:
    """Return all rows of a mart; only keys with more than one change are folded, unless they are many.

    A full load has one record a key: its rows go straight through and keep the order of their files.
    """
    rows, cache = changes.all(spec), changes.cache
    keys = cache.keep(("multi_change_keys", changes.upto, spec.fills), lambda: multi_change_keys(rows, spec))
    times = changes.known_times() if isinstance(mart, History) and mart.bitemporal else None
    if keys.count() > policy.broadcast_changes:
        return all_rows(mart, rows, spec, times)
    if keys.isEmpty():
        return single_change_rows(mart, rows, spec, times)
    single, others = (filter_keys(rows, keys, spec.keys, among=among) for among in (False, True))
    return single_change_rows(mart, single, spec, times).unionByName(all_rows(mart, others, spec, times))


def count_whole(before: DataFrame | None, after: DataFrame, spec: FoldSpec) -> WholeCounts:
    """Count what became of the keys of a mart.

    Where its keys were others before, or what it was cannot be read any more, all of them came.

    Args:
        before: its rows as they were; None where there were none.
        after: its rows as they are.
        spec: the table's parts.

    Cost: of a first load a count of its living rows; else a shuffle of the keys of all living rows, before and after.
    """
    living_after = living(after, spec)
    if before is None or not {*spec.keys, *spec.order_columns} <= {*before.columns}:
        return WholeCounts(inserted=living_after.count())
    try:
        [counts] = compared(living(before, spec), living_after, spec).collect()
    except Exception as error:
        if not isinstance(translate_error(error), DamagedTableError):
            raise
        # A lost file is no reason not to write the mart again: that is its cure.
        return WholeCounts(inserted=living_after.count())
    return WholeCounts(inserted=counts.inserted, updated=counts.updated, deleted=counts.deleted)


def count_late(changes: BatchChanges, spec: FoldSpec, *, after: int) -> int:
    """Count the changes after a batch that are late.

    Cost: a shuffle of all changes, once for all marts of the table.
    """
    rows, name = changes.all(spec), ("late", after, changes.upto)
    [[late]] = changes.cache.keep(name, lambda: late_changes(rows, spec, after=after)).collect()
    return int(late)
