"""Discover the tables in a landing folder of DMS files, for a first declaration.

All properties are guessed from samples, and the declaration marks them as guesses.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from frazil.errors import SourceError
from frazil.formats.records import safe_name
from frazil.sources.dms.guess import (
    SampledRecord,
    is_operation,
    keys_of,
    likely_time,
    looks_like_names,
    mostly,
    moved_times,
    sample,
    type_of,
)
from frazil.spec import Column
from frazil.spec.amount import counted
from frazil.spec.model.stores import is_store, whole_address
from frazil.storage.base import Found
from frazil.storage.files import storage_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from frazil.sources.dms.guess import Sample

_T = TypeVar("_T")
_LOAD: Final = re.compile(r"(SEGMENT\d+_)?LOAD[0-9A-F]+\.", re.IGNORECASE)
_CHANGES: Final = re.compile(r"\d{8}-\d{6,}.*\.")
_DATE_PART: Final = re.compile(r"\d{2}|\d{4}([-_]?\d{2}){0,3}|\d{2}[-_]?\d{4}[-_]?\d{2}|\d{2}[-_]?\d{2}[-_]?\d{4}")
_ENDINGS: Final = (".csv", ".csv.gz", ".parquet")
_SAMPLES: Final = 3
"""Number of sampled load files, and of sampled change files: the first, the last and one between."""

_MOST_RECORDS: Final = 0.9
_ALIKE: Final = 0.5
"""Files that share a smaller part of their fields are of different tables, unless one has all fields of the other."""

_CHANGE_SEQ: Final = "ar_h_change_seq"


class MixedTablesError(SourceError):
    """One folder holds files of different tables."""

    code = "FZ206"
    retryable = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """A table, as guessed from its files.

    Attributes:
        name: valid and unique table name, derived from the folder.
        path: absolute folder, or address in an object store.
        op: name of the op column; None if no change file has one.
        change_seq: field with DMS's change sequence, or None.
        columns: columns with rules that all sampled records keep; ``c1``, ``c2``, … if the files do not name them.
        keys_seen: True if the keys are unique together and never NULL in the sampled rows.
        sequence_by: column with the time of a change, if the samples show that deletes move it too; else empty, and
            files and records order the changes.
        stamp: the ordering column if ``TimestampColumnName`` may have added it, because it is the first column. In a
            full load it holds the time of the load, so changes made meanwhile lose to it.
        effective_at: column with the time of a change that does not order; ``unproven`` says why. None without such
            a column.
        unproven: ``unseen`` if no sampled delete moves the time, ``still`` if some deletes do not move it, ``load`` if
            changes have earlier times than rows of the full load that they follow.
        records: number of sampled records; ``rows`` of them are distinct rows.
        outliers: (column, narrower type that nearly all of its values have).
    """

    name: str
    path: str
    format: Literal["csv", "parquet"]
    header: bool
    delimiter: str
    op: str | None
    include_op_for_full_load: bool
    change_seq: str | None
    columns: tuple[Column, ...]
    keys: tuple[str, ...]
    keys_seen: bool
    sequence_by: tuple[str, ...]
    load_files: int
    change_files: int
    records: int
    rows: int
    outliers: tuple[tuple[str, str], ...] = ()
    stamp: str | None = None
    effective_at: str | None = None
    unproven: Literal["unseen", "still", "load"] | None = None

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return one sentence for each guess that the samples do not confirm."""
        found = []
        if not self.keys_seen:
            found.append(
                f"keys [{', '.join(self.keys)}] are a guess by name only: no one, two or three columns are unique in "
                f"{counted(self.rows, 'row')}. Declare the columns that identify a row"
            )
        if self.stamp:
            found.append(
                f"sequence_by [{self.stamp}] is a guess: if DMS adds it (TimestampColumnName), changes made during a "
                "full load lose to it. Then write effective_at for sequence_by"
            )
        if self.format == "csv" and not self.header:
            found.append("the files do not name their fields: rename c1, c2, ... in their order")
        if self.op is None:
            found.append("no op column (I, U, D) was found in the change files: name it with op")
        return tuple(found)


def discover(landing: str) -> list[Discovered]:
    """Find the tables below a landing folder.

    Args:
        landing: folder, or address in an object store with the login of the environment. Each table has a folder
            with files that DMS named (``LOAD00000001.csv``, ``20240131-101500123.csv``, also ``.csv.gz`` and
            ``.parquet``). Folders of dates below belong to the table.

    Returns:
        One entry for each table folder, by path. Unreadable files and folders without records are ignored.

    Raises:
        MissingFolderError: the folder does not exist.
        MixedTablesError: the files of one folder have different fields.
        ObjectStoreError: the store refuses to list or to read.

    Cost: one listing, and at most 6 samples of 1 MB for each table (8 MB in an object store).
    """
    root = whole_address(landing) if is_store(landing) else os.path.abspath(landing)  # noqa: PTH100 - links stay
    listed = storage_of(root).find(root, Path(), _ENDINGS)
    groups = _by_table(root, (found for found in listed if isinstance(found, Found)))
    tables: list[Discovered] = []
    for place, files in sorted(groups.items()):
        name = _free_name(PurePosixPath(PurePosixPath(root).name, place), {table.name for table in tables})
        if table := _table(name, root if place == "." else f"{root.rstrip('/')}/{place}", files):
            tables.append(table)
    return tables


def _by_table(root: str, files: Iterable[Found]) -> dict[str, list[Found]]:
    """Group files by the folder of their table, relative to ``root``. Folders of dates are folded into their parent."""
    places: dict[PurePosixPath, list[Found]] = defaultdict(list)
    for file in files:
        if _LOAD.match(file.name) or _CHANGES.match(file.name):
            place = PurePosixPath(os.path.relpath(os.path.dirname(file.uri), root).replace(os.sep, "/"))  # noqa: PTH120
            while place.name and _DATE_PART.fullmatch(place.name):
                place = place.parent
            places[place].append(file)
    groups: dict[str, list[Found]] = defaultdict(list)
    for place, found in places.items():
        # The landing folder itself may hold a stray file; it is a table only if nothing below it is.
        above = [parent for parent in place.parents if parent in places and parent.name]
        groups[(above[-1] if above else place).as_posix()] += found
    return groups


def _free_name(folder: PurePosixPath, taken: set[str]) -> str:
    """Return an unused table name for a folder; on a conflict the parent's name is added, then a number."""
    parts = [re.sub(r"[^a-z0-9_]", "_", part.lower())[:50] or "table" for part in folder.parts]
    own = parts[-1] if parts else "table"
    wide = "_".join(parts[-2:]) or own
    made = {*taken, *(f"{name}_history" for name in taken)}
    candidates = [own, wide, *(f"{wide}_{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in candidates if name not in made and f"{name}_history" not in made)


@dataclass(slots=True)
class _Seen:
    """Sampled values by column.

    Attributes:
        values: values of all records.
        rows: values of records that are distinct rows of the source table.
        upserts: values of all records but deletes.
        changes: all records in order.
    """

    values: dict[str, list[str | None]]
    rows: dict[str, list[str | None]]
    upserts: dict[str, list[str | None]]
    changes: list[SampledRecord]
    records: int = 0
    row_records: int = 0


def _table(name: str, path: str, files: list[Found]) -> Discovered | None:
    # A table has one format: the one that most files have.
    is_parquet = 2 * sum(map(_is_parquet, files)) > len(files)
    own = sorted((file for file in files if _is_parquet(file) is is_parquet), key=lambda file: file.name)
    loads = [file for file in own if _LOAD.match(file.name)]
    changes = [file for file in own if not _LOAD.match(file.name)]
    samples = _samples(loads, changes)
    if not any(one.records for one in samples):
        return None
    header = not is_parquet and _has_header(samples)
    layouts = [_layout(one, samples, header=header) for one in samples]
    if header or is_parquet:
        _verify_alike(path, [fields for fields, _ in layouts if fields])
    names = {field.lower(): field for fields, _ in layouts for field in reversed(fields)}
    seen = _see(samples, layouts)
    declared = dict(column for one in samples for column in one.columns)
    types = _types(seen, declared)
    if not types:
        return None
    keys, keys_seen = keys_of(name, types, seen.rows)
    time, unproven = _time_of_change(types, keys, seen, is_named=header or is_parquet)
    sequence = None if unproven else time
    return Discovered(
        name=name,
        path=path,
        format="parquet" if is_parquet else "csv",
        header=header,
        delimiter=samples[0].delimiter,
        op=names.get("op", None if changes else "op"),
        include_op_for_full_load=_load_has_op(samples, layouts),
        change_seq=names.get(_CHANGE_SEQ),
        columns=tuple(_column(field, kind, (keys, time), seen) for field, kind in types.items()),
        keys=keys,
        keys_seen=keys_seen,
        sequence_by=(sequence,) if sequence else (),
        load_files=len(loads),
        change_files=len(changes),
        records=seen.records,
        rows=seen.row_records,
        outliers=() if declared else _outliers(types, seen),
        stamp=sequence if loads and changes and sequence == next(iter(types)) else None,
        effective_at=time if unproven else None,
        unproven=unproven,
    )


def _types(seen: _Seen, declared: dict[str, str]) -> dict[str, str]:
    """Return the types of the columns: from the file if it has types, else from the values."""
    return {
        field: declared.get(field) or type_of({value for value in values if value is not None})
        for field, values in seen.values.items()
        if field.lower() not in {"op", _CHANGE_SEQ}
    }


def _time_of_change(
    types: dict[str, str], keys: Sequence[str], seen: _Seen, *, is_named: bool
) -> tuple[str | None, Literal["unseen", "still", "load"] | None]:
    """Return the time of a change, and why it must not order the changes; None if the samples show that it may.

    It has no NULL but in deletes: an upsert without its sequence would go to quarantine.
    """
    upserts = [change.values for change in seen.changes if not change.delete]
    fields = (field for field, kind in types.items() if kind == "timestamp")
    times = [field for field in fields if all(values.get(field) is not None for values in upserts)]
    moved, still = moved_times(keys, times, seen.changes)
    proven = [field for field in times if field in moved]
    time = likely_time(proven)
    if time is None and not is_named and len(proven) == 1:
        time = proven[0]
    if time is not None:
        return time, "load" if _is_after_changes(time, keys, seen.changes) else None
    likely = likely_time(times)
    return likely, None if likely is None else "still" if likely in still else "unseen"


def _is_after_changes(time: str, keys: Sequence[str], changes: Sequence[SampledRecord]) -> bool:
    """Return True if a row of a full load has a later time than a change of it, which is read after the load."""
    loaded: dict[tuple[str | None, ...], str] = {}
    for change in changes:
        key, at = tuple(change.values.get(name) for name in keys), change.values.get(time)
        if at is not None and change.load:
            loaded[key] = max(at, loaded.get(key, at))
        elif at is not None and at < loaded.get(key, ""):
            return True
    return False


def _column(name: str, kind: str, order: tuple[tuple[str, ...], str | None], seen: _Seen) -> Column:
    keys, sequence = order
    rules = proposed_rules(kind, seen.upserts[name], is_key=name in {*keys, sequence}, name=name)
    return Column(name=name, type=kind, **{"nullable": name not in keys, **rules})


def _verify_alike(path: str, fields: Sequence[Sequence[str]]) -> None:
    """Refuse files of different tables in one folder; files of one table may differ in some fields."""
    sets = [{name.lower() for name in names} - {"op", _CHANGE_SEQ} for names in fields]
    for one, first in zip(sets, fields, strict=True):
        for other, second in zip(sets, fields, strict=True):
            if not (one <= other or other <= one or len(one & other) >= _ALIKE * len(one | other)):
                raise MixedTablesError(
                    f"{path}: files of different tables: some have {', '.join(first)}, others {', '.join(second)}",
                    hint="put the files of each table into a folder of its own, and name the folder above",
                )


def _samples(loads: Sequence[Found], changes: Sequence[Found]) -> list[Sample]:
    """Sample some files, each content once, because a repeated file would make every key look repeated."""
    found = [one for file in _spread(loads) if (one := sample(file, load=True))]
    part, following = 0, 0
    for place, file in _spread([*enumerate(changes)]):
        one = sample(file, load=False)
        part += place != following
        following = place + 1 if one is not None and one.whole else -1
        if one is not None:
            found.append(replace(one, part=part))
    return list(dict.fromkeys(found))


def _load_has_op(samples: Sequence[Sample], layouts: Sequence[tuple[list[str], int]]) -> bool:
    pairs = zip(samples, layouts, strict=True)
    return any(one.load and any(field.lower() == "op" for field in fields) for one, (fields, _) in pairs)


def _outliers(types: Iterable[str], seen: _Seen) -> tuple[tuple[str, str], ...]:
    """Return (field, note) for fields whose values are mostly, but not all, of one narrower type."""
    notes = {field: mostly([value for value in seen.values[field] if value is not None]) for field in types}
    return tuple((field, note) for field, note in notes.items() if note)


def _is_parquet(file: Found) -> bool:
    return file.name.lower().endswith(".parquet")


def _spread(files: Sequence[_T]) -> list[_T]:
    if len(files) <= _SAMPLES:
        return list(files)
    return [files[0], files[len(files) // 2], files[-1]]


def _has_header(samples: Sequence[Sample]) -> bool:
    """Return True if the first records are headers: one names op, all files agree, or the values are typed."""
    firsts = [one.records[0] for one in samples if one.records]
    if not all(looks_like_names(first) for first in firsts):
        return False
    names = [{str(value).lower() for value in first} for first in firsts]
    if any("op" in some for some in names):
        return True
    fewest = min(names, key=len)
    if len(names) > 1 and all(fewest <= some for some in names):
        return True
    return any(
        type_of({value for value in column[1:] if value is not None}) != "string"
        for one in samples
        for column in zip(*one.records, strict=True)
    )


def _layout(one: Sample, samples: Sequence[Sample], *, header: bool) -> tuple[list[str], int]:
    """Return the column names of a file in order, and the number of header records to skip."""
    if one.columns or header:
        taken: set[str] = set()
        names = []
        for field in [name for name, _ in one.columns] or one.records[0]:
            names.append(safe_name(field or "", frozenset(taken)))
            taken.add(names[-1].lower())
        return names, int(header)
    width = len(one.records[0]) if one.records else 0
    # A few records may be bad. A column that has op letters by chance also has other values.
    letters = [record[0] for record in one.records if is_operation(record[0])]
    has_op = width > 1 and len(letters) >= _MOST_RECORDS * len(one.records)
    if one.load and has_op:
        others = {len(other.records[0]) for other in samples if not other.load and other.records}
        has_op = set(letters) == {"I"} and (not others or width in others)
    numbered = [f"c{number}" for number in range(1, width + 1 - has_op)]
    return (["op", *numbered] if has_op else numbered), 0


def _see(samples: Sequence[Sample], layouts: Sequence[tuple[list[str], int]]) -> _Seen:
    """Collect the values of all samples by column, in order of first appearance."""
    seen = _Seen(values={}, rows={}, upserts={}, changes=[])
    spelt: dict[str, str] = {}
    has_loads = any(one.load and one.records[skip:] for one, (_, skip) in zip(samples, layouts, strict=True))
    for one, (names, skip) in zip(samples, layouts, strict=True):
        records = one.records[skip:]
        op = next((number for number, name in enumerate(names) if name.lower() == "op"), None)
        # Without a full load, the inserts are the rows.
        rows = records if one.load else [record for record in records if op is not None and record[op] == "I"]
        for number, name in enumerate(names):
            column = spelt.setdefault(name.lower(), name)
            seen.values.setdefault(column, []).extend(record[number] for record in records)
            upserts = (record[number] for record in records if op is None or record[op] != "D")
            seen.upserts.setdefault(column, []).extend(upserts)
            if one.load == has_loads:
                seen.rows.setdefault(column, []).extend(record[number] for record in rows)
        columns = [spelt[name.lower()] for name in names]
        seen.changes += (
            SampledRecord(
                load=one.load,
                delete=op is not None and record[op] == "D",
                part=one.part,
                values=dict(zip(columns, record, strict=True)),
            )
            for record in records
        )
        seen.records += len(records)
        seen.row_records += len(rows) if one.load == has_loads else 0
    return seen


_LEAST_RECORDS: Final = 50
"""Smaller samples are not representative."""

_MOST_VALUES: Final = 12
_LEAST_REPEATS: Final = 3
_CODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+/-]{0,23}")
_FREE_TEXT: Final = re.compile(r"(^|_)(note|comment|remark|text|description|message|title|name|subject|reason|memo)s?$")
"""Names of columns with free text."""
_NUMBERS: Final = ("int", "bigint", "decimal", "float", "double")


def proposed_rules(kind: str, values: Sequence[str | None], *, is_key: bool, name: str = "") -> dict[str, Any]:
    """Propose rules for a column, as settings that every sampled record keeps.

    - ``nullable: false`` if no value is NULL;
    - ``accepted_values`` if a text has few distinct values, which look like codes and repeat;
    - ``min: 0`` if no number is negative and some are positive. Other bounds are too likely to be exceeded.

    Args:
        kind: type of the column.
        values: values of all upserts as text, None for NULL.
        is_key: True for a column of the key or the order, which is never NULL anyway.
        name: name of the column; columns of free text get no accepted values.

    Returns:
        The settings with ``on_violation: warn``; empty for a small sample.
    """
    known = [value for value in values if value is not None]
    if is_key or len(values) < _LEAST_RECORDS or not known:
        return {}
    found: dict[str, Any] = {"nullable": False} if len(known) == len(values) else {}
    if kind == "string" and not _FREE_TEXT.search(name.lower()) and (accepted := _few(known)):
        found["accepted_values"] = accepted
    if kind.partition("(")[0] in _NUMBERS and _is_never_negative(known):
        found["min"] = "0"
    return found | ({"on_violation": "warn"} if found else {})


def _few(values: Collection[str]) -> tuple[str, ...]:
    """Return the distinct values in order if they look like a closed list; else an empty tuple."""
    counts = Counter(values)
    if not 1 < len(counts) <= _MOST_VALUES or min(counts.values()) < _LEAST_REPEATS:
        return ()
    # Values of a closed list look like codes; free text has blanks, quotes and line ends.
    return tuple(sorted(counts)) if all(map(_CODE.fullmatch, counts)) else ()


def _is_never_negative(values: Collection[str]) -> bool:
    try:
        least, most = (Decimal(pick(map(Decimal, values))) for pick in (min, max))
    except ArithmeticError:
        return False  # Parquet may hold NaN, which has no order
    return least >= 0 and most > 0
