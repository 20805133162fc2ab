"""Changes of small batches, typed by Arrow in the driver's memory, where texts have the usual forms of their types.

A plain change is proven to be the row that :mod:`frazil.silver.changes` makes of the same record. All other records,
bad ones included, are left to that module. Rules of one column work alike: a value that keeps a rule here keeps it in
Spark too; :func:`frazil.silver.rules.breaks` judges the others.

A proven value equals that of :func:`frazil.silver.cast.exact` for the same text. Other texts may be valid or invalid;
callers leave them to that function.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.silver.rules import row_rules
from frazil.spec.model.kinds.dms import time_in_name
from frazil.spec.model.types import TIMES
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from frazil.silver.baseline import Baseline
    from frazil.silver.contract import Contract
    from frazil.silver.rules import RowRule
    from frazil.sources.base import PlainMeaning
    from frazil.spec.model.types import BeyondMicroseconds

_PASSED_ON = (r.POSITION, r.ROW, r.FILE, r.BATCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainChanges:
    """Converts records of a table to plain changes.

    Attributes:
        contract: a contract whose columns are all fields of provable types.
        meaning: meaning of the records.
        field_of: column -> its field in bronze.
        must: columns that cannot be NULL in a plain change.
        kept: (column, function) of each rule; the function returns a mask of values that keep it. Deletes are exempt.
        exprs: rules over several columns, which the caller must check.
        since: first batch of the newest field; from it on, a record without a list of fields carries all fields.
        baseline: changes that are too late for it are not plain; None without one.
    """

    contract: Contract
    meaning: PlainMeaning
    field_of: dict[str, str]
    must: frozenset[str]
    kept: tuple[tuple[str, Callable[[Any], Any]], ...]
    exprs: tuple[RowRule, ...]
    since: int = 0
    baseline: Baseline | None = None

    @classmethod
    def of(
        cls,
        contract: Contract,
        meaning: PlainMeaning | None,
        since: Mapping[str, int],
        baseline: Baseline | None = None,
    ) -> Self | NeedsSpark:
        """Return the converter of a contract, or why its changes need Spark.

        Args:
            contract: the settled columns.
            meaning: meaning of the source's records; None if only SQL can express it.
            since: column that is newer than the table -> its first batch.
            baseline: the baseline of silver, or None.
        """
        fields = {name.lower(): name for name, _ in contract.fields}
        if meaning is None:
            return NeedsSpark("source")
        if contract.blocked or contract.whole or contract.renames or contract.ignores_nulls:
            return NeedsSpark("setting")
        for column in contract.columns:
            if column.name in contract.zoned:
                return NeedsSpark("column")
            if column.expr is not None or column.name.lower() not in fields or not is_provable(column.type):
                return NeedsSpark("column")
        rules = row_rules(contract)
        kept = [(rule.column, kept_in_arrow(rule)) for rule in rules if rule.column is not None]
        if any(keeps is None for _, keeps in kept):
            return NeedsSpark("rule")
        return cls(
            contract=contract,
            meaning=meaning,
            field_of={column.name: fields[column.name.lower()] for column in contract.columns},
            must=frozenset({*contract.keys, *contract.sequence_by}),
            kept=tuple((name, keeps) for name, keeps in kept if keeps is not None),
            exprs=tuple(rule for rule in rules if rule.column is None),
            since=max(since.values(), default=0),
            baseline=baseline,
        )

    @property
    def reads(self) -> list[str]:
        """Return the columns of bronze that the conversion reads."""
        named = (self.meaning.operation, self.meaning.problem, self.meaning.happened, *self.meaning.old_keys.values())
        own = [name for name in named if name is not None]
        return [*dict.fromkeys((*self.field_of.values(), *own, r.KIND, r.KNOWN, *_PASSED_ON))]

    def may_move(self, records: pa.RecordBatch) -> bool:
        """Return whether some record may change a key: the text of its old key differs from the new key."""
        return any(
            pc.any(pc.not_equal(records[old], records[self.field_of[key]])).as_py()
            or pc.any(pc.and_(records[old].is_valid(), records[self.field_of[key]].is_null())).as_py()
            for key, old in self.meaning.old_keys.items()
        )

    def made_of(self, records: pa.RecordBatch) -> tuple[pa.Table, Any]:
        """Return the plain changes among records of bronze, and a mask of these records.

        Args:
            records: n records with the columns of :attr:`reads`, in any order.

        Returns:
            Rows in the shape of ``silver.<t>_changes``, and n booleans without NULL.
        """
        columns, proofs = self._proofs(records)
        is_plain = reduce(pc.and_, [is_proven for _, is_proven in proofs])
        made = pa.table(columns)
        return (made if pc.all(is_plain).as_py() else made.filter(is_plain)), is_plain

    def doubts(self, records: pa.RecordBatch) -> list[tuple[str, ...]]:
        """Return for each record the columns that keep it from being a plain change; none for a plain one.

        Other obstacles are named ``operation``, ``fields`` and ``time``.

        Args:
            records: as for :meth:`made_of`.
        """
        found: list[dict[str, None]] = [{} for _ in range(len(records))]
        for name, is_proven in self._proofs(records)[1]:
            for at in np.flatnonzero(~is_proven.to_numpy(zero_copy_only=False)):
                found[at][name] = None
        return [tuple(names) for names in found]

    def _proofs(self, records: pa.RecordBatch) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
        """Return the columns of the changes, and masks of what is proven of each record, each with its column."""
        classes, is_known = self._classes(records)
        known, is_listed = self._known(records)
        proofs = [("operation", pc.equal(records[r.KIND], r.RECORD)), ("fields", is_listed), ("operation", is_known)]
        if self.meaning.problem is not None:
            proofs.append(("operation", records[self.meaning.problem].is_null()))
        columns: dict[str, Any] = {}
        for column in self.contract.columns:
            columns[column.name], is_proven = proven(
                records[self.field_of[column.name]], column.type, self.contract.beyond
            )
            proofs.append((column.name, is_proven))
            if column.name in self.must:
                proofs.append((column.name, columns[column.name].is_valid()))
        is_deleted = pc.fill_null(pc.equal(classes, r.DELETE), fill_value=False)
        proofs += [(name, pc.or_(is_deleted, keeps(columns[name]))) for name, keeps in self.kept]
        if self.baseline is not None:
            in_time = _are_in_time(self.contract, self.baseline, columns, records, is_deleted)
            proofs += [("time", mask) for mask in in_time]
        columns[r.CLASS] = classes
        columns |= {name: records[name] for name in _PASSED_ON}
        columns[r.KNOWN] = known
        columns[r.SOURCE_TIME], is_told = self._source_times(records, is_deleted)
        return columns, [*proofs, ("time", is_told)]

    def _source_times(self, records: pa.RecordBatch, is_deleted: Any) -> tuple[Any, Any]:
        """Return the source's time of each delete, NULL without one, and a mask of records with a proven time."""
        happened = self.meaning.happened
        if happened is None or not pc.any(is_deleted).as_py():
            return pa.nulls(len(records), pa.timestamp("us", "UTC")), pa.repeat(pa.scalar(value=True), len(records))
        texts = records[happened]
        if happened == r.FILE:
            names = texts.dictionary_encode()
            told = pa.array([time_in_name(name) for name in names.dictionary.to_pylist()], pa.string())
            texts = told.take(names.indices)
        return proven(pc.if_else(is_deleted, texts, pa.scalar(None, texts.type)), "timestamp")

    def _known(self, records: pa.RecordBatch) -> tuple[Any, Any]:
        """Return the columns that each record carries, NULL for all, and a mask of records where this is known."""
        carried = records[r.KNOWN]
        is_listed = pa.repeat(pa.scalar(value=True), len(carried))
        if self.since:
            is_listed = pc.or_(carried.is_valid(), pc.greater_equal(records[r.BATCH], self.since))
        if carried.null_count == len(carried):
            return pa.nulls(len(carried), pa.list_(pa.string())), is_listed
        fields = pa.array([name.lower() for name in self.field_of.values()])
        at = pc.index_in(pc.utf8_lower(carried.flatten()), fields)
        record, is_ours = pc.list_parent_indices(carried), at.is_valid()
        has = np.zeros((len(carried), len(fields)), bool)
        has[record.filter(is_ours).to_numpy(), at.filter(is_ours).to_numpy()] = True
        # Few records differ in what they carry.
        distinct, number = np.unique(has, axis=0, return_inverse=True)
        names = np.array([*self.field_of], object)
        lists = pa.array([None if one.all() else names[one].tolist() for one in distinct], pa.list_(pa.string()))
        unlisted = carried.is_null().to_numpy(zero_copy_only=False)
        return lists.take(pa.array(number.reshape(-1), mask=unlisted)), is_listed

    def _classes(self, records: pa.RecordBatch) -> tuple[Any, Any]:
        """Return the class of each record, NULL if unknown, and a mask of known classes."""
        said, unsaid = self.meaning.operation, self.meaning.unsaid
        operations = pa.nulls(len(records), pa.string()) if said is None else records[said]
        place = pc.index_in(operations, pa.array([*self.meaning.classes], pa.string()))
        classes = pa.array([*self.meaning.classes.values()], pa.string()).take(place)
        if unsaid is not None and operations.null_count:
            place_prefix, change_class = unsaid
            is_unsaid = pc.and_(operations.is_null(), pc.starts_with(records[r.POSITION], place_prefix))
            classes = pc.if_else(is_unsaid, change_class, classes)
        return classes, classes.is_valid()


def _are_in_time(
    contract: Contract, baseline: Baseline, columns: dict[str, Any], records: pa.RecordBatch, is_deleted: Any
) -> Iterator[Any]:
    """Yield masks that are all true for a change that is not too late, by its times and its place."""
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
        is_newer = pc.fill_null(is_newer, fill_value=False)
        # A delete ends the current version, whatever time it repeats.
        yield pc.or_(is_newer, is_deleted) if baseline.by_place else is_newer


_SIGN: Final = r"[A-Za-z0-9 _\-@:;,'\"/#%=!<>~]|\\[.dw\-/+*?()\[\]{}^$|\\]"
_CLASS: Final = r"\[-?(?:[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9 _@:;,/#%=!<>~.+*?()]|\\[dw.\-\[\]/\\])+-?\]"
_REPEATED: Final = r"(?:[*+?]|\{[0-9]{1,3}(?:,[0-9]{0,3})?\})?"
_ALIKE: Final = re.compile(rf"\^?(?:(?:{_SIGN}|{_CLASS}){_REPEATED}|\((?:\?:)?|\){_REPEATED}|\|)*\$?")
"""Patterns with the same matches in Java and in Arrow: without a dot or negated class, which differ between the two,
and with anchors at the ends only."""

_COMPARE: Final = {"min": pc.greater_equal, "max": pc.less_equal}


def kept_in_arrow(rule: RowRule) -> Callable[[Any], Any] | None:
    """Return a function from a column to a mask of the values that keep a rule; None if only Spark can check it.

    The mask has no NULL. A NULL value keeps every rule except ``not_null``.

    Args:
        rule: a rule of one column.

    Cost: the returned function makes one pass over the column.
    """
    match rule.name:
        case "not_null":
            return lambda values: values.is_valid()
        case "min_length" | "max_length":
            length, compare = int(rule.values[0]), _COMPARE[rule.name[:3]]
            return lambda values: _null_keeps(compare(pc.utf8_length(values), length))
        case "pattern":
            pattern = rule.values[0]
            is_alike = _ALIKE.fullmatch(pattern) and _compiles(pattern)
            return (lambda values: _null_keeps(pc.match_substring_regex(values, pattern))) if is_alike else None
        case _:
            return _kept_by_value(rule)


def _kept_by_value(rule: RowRule) -> Callable[[Any], Any] | None:
    bounds = _values(rule)
    if bounds is None:
        return None
    if rule.name == "accepted_values":
        return lambda values: pc.or_(pc.is_in(values, bounds), values.is_null())
    compare = _COMPARE[rule.name]
    return lambda values: _null_keeps(compare(values, bounds[0]))


def _null_keeps(keeps: Any) -> Any:
    return pc.fill_null(keeps, fill_value=True)


def _values(rule: RowRule) -> pa.Array | None:
    """Return the declared values in the column's type; None if one has an unusual form."""
    if not is_provable(rule.type):
        return None
    values, is_proven = proven(pa.array(rule.values, pa.string()), rule.type)
    return values if pc.all(is_proven).as_py() else None


def _compiles(pattern: str) -> bool:
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid:
        return False
    return True


_DAY: Final = (
    r"[12][0-9]{3}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_TIME: Final = rf"{_DAY}[ T](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{1,6}})?"
_BEYOND: Final = r"(\.[0-9]{6})[0-9]+"
_MIDNIGHT: Final = r"[ T]00:00:00(?:\.0{1,9})?"
_DAY_DIGITS: Final = 10
_ZONE: Final = r"(?:Z|[+-](?:0[0-9]|1[0-7])(?::?[0-5][0-9])?)"
_REAL: Final = r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?"
_UTC: Final = pa.timestamp("us", "UTC")


def is_provable(type_name: str) -> bool:
    """Return whether Arrow can prove texts of a type."""
    return type_name.partition("(")[0] in {*_PROOFS, "string", "decimal", *TIMES}


def proven(texts: Any, type_name: str, beyond: BeyondMicroseconds = "quarantine") -> tuple[Any, Any]:
    """Return the values of texts, and a mask of the proven ones.

    Args:
        texts: a text column.
        type_name: a type of the contract in normal form, for which :func:`is_provable` holds.
        beyond: policy for digits of a timestamp beyond microseconds; texts with such digits are proven only with
            ``truncate``.

    Returns:
        A column of that type, and booleans without NULL. A NULL text is a proven NULL. Unproven values are NULL.

    Cost: one regular expression and one cast of the column.
    """
    kind = type_name.partition("(")[0]
    if kind == "string":
        return texts, pa.repeat(pa.scalar(value=True), len(texts))
    if kind in {"timestamp", "timestamp_ntz"}:
        return _moments(texts, kind, cuts=beyond == "truncate")
    if kind == "date":
        return _days(texts)
    if kind == "decimal":
        digits, scale = map(int, re.findall(r"\d+", type_name))
        whole = f"(?:0|[1-9][0-9]{{0,{digits - scale - 1}}})" if digits > scale else "0"
        fraction = rf"(?:\.[0-9]{{1,{scale}}})?" if scale else ""
        return _by(texts, f"-?{whole}{fraction}", lambda some: some.cast(pa.decimal128(digits, scale)))
    pattern, cast = _PROOFS[kind]
    return _by(texts, pattern, cast)


def _moments(texts: Any, kind: str, *, cuts: bool) -> tuple[Any, Any]:
    bare, is_proven = _by(texts, _TIME, lambda some: some.cast(pa.timestamp("us")))
    bare = bare if kind == "timestamp_ntz" else bare.cast(_UTC)
    if pc.all(is_proven).as_py():
        return bare, is_proven
    if cuts:
        texts = pc.replace_substring_regex(texts, _BEYOND, r"\1")
        cut, is_proven = _by(texts, _TIME, lambda some: some.cast(pa.timestamp("us")))
        bare = cut if kind == "timestamp_ntz" else cut.cast(_UTC)
    if kind == "timestamp_ntz":
        return bare, is_proven
    zoned, is_zoned = _by(texts, _TIME + _ZONE, lambda some: some.cast(_UTC))
    return pc.coalesce(zoned, bare), pc.or_(is_proven, is_zoned)


def _days(texts: Any) -> tuple[Any, Any]:
    days, are_days = _by(texts, _DAY, lambda some: some.cast(pa.date32()))
    if pc.all(are_days).as_py():
        return days, are_days
    return _by(
        texts,
        f"{_DAY}(?:{_MIDNIGHT})?",
        lambda some: pc.utf8_slice_codeunits(some, 0, _DAY_DIGITS).cast(pa.date32()),
    )


def _by(texts: Any, pattern: str, cast: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Cast the texts that a pattern matches in full; the cast cannot fail on these."""
    is_proven = pc.fill_null(pc.match_substring_regex(texts, rf"\A(?:{pattern})\z"), fill_value=True)
    if not pc.all(is_proven).as_py():
        texts = pc.if_else(is_proven, texts, None)
    return cast(texts), is_proven


def _to(kind: Any) -> Callable[[Any], Any]:
    return lambda texts: texts.cast(kind)


_PROOFS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "boolean": ("true|false", lambda texts: pc.equal(texts, "true")),
    "int": ("0|-?(?:[1-9][0-9]{0,8}|1[0-9]{9})", _to(pa.int32())),
    "bigint": ("0|-?(?:[1-9][0-9]{0,17}|[1-8][0-9]{18})", _to(pa.int64())),
    "float": (_REAL, _to(pa.float32())),
    "double": (_REAL, _to(pa.float64())),
}
