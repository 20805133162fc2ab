"""Check rules of whole marts on the driver, for a row delta in its memory.

Arrow looks values up in the mart's files. This takes a fraction of the time of a Spark job, whose planning and code
generation cost more than reading the columns. Spark checks rules whose values Arrow compares differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.lake.refs import is_missing
from frazil.lake.row_lookup import count_matching_rows, find_rows
from frazil.runner.batch.driver_batch import UNREADABLE, mart_files
from frazil.spec import CATALOG
from frazil.spec.sql.sql import mart_named, referenced_fields
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from frazil.lake.table_files import TableFiles
    from frazil.runner.apply.left_rows import LeftInMemory
    from frazil.runner.table_run import TableRun
    from frazil.spec import References, Rule

Count = tuple[int, str | None]
"""The count of a rule, and the place of the first row that breaks it."""

_PLACE: Final = "_cdc_place"
_OF_LIVING: Final = {"is_current": True, "is_deleted": False}
"""Flags of a mart and their values for living rows, as in :func:`frazil.marts.counts.living_rows`."""


def counts_on_driver(
    context: TableRun, path: tuple[str, ...], rules: Sequence[tuple[Rule, Sequence[str]]], left: LeftInMemory
) -> list[Count] | NeedsSpark:
    """Return the count of each rule for the mart after a row delta, or why Spark must count.

    Args:
        context: the table's part of the run.
        path: table of the mart, still without the batch.
        rules: the rules, each with its columns as the table spells them.
        left: the row delta.

    Cost: for each rule a scan of its columns in one process; Spark counts for marts above ``driver_scan_bytes``.
    """
    counts = []
    try:
        here = mart_files(context, path)
        if isinstance(here, NeedsSpark):
            return here
        judge = _Judge(context=context, path=path, here=here, left=left)
        for rule, columns in rules:
            count = judge.count(rule, columns)
            if isinstance(count, NeedsSpark):
                return count
            counts.append(count)
    except UNREADABLE:
        return NeedsSpark("files")
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    """The mart after a row delta, for the rules to check.

    Attributes:
        context, path, left: as :func:`counts_on_driver` takes them.
        here: the mart's files.
    """

    context: TableRun
    path: tuple[str, ...]
    here: TableFiles
    left: LeftInMemory

    def count(self, rule: Rule, columns: Sequence[str]) -> Count | NeedsSpark:
        """Return the count of a rule; Spark is needed if it compares the values differently."""
        if rule.unique is not None:
            return self._shared(columns)
        if rule.references is not None:
            return self._dangling(columns, rule.references)
        number = count_matching_rows(self.here, _flags(self.here, self.left.columns))
        return number if isinstance(number, NeedsSpark) else (number, None)

    def _shared(self, columns: Sequence[str]) -> Count | NeedsSpark:
        """Count the new rows whose values another new or remaining row has."""
        new = self._new(columns)
        kept = self._kept(new.select([*columns]))
        if isinstance(kept, NeedsSpark):
            return kept
        numbers = new.group_by([*columns]).aggregate([([], "count_all")])
        repeated = numbers.filter(pc.greater(numbers["count_all"], 1))
        is_shared = pc.or_(_are_in(new, kept, columns), _are_in(new, repeated, columns))
        return _first_of(new.filter(is_shared))

    def _dangling(self, columns: Sequence[str], reference: References) -> Count | NeedsSpark:
        """Count the new rows whose values are missing in the referenced mart, which may be this one after the batch."""
        found = mart_named(self.context.pipeline, reference.to)
        if found is None:
            return NeedsSpark("files")
        table, _ = found
        new, fields = self._new(columns), referenced_fields(reference, table)
        values = new.select([*columns]).rename_columns([*fields])
        if table.name != self.context.table.name:
            others = self._others(reference.to, values, [column.name for column in table.columns or ()])
        elif reference.to == self.path[-1]:
            kept = self._kept(values)
            others = kept
            if not isinstance(kept, NeedsSpark):
                others = pa.concat_tables([kept, self.left.new.select([*fields]).cast(kept.schema)])
        else:
            return NeedsSpark("files")
        if isinstance(others, NeedsSpark):
            return others
        there = others.select([*fields]).rename_columns([*columns])
        return _first_of(new.filter(pc.invert(_are_in(new, there, columns))))

    def _new(self, columns: Sequence[str]) -> pa.Table:
        """Return the new rows without NULL in some columns, with their places in the source."""
        new = self.left.new
        place = pc.binary_join_element_wise(new[r.POSITION], new[r.ROW].cast(pa.string()), " row ")
        is_known = reduce(pc.and_, (pc.is_valid(new[name]) for name in columns))
        return new.select([*columns]).append_column(_PLACE, place).filter(is_known)

    def _kept(self, values: pa.Table) -> pa.Table | NeedsSpark:
        """Return the values of the mart's remaining living rows that have one of some values."""
        keys, names = self.left.keys, values.column_names
        held = _living(self.here, values, [key for key in keys if key not in names], self.left.columns)
        if isinstance(held, NeedsSpark):
            return held
        gone = self.left.replaced.cast(pa.schema([held.schema.field(key) for key in keys]))
        return held.filter(pc.invert(_are_in(held, gone, keys))).select(names)

    def _others(self, mart: str, values: pa.Table, columns: Collection[str]) -> pa.Table | NeedsSpark:
        """Return the living rows of another table's mart that have one of some values."""
        path = (CATALOG, self.context.pipeline.lake.namespaces.marts, mart)
        try:
            there = mart_files(self.context, path, is_own=False)
        except Exception as error:
            if not is_missing(error):
                raise
            return NeedsSpark("files")
        return there if isinstance(there, NeedsSpark) else _living(there, values, (), columns)


def _flags(files: TableFiles, columns: Collection[str]) -> dict[str, bool]:
    """Return the flags of a mart with their values for living rows; ``columns`` are the contract's columns."""
    own = {name.lower() for name in columns}
    is_flag = {name: files.fields.get(name, (0, None))[1] == pa.bool_() and name not in own for name in _OF_LIVING}
    return {name: wanted for name, wanted in _OF_LIVING.items() if is_flag[name]}


def _living(
    files: TableFiles, values: pa.Table, also: Sequence[str], columns: Collection[str]
) -> pa.Table | NeedsSpark:
    """Return the living rows of a mart that have one of some values."""
    flags = _flags(files, columns)
    rows = find_rows(files, values, [*also, *flags])
    if isinstance(rows, NeedsSpark):
        return rows
    for name, wanted in flags.items():
        rows = rows.filter(pc.fill_null(pc.equal(rows[name], wanted), fill_value=True))
    return rows


def _are_in(rows: pa.Table, others: pa.Table, names: Sequence[str]) -> pa.ChunkedArray:
    """Return for each row whether ``others`` has its values; NULL never matches."""
    number = "_cdc_number"
    mine = rows.select([*names]).append_column(number, pa.array(range(rows.num_rows), pa.int64()))
    theirs = others.select([*names]).cast(pa.schema([mine.schema.field(name) for name in names]))
    found = mine.join(theirs, keys=[*names], join_type="left semi")
    return pc.is_in(mine[number], value_set=found[number])


def _first_of(rows: pa.Table) -> Count:
    """Return the number of rows and their least place."""
    return rows.num_rows, pc.min(rows[_PLACE]).as_py()
