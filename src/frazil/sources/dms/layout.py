"""List the files of Amazon DMS, verify their headers, and map their fields to the columns of bronze."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import DeclarationError, SourceError
from frazil.formats.csv_lines import UTF_8, CsvDialect
from frazil.formats.records import SCHEMA_FIELD, TABLE_FIELD, OwnRecords, file_columns
from frazil.sources.base import Listing, SourceFile, change_position, snapshot_position, stored_path
from frazil.sources.before_images import BEFORE_IMAGE, BeforeImages, old_key, words_of
from frazil.sources.dms.guess import looks_like_names, type_of
from frazil.sources.ledger import Ledger, Unchanged
from frazil.sources.new_files import FileForm
from frazil.spec.contract import declared_columns, layout
from frazil.spec.model.stores import NO_STORES
from frazil.spec.model.types import type_after
from frazil.storage.base import Found, Passed, Refused
from frazil.storage.files import find

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from frazil.sources.base import NewFile
    from frazil.spec import DmsFiles, Table
    from frazil.spec.model.stores import Store

TRANSACTIONS: Final = "transactions"
"""Variant of the files of ``cdc_path``, with records of many tables."""

_LOAD: Final = re.compile(r"(SEGMENT\d+_)?LOAD[0-9A-F]+(?![0-9A-Z])", re.IGNORECASE)
_CSV: Final = (".csv", ".csv.gz")
_PARQUET: Final = (".parquet",)
_PACKED: Final = (".bz2", ".gz", ".lz4", ".snappy", ".tar", ".tgz", ".xz", ".zip", ".zst")


def list_files(
    source: DmsFiles, folder: Path, stores: Mapping[str, Store] = NO_STORES, ledger: Ledger | None = None
) -> Listing:
    """List the files of a source.

    Args:
        source: declared source. Files of ``cdc_path`` are transaction files in CSV, even if they are below ``path``.
        folder: folder of the declaration, absolute.
        stores: prefix of addresses -> settings of the object store.
        ledger: files that bronze has; unchanged ones are counted instead of listed. None lists all files.

    Returns:
        Every file once: full load files first, then by name as plain text; folders and times do not matter. Files of
        another format are listed with a reason; hidden and temporary files are left out.

    Raises:
        MissingFolderError: a path cannot be listed, or it has no pattern and does not exist.

    Cost: one ``stat`` for each file, 20,000 files a second; in an object store one request for a thousand objects.
    """
    files: dict[str, SourceFile] = {}
    refused: dict[str, str] = {}
    passed: dict[str, str] = {}
    own = _PARQUET if source.format == "parquet" else _CSV
    searches: list[tuple[str, tuple[str, ...], bool]] = [(path, _CSV, True) for path in source.cdc_path or ()]
    searches += [(path, own, False) for path in source.path]
    unchanged = Unchanged(ledger or Ledger(), several=len(searches) > 1)
    for place, endings, shared in searches:
        for found in find(place, folder, endings, stores):
            path = stored_path(found.uri, folder)
            match found:
                case Found() if unchanged.has(path, found.size_bytes, found.modified_ns):
                    pass
                case Found():
                    files.setdefault(path, _source_file(path, found, shared=shared))
                case Refused():
                    refused.setdefault(path, found.reason)
                case Passed():
                    passed.setdefault(path, _why_passed(path, endings, shared=shared))
    others = sorted((path, why) for path, why in passed.items() if path not in files and path not in refused)
    by_position = sorted(files.values(), key=lambda file: file.position)
    return Listing(tuple(by_position), tuple(sorted(refused.items())), tuple(others), unchanged.count)


def _why_passed(path: str, endings: tuple[str, ...], *, shared: bool) -> str:
    """Return why a file is ignored, based on its ending."""
    name, wanted = path.lower(), " or ".join(endings)
    if name.endswith((*_CSV, *_PARQUET)):
        says = "files of cdc_path are CSV" if shared else f"the source says format: {endings[0][1:]}"
        return f"not {wanted}; {says}"
    if name.endswith(_PACKED):
        return f"packed as {name.rpartition('.')[2]}; of packed files only .csv.gz is read"
    return f"not {wanted}"


def _source_file(path: str, found: Found, *, shared: bool) -> SourceFile:
    load = not shared and _LOAD.match(found.name) is not None
    place = f"{found.name}/{os.path.dirname(path)}"  # noqa: PTH120 - text of a stored path
    return SourceFile(
        path=path,
        uri=found.uri,
        name=found.name,
        size_bytes=found.size_bytes,
        modified_ns=found.modified_ns,
        load=load,
        position=snapshot_position(place) if load else change_position(place),
        variant=TRANSACTIONS if shared else "",
    )


TABLE_AND_SCHEMA: Final = (TABLE_FIELD, SCHEMA_FIELD)
"""Fields between op and data fields in a transaction file; bronze does not store them."""


def is_parquet(name: str) -> bool:
    """Return whether a file is read as Parquet; any other is CSV."""
    return name.lower().endswith(".parquet")


def dialect_of(source: DmsFiles, *, load: bool = True) -> CsvDialect:
    """Return the dialect of a source's CSV files; in those of a full load every field has its value."""
    unsaid = None if load else source.csv_no_sup_value
    return CsvDialect(source.csv_delimiter, source.csv_escape, source.csv_null_value, source.encoding.lower(), unsaid)


def has_header(file: SourceFile, source: DmsFiles) -> bool:
    """Return True if the first record of a CSV file names its fields; transaction files have no header."""
    return source.header and file.variant != TRANSACTIONS


def dms_form(file: SourceFile, table: Table) -> FileForm:
    """Return the format of a file."""
    source = table.source
    dialect = None if is_parquet(file.name) else dialect_of(source)
    verify = partial(verify_header if has_header(file, source) else verify_no_header, table)
    return FileForm(
        dialect=dialect,
        header=has_header(file, source),
        op=source.op,
        verify=None if file.variant == TRANSACTIONS else verify,
        names=source.names,
        layouts=() if file.variant == TRANSACTIONS else _layouts(file, source),
        verify_records=None if file.variant == TRANSACTIONS else partial(verify_width, table, file),
    )


def _layouts(file: SourceFile, source: DmsFiles) -> tuple[tuple[str, ...], ...]:
    op = (source.op,) if not file.load or source.include_op_for_full_load else ()
    return tuple((*op, *fields) for fields in source.other_fields)


def own_records(table: Table) -> OwnRecords:
    """Return a filter for the records of one table in a transaction file."""
    schema, _, name = (table.source.cdc_table or table.name).rpartition(".")
    exact = table.source.cdc_table is not None
    return OwnRecords(table=name, schema=schema or None, exact=exact)


def before_images(table: Table, here: Mapping[str, str]) -> BeforeImages | None:
    """Return the filter of before images that are records of their own; None where the op column knows none.

    Args:
        table: declared table.
        here: lower-case name of a field -> its column in bronze.
    """
    source = table.source
    words = words_of(source.op)
    if BEFORE_IMAGE not in words.values() or source.before_image_prefix is not None:
        return None
    keys = {here[key.lower()]: here[old_key(key).lower()] for key in table.keys if key.lower() in here}
    return BeforeImages(op=here[source.op.lower()], words=words, keys=keys)


def old_key_fields(table: Table, file: SourceFile) -> tuple[tuple[str, str], ...]:
    """Return the fields with old keys that reading adds to a file: see :func:`before_images`."""
    source = table.source
    is_other = file.load or file.variant == TRANSACTIONS or source.before_image_prefix is not None
    made = {column.name for column in table.columns or () if column.expr is not None}
    # Without them, before images stay unknown ops: a change of such a key could not be seen.
    if is_other or BEFORE_IMAGE not in words_of(source.op).values() or made & {*table.keys}:
        return ()
    return tuple((old_key(key), "string") for key in table.keys)


def declared_fields(table: Table) -> tuple[str, ...]:
    """Return the columns for files that do not name their fields, in file order and without the op column."""
    source = table.source
    named = source.fields or tuple(
        column.name for column in table.columns or () if column.expr is None and column.name != "*"
    )
    fields = ((name, "string") for name in named if name.lower() != source.op.lower())
    return tuple(name for name, _ in file_columns(fields, source.op))


def columns(table: Table, files: Sequence[NewFile], existing: Sequence[str]) -> tuple[str, ...]:
    """Return bronze's columns such that every file of a batch fits.

    Args:
        table: declared table.
        files: files of the batch, by position.
        existing: columns of bronze now; empty for a new table.

    Returns:
        Existing columns first, then new ones in order of appearance; a new table begins with the op column.

    Raises:
        DeclarationError: a file has no header and the declaration does not name its fields.
    """
    source = table.source
    headerless = [file for file in files if _is_headerless(file, source) and file.size_bytes]
    fields = declared_fields(table) if headerless else ()
    if headerless and not fields:
        raise DeclarationError(
            f"table {table.name!r}: {headerless[0].path} has no header, and its fields are not declared",
            hint="list them in source.fields or in columns, or set header: true",
        )
    names = {name.lower(): name for name in existing}
    names.setdefault(source.op.lower(), source.op)
    for file in files:
        own = fields if _is_headerless(file, source) else [name for name, _ in file.columns]
        for name in (*own, *(name for name, _ in file.inner)):
            names.setdefault(name.lower(), name)
    return tuple(names.values())


def known_fields(
    table: Table, existing: Mapping[str, str], named: Sequence[Sequence[tuple[str, str]]]
) -> dict[str, str]:
    """Return bronze's columns with their types after some files are taken; empty while only the op is named.

    Args:
        table: declared table.
        existing: column of bronze -> its type.
        named: (name, type) of the fields that each new file names; empty if the declaration names them.
    """
    found = [*existing.items(), *(column for one in named for column in one)]
    own = {old_key(key) for key in table.keys}
    if any({name for name, _ in one} <= own for one in named):
        found += [(name, "string") for name in declared_fields(table)]
    op = table.source.op
    known = {op.lower(): (op, "string")}
    for name, kind in found:
        first, have = known.setdefault(name.lower(), (name, kind))
        known[name.lower()] = (first, type_after(have, kind, table.evolution.on_type_change))
    return dict(known.values()) if len(known) > 1 else {}


def file_fields(table: Table, file: NewFile, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that receive the fields of a file, in file order.

    A transaction file has ``TABLE_AND_SCHEMA`` between the op column and the fields.

    Args:
        table: declared table.
        file: file to read.
        columns: bronze's columns.
    """
    source, here = table.source, {name.lower(): name for name in columns}
    if file.variant != TRANSACTIONS and (is_parquet(file.name) or source.header or file.columns):
        return tuple(here[name.lower()] for name, _ in file.columns)
    # Bronze lacks the declared fields until a file with records arrives.
    fields = tuple(here[name.lower()] for name in declared_fields(table) if name.lower() in here)
    op = here[source.op.lower()]
    if file.variant == TRANSACTIONS:
        return (op, *TABLE_AND_SCHEMA, *fields)
    return (op, *fields) if not file.load or source.include_op_for_full_load else fields


def reading(table: Table) -> dict[str, Any]:
    """Return the settings that records depend on: see :meth:`frazil.sources.base.Source.reading`."""
    source = table.source
    kept: dict[str, Any] = {
        "path": [*source.path, *(source.cdc_path or ())],
        "format": source.format,
        "by_place": not table.sequence_by and not source.change_seq,
    }
    if source.encoding.lower() != UTF_8:
        kept["encoding"] = source.encoding.lower()
    if source.names:
        kept["names"] = source.names
    if source.csv_no_sup_value is not None:
        kept["csv_no_sup_value"] = source.csv_no_sup_value
    if source.cdc_path:
        kept["cdc_table"] = source.cdc_table
    if source.format == "csv":
        kept |= source.model_dump(include={"header", "csv_delimiter", "csv_null_value", "csv_escape"})
    if source.cdc_path or (source.format == "csv" and not source.header):
        kept |= {"fields": [*declared_fields(table)], "op": source.op}
        kept["include_op_for_full_load"] = source.include_op_for_full_load
        if source.other_fields:
            kept["other_fields"] = [[*fields] for fields in source.other_fields]
    return kept


def _is_headerless(file: NewFile, source: DmsFiles) -> bool:
    is_named = bool(file.columns) or is_parquet(file.name) or has_header(file, source)
    return not file.broken and not is_named


class HeaderError(SourceError):
    """The first record of a file contradicts the declared ``header``."""

    code = "FZ205"
    retryable = False


class OtherFieldsError(SourceError):
    """The records of a CSV file without a header have another number of fields than the declared ones."""

    code = "FZ207"
    retryable = False


def verify_width(table: Table, file: SourceFile, path: str, records: Sequence[Sequence[str | None]]) -> None:
    """Refuse a CSV file without a header if its records agree in a number of fields that no declared list has.

    One such record may be bad, and lines of one field are anything. Several that agree are of another layout: a column
    was added or dropped at the source.

    Args:
        table: declared table.
        file: the file as listed.
        path: path of the file, for messages.
        records: fields of the first records.

    Raises:
        OtherFieldsError: the records are of another layout.
    """
    source, fields = table.source, declared_fields(table)
    has_op = not file.load or source.include_op_for_full_load
    widths = {len(record) for record in records}
    known = {len(names) + has_op for names in (fields, *source.other_fields)}
    if not fields or not records[1:] or len(widths) != 1 or 1 in widths or widths & known:
        return
    [width] = widths
    op = " with the op" if has_op else ""
    raise OtherFieldsError(
        f"table {table.name!r}: the records of {path} have {width} fields, the declaration names "
        f"{len(fields) + has_op}{op}: {', '.join(fields)}",
        hint="if a column was added or dropped: write fields, and in other_fields the fields of files from before or "
        "after it; or include_op_for_full_load, if op is what full loads have more",
    )


def verify_no_header(table: Table, path: str, first: Sequence[str | None]) -> None:
    """Refuse a CSV file that is read without a header but seems to have one.

    Args:
        table: declared table, without ``header: true``.
        path: path of the file, for messages.
        first: fields of the first record.

    Raises:
        HeaderError: all fields are declared names. Without a declared ``header`` it is enough that most fields are
            declared names, or that all look like names and some do not fit the type of their column.
    """
    if not first:
        return
    names = [(text or "").strip().lower() for text in first]
    hits = _known_names(table, names)
    is_said = "header" in table.source.model_fields_set
    if hits == len(names) > 1 or (not is_said and 2 * hits > len(names) > 1):
        message, hint = "names its fields", "set header: true in its source"
    elif not is_said and looks_like_names(first) and _contradict(table, first):
        message, hint = "may name its fields", "say in its source: header: true if it does, header: false if not"
    else:
        return
    shown = ", ".join(text or "NULL" for text in first)
    raise HeaderError(f"table {table.name!r}: the first record of {path} {message}: {shown[:200]}", hint=hint)


def verify_header(table: Table, path: str, first: Sequence[str | None]) -> None:
    """Refuse a CSV file that is read with a header but seems to begin with a record.

    Args:
        table: declared table, with ``header: true``.
        path: path of the file, for messages.
        first: fields of the first record.

    Raises:
        HeaderError: the fields include no declared name and do not look like names.
    """
    if len(first) < 2 or looks_like_names(first) or _known_names(table, first):  # noqa: PLR2004 - one field may be any
        return
    shown = ", ".join(text or "NULL" for text in first)
    raise HeaderError(
        f"table {table.name!r}: the first record of {path} names no field that the declaration knows, and looks like "
        f"values: {shown[:200]}",
        hint="if no file has a header, set header: false in its source; if this one lacks it, deliver it with one "
        "under a new name",
    )


def _known_names(table: Table, first: Sequence[str | None]) -> int:
    """Count the fields of the first record that are declared names."""
    columns = [name for name, column in declared_columns(table).items() if column.expr is None]
    known = {name.lower() for name in (*table.keys, *table.sequence_by, *columns, *table.renames, table.source.op)}
    return sum((text or "").strip().lower() in known for text in first)


def _contradict(table: Table, first: Sequence[str | None]) -> bool:
    """Return True if a field of a record does not fit the type of its column; every value fits a string."""
    kinds = {column.name: column.type for column in table.columns or ()}
    fields = layout(table) or ()
    values = first[len(first) - len(fields) :] if len(first) - len(fields) in {0, 1} else ()
    pairs = zip(fields, values, strict=False)
    return any(kinds.get(name, "string") not in {"string", type_of({value or ""})} for name, value in pairs)
