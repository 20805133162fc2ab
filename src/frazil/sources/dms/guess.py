"""Guess types, keys and order from a sample of values; a guess holds for every value of the sample."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import combinations, islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import csv

from frazil.errors import SchemaError
from frazil.formats.csv_lines import CsvDialect, open_text, records_in
from frazil.formats.parquet_file import opened, parquet_columns
from frazil.formats.parquet_text import as_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from frazil.storage.base import Found


@dataclass(frozen=True, slots=True)
class SampledRecord:
    """A sampled record.

    Attributes:
        load: True for a record of a full load file.
        delete: True for a delete.
        part: as of its sample.
        values: column -> value.
    """

    load: bool
    delete: bool
    part: int
    values: Mapping[str, str | None]


_INT: Final = re.compile(r"0|-?[1-9][0-9]*")
_DECIMAL: Final = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]{1,6})?"
    r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_INT_BITS, _BIGINT_BITS, _MOST_DIGITS = 31, 63, 38
_USUAL_DIGITS: Final = 18
_OPERATIONS: Final = frozenset({"I", "U", "D"})
_KEY_TYPES: Final = frozenset({"int", "bigint", "decimal(38,0)", "string", "date"})
_NAMED, _MOST_CANDIDATES, _MOST_KEYS = 2, 10, 3
_PART_OF_KEY: Final = re.compile(
    r"(^|_)(no|nr|num|number|line|item|seq|position|pos|code|sku|type|lang|locale|currency|date|day|month|year)$"
)
"""Names of columns that are often part of a composite key."""
_MOSTLY: Final = 0.9
_LONGEST_NAME: Final = 128

_ORDER_NAMES: Final = (
    re.compile(r"updat|modif|last_chang|changed"),
    re.compile(r"(^|_)ts$|timestamp|commit"),
)
"""Names of columns with the time of a change, most reliable first."""


def type_of(values: Collection[str]) -> str:
    """Return the narrowest type that represents every value exactly.

    Args:
        values: texts that are not NULL; an empty collection gives ``string``.

    Returns:
        ``int`` and ``bigint`` for digits without leading zeros; ``decimal(18,s)`` or ``decimal(38,s)`` with
        the longest fraction seen; ``boolean`` for true and false; ``date``, ``timestamp``; else ``string``.
    """
    if not values:
        return "string"
    if all(_INT.fullmatch(value) for value in values):
        return _integer(max(abs(int(value[: _MOST_DIGITS + 2])) for value in values))
    if decimal := _decimal(values):
        return decimal
    rules = {"boolean": _is_boolean, "date": _is_date, "timestamp": _is_timestamp}
    return next((kind for kind, fits in rules.items() if all(map(fits, values))), "string")


def _is_boolean(text: str) -> bool:
    return text.lower() in {"true", "false"}


def _is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and _is_real(text, date)


def _is_timestamp(text: str) -> bool:
    found = _TIMESTAMP.fullmatch(text)
    return found is not None and _is_real(found[1], datetime)


def _is_real(text: str, kind: type[date]) -> bool:
    try:
        kind.fromisoformat(text)
    except ValueError:
        return False
    return True


def _integer(largest: int) -> str:
    bits, digits = largest.bit_length(), len(str(largest))
    if bits <= _INT_BITS:
        return "int"
    if bits <= _BIGINT_BITS:
        return "bigint"
    return f"decimal({_MOST_DIGITS},0)" if digits <= _MOST_DIGITS else "string"


def _decimal(values: Collection[str]) -> str | None:
    whole = scale = 0
    for value in values:
        found = _DECIMAL.fullmatch(value)
        # A negative zero would lose its sign.
        if found is None or (found[1] and not value.strip("-0.")):
            return None
        whole, scale = max(whole, len(found[2])), max(scale, len(found[3] or ""))
    for digits in (_USUAL_DIGITS, _MOST_DIGITS):
        if whole + scale <= digits:
            return f"decimal({digits},{scale})"
    return None


def mostly(values: Sequence[str]) -> str | None:
    """Return the narrower type of most values, if a few outliers prevent it for all.

    Args:
        values: texts that are not NULL.

    Returns:
        A text such as ``int in 714 of 717 values``; None if fewer than 90 % agree, or if all do.
    """
    if not values:
        return None
    kinds = Counter(_family(value) for value in values)
    [(family, count)] = kinds.most_common(1)
    if family == "string" or count == len(values) or count < _MOSTLY * len(values):
        return None
    kind = type_of({value for value in values if _family(value) == family})
    return f"{kind} in {count} of {len(values)} values"


def _family(value: str) -> str:
    """Return one name for all numeric types, which widen into one another; else the type."""
    kind = type_of([value])
    return "number" if kind in {"int", "bigint"} or kind.startswith("decimal(18,") else kind


def is_operation(value: str | None) -> bool:
    """Return True for an op: I, U or D."""
    return value in _OPERATIONS


def looks_like_names(record: Sequence[str | None]) -> bool:
    """Return True if a record could be a header: distinct short texts that do not look like values."""
    names = [value for value in record if value and len(value) <= _LONGEST_NAME and value.isprintable()]
    return (
        len(names) == len(record)
        and len({name.lower() for name in names}) == len(names)
        and not is_operation(names[0])
        and all(type_of([name]) == "string" and not name[0].isdigit() for name in names)
    )


def keys_of(
    table: str, types: Mapping[str, str], rows: Mapping[str, Sequence[str | None]]
) -> tuple[tuple[str, ...], bool]:
    """Guess the key: one column, or two or three that are unique together.

    Args:
        table: name of the table; columns such as ``id`` and ``<table>_id`` are preferred.
        types: column -> type, in order; at least one.
        rows: column -> values, in records of distinct rows. Repeated records count once.

    Returns:
        The columns, and True if they are unique and never NULL in the sample. Else the likeliest column by name, and
        False.
    """
    likely = sorted(types, key=lambda name: _key_rank(name.lower(), table))
    most = max(map(len, rows.values()), default=0)
    # A column that appeared later cannot identify earlier rows.
    here = [name for name in likely if most and len(rows.get(name, ())) == most]
    records = [*dict.fromkeys(zip(*(rows[name] for name in here), strict=True))] if here else []
    values = dict(zip(here, zip(*records, strict=True), strict=True)) if records else {}
    usable = [name for name in here if _may_be_key(types[name], values.get(name, (None,)))]
    for some in _key_candidates(usable, table):
        if len(set(zip(*(values[name] for name in some), strict=True))) == len(records):
            return some, True
    return (likely[0],), False


def _may_be_key(kind: str, values: Sequence[str | None]) -> bool:
    """Return True if a column may be part of a key; a decimal of whole numbers may, as Oracle's NUMBER often is one."""
    if None in values:
        return False
    fractions = (f"{value}".partition(".")[2] for value in values)
    return kind in _KEY_TYPES or (kind.startswith("decimal") and not any(digits.strip("0") for digits in fractions))


def _key_candidates(usable: Sequence[str], table: str) -> Iterator[tuple[str, ...]]:
    """Yield candidate keys, likeliest first; columns that are perhaps unique by chance come after pairs."""
    named = [name for name in usable if _key_rank(name.lower(), table) <= _NAMED][:_MOST_CANDIDATES]
    sure = [name for name in named if _key_rank(name.lower(), table) < _NAMED]
    yield from ((name,) for name in sure)
    for size in range(2, _MOST_KEYS + 1):
        # The first one is an identifier by its name.
        yield from (some for some in combinations(named, size) if some[0] in sure)
    yield from ((name,) for name in usable if name not in sure)
    for size in range(2, _MOST_KEYS + 1):
        yield from (some for some in combinations(usable[:_MOST_CANDIDATES], size) if some[0] in sure)


def _key_rank(name: str, table: str) -> int:
    singulars = {table, table.removesuffix("s"), table.removesuffix("es"), re.sub("ies$", "y", table)}
    if name == "id" or name in {f"{singular}_id" for singular in singulars}:
        return 0
    if re.search(r"(^|_)(id|uuid|guid|key)$", name):
        return 1
    return _NAMED if _PART_OF_KEY.search(name) else _NAMED + 1


def likely_time(times: Sequence[str]) -> str | None:
    """Return the likeliest of some timestamp columns, by name, to be the time of a change; None without one."""
    ranked = [
        (rank, position, name)
        for position, name in enumerate(times)
        for rank, rule in enumerate(_ORDER_NAMES)
        if rule.search(name.lower())
    ]
    return min(ranked)[-1] if ranked else None


def moved_times(
    keys: Sequence[str], times: Collection[str], changes: Sequence[SampledRecord]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the times that deletes move, and those that some delete does not move.

    A time is moved if each delete has a value of its own, and one that follows the row's last record in the same part
    has a later one. In another part, an update that was not sampled may have had the value first.

    Args:
        keys: key columns.
        times: columns to check.
        changes: records of the samples, in order.
    """
    before: dict[tuple[str | None, ...], dict[str, set[str]]] = {}
    last: dict[tuple[str | None, ...], int] = {}
    moved: set[str] = set()
    still: set[str] = set()
    for change in changes:
        key = tuple(change.values.get(name) for name in keys)
        had = before.setdefault(key, {name: set() for name in times})
        for name in times:
            value = change.values.get(name)
            if value is not None and not change.delete:
                had[name].add(value)
            elif change.delete and (value is None or value in had[name]):
                still.add(name)
            elif value is not None and last.get(key) == change.part and value > max(had[name], default=""):
                moved.add(name)
        if not change.delete:
            last[key] = change.part
    return frozenset(moved - still), frozenset(still)


SAMPLE_BYTES: Final = 1_000_000
SAMPLE_RECORDS: Final = 20_000

_DELIMITERS: Final = (",", ";", "\t", "|")


@dataclass(frozen=True, slots=True)
class Sample:
    """The first records of a file.

    Attributes:
        load: True for a full load file.
        records: fields as text, None for NULL; includes the header of a CSV file.
        columns: (name, type) of a Parquet file's fields; empty for CSV.
        delimiter: delimiter of a CSV file.
        whole: True if these are all records of the file.
        part: number of the part of the samples; nothing is left out between two change files of one part.
    """

    load: bool
    records: tuple[tuple[str | None, ...], ...]
    columns: tuple[tuple[str, str], ...] = ()
    delimiter: str = ","
    whole: bool = True
    part: int = field(default=0, compare=False)


def sample(file: Found, *, load: bool) -> Sample | None:
    """Read the first megabyte of a CSV file, or the first records of a Parquet file.

    Returns:
        The complete records that have as many fields as the first one; None if the file cannot be read.
    """
    try:
        if file.name.lower().endswith(".parquet"):
            return _parquet(file.uri, load=load)
        return _csv(file.uri, load=load)
    except (OSError, EOFError, zlib.error, UnicodeError, pa.ArrowInvalid, SchemaError):
        return None


def _parquet(uri: str, *, load: bool) -> Sample:
    columns = parquet_columns(uri, uri)
    with opened(uri) as file:
        batches = islice(file.iter_batches(batch_size=SAMPLE_RECORDS), 1)
        records = [
            record
            for batch in batches
            for record in zip(*(as_text(column).to_pylist() for column in batch.columns), strict=True)
        ]
        whole = len(records) == file.metadata.num_rows
    return Sample(load, tuple(records), columns, whole=whole)


def _csv(uri: str, *, load: bool) -> Sample | None:
    with open_text(uri) as text:
        data = text.read(SAMPLE_BYTES)
    # Line ends and quotes do not depend on the delimiter unless a field contains a quote.
    first = next(iter(records_in(data, CsvDialect())), b"")
    delimiter = _delimiter(first.decode(errors="replace"))
    whole = records_in(data, CsvDialect(delimiter))
    if len(data) == SAMPLE_BYTES:
        whole.pop()
    if not whole:
        return None
    content = b"\n".join(whole[:SAMPLE_RECORDS]).decode(errors="replace").encode()
    most = first.count(delimiter.encode()) + 1
    table = csv.read_csv(
        pa.BufferReader(content + b"\n"),
        read_options=csv.ReadOptions(autogenerate_column_names=True, use_threads=False, block_size=len(content) + 2),
        parse_options=csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, invalid_row_handler=lambda _: "skip"
        ),
        convert_options=csv.ConvertOptions(
            column_types={f"f{number}": pa.string() for number in range(most)},
            null_values=["", "NULL"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    records = tuple(zip(*(column.to_pylist() for column in table.columns), strict=True))
    is_whole = len(data) < SAMPLE_BYTES and len(records) == len(whole)
    return Sample(load, records, delimiter=delimiter, whole=is_whole)


def _delimiter(first: str) -> str:
    """Return the comma if the first record contains one, else the most frequent candidate."""
    return "," if "," in first else max(_DELIMITERS, key=first.count)
