"""Records of bronze become change rows in Arrow, where that takes no more than the usual forms of their types.

What is a plain change is proven to be the row that :mod:`frazil.silver.changes` makes of the same record. All other
records, bad ones among them, are left to that one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.silver.arrow_types import is_provable, proven
from frazil.silver.rules import NOT_NULL, row_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.silver.baseline import Baseline
    from frazil.silver.contract import Contract
    from frazil.sources.base import PlainMeaning

_PASSED_ON = (r.POSITION, r.ROW, r.FILE, r.BATCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainChanges:
    """Makes plain changes of a table's records.

    Attributes:
        contract: all of its columns are fields, of types that can be proven.
        meaning: what records mean.
        field_of: column -> the field of bronze that it is made of.
        not_null: columns of which no NULL is a plain value.
        baseline: changes that came too late for it are not plain; None for none.
    """

    contract: Contract
    meaning: PlainMeaning
    field_of: dict[str, str]
    not_null: frozenset[str]
    baseline: Baseline | None = None

    @classmethod
    def of(cls, contract: Contract, meaning: PlainMeaning | None, baseline: Baseline | None = None) -> Self | None:
        """Return what makes the changes of a contract; None where some setting asks for more."""
        fields = {name.lower(): name for name, _ in contract.fields}
        asks_more = bool(contract.blocked or contract.whole or contract.renames or contract.ignores_nulls)
        rules = row_rules(contract)
        if meaning is None or asks_more or any(rule.name != NOT_NULL for rule in rules):
            return None
        if any(rule.on_violation != "quarantine" for rule in rules):
            return None
        for column in contract.columns:
            if column.expr is not None or column.name.lower() not in fields or not is_provable(column.type):
                return None
        return cls(
            contract=contract,
            meaning=meaning,
            field_of={column.name: fields[column.name.lower()] for column in contract.columns},
            not_null=frozenset({*contract.keys, *contract.sequence_by, *(rule.column or "" for rule in rules)}),
            baseline=baseline,
        )

    @property
    def reads(self) -> list[str]:
        """Return the columns of bronze that plain changes are made of."""
        own = [name for name in (self.meaning.operation, self.meaning.problem) if name is not None]
        return [*dict.fromkeys((*self.field_of.values(), *own, r.KIND, r.KNOWN, *_PASSED_ON))]

    def made_of(self, records: pa.RecordBatch) -> tuple[pa.Table, Any]:
        """Return the plain changes among records of bronze, and which records those are.

        Args:
            records: with the columns of :attr:`reads`, in any order.

        Returns:
            Rows in the shape of ``silver.<t>_changes``, and booleans without NULL.
        """
        classes, is_known = self._classes(records[self.meaning.operation])
        conditions = [pc.equal(records[r.KIND], r.RECORD), self._is_whole(records[r.KNOWN]), is_known]
        if self.meaning.problem is not None:
            conditions.append(records[self.meaning.problem].is_null())
        columns: dict[str, Any] = {}
        for column in self.contract.columns:
            columns[column.name], is_proven = proven(records[self.field_of[column.name]], column.type)
            conditions.append(is_proven)
            if column.name in self.not_null:
                conditions.append(columns[column.name].is_valid())
        if self.baseline is not None:
            conditions += _are_in_time(self.contract, self.baseline, columns, records)
        is_plain = reduce(pc.and_, conditions)
        columns[r.CLASS] = classes
        columns |= {name: records[name] for name in _PASSED_ON}
        columns[r.KNOWN] = pa.nulls(len(records), pa.list_(pa.string()))
        made = pa.table(columns)
        return (made if pc.all(is_plain).as_py() else made.filter(is_plain)), is_plain

    def _is_whole(self, carried: Any) -> Any:
        """Return which records carry the fields of all columns: those that list none, and those that list them."""
        if carried.null_count == len(carried):
            return carried.is_null()
        fields = pa.array([*{name.lower() for name in self.field_of.values()}])
        is_ours = pc.is_in(pc.utf8_lower(carried.flatten()), fields).to_numpy(zero_copy_only=False)
        record = pc.list_parent_indices(carried).to_numpy(zero_copy_only=False)
        listed = np.bincount(record[is_ours], minlength=len(carried))
        return pc.or_(carried.is_null(), pa.array(listed == len(fields)))

    def _classes(self, operations: Any) -> tuple[Any, Any]:
        place = pc.index_in(operations, pa.array([*self.meaning.classes], pa.string()))
        return pa.array([*self.meaning.classes.values()], pa.string()).take(place), place.is_valid()


def _are_in_time(
    contract: Contract, baseline: Baseline, columns: dict[str, Any], records: pa.RecordBatch
) -> Iterator[Any]:
    """Yield booleans: all are true of a change that may still be applied, by its times and its place."""
    times: str | None = contract.sequence_by[0] if contract.sequence_by else None
    if baseline.by_place:
        times = contract.event_time if baseline.served.tracked else None
        if baseline.position is not None:
            at, row = records[r.POSITION], records[r.ROW]
            is_same = pc.and_(pc.equal(at, baseline.position), pc.greater(row, baseline.row))
            yield pc.fill_null(pc.or_(pc.greater(at, baseline.position), is_same), fill_value=False)
    if times is not None:
        horizon = pa.scalar(datetime.fromisoformat(f"{baseline.before}+00:00")).cast(pa.timestamp("us", "UTC"))
        is_newer = pc.greater_equal(columns[times], horizon.cast(columns[times].type))
        yield pc.fill_null(is_newer, fill_value=False)
