"""How the fields of files of Amazon DMS go to the columns of bronze."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import DeclarationError, SourceError
from frazil.formats.csv.lines import Dialect
from frazil.formats.field_names import file_columns
from frazil.formats.own_records import SCHEMA_FIELD, TABLE_FIELD, OwnRecords
from frazil.formats.recoded import UTF_8
from frazil.sources.base import Listing, SourceFile, change_position, snapshot_position, stored_path
from frazil.sources.dms.guess import looks_like_names, type_of
from frazil.sources.ledger import Ledger, Unchanged
from frazil.sources.new_files import FileForm
from frazil.spec.contract import declared, layout
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
        source: the declaration; files of ``cdc_path`` are transaction files and CSV, also if below ``path``.
        folder: the declaration's folder, absolute.
        stores: how object stores are reached.
        ledger: what bronze knows: files that are as it says are counted only. Left out: all are listed.

    Returns:
        Every file once, full load files first, then by name as plain text, whatever their folders and times. Files of
        another kind are named with the reason; hidden and temporary ones are not.

    Raises:
        MissingFolderError: a path that is no pattern does not exist or cannot be listed.

    Cost: one ``stat`` a file, some 20,000 files a second; in an object store one request for a thousand objects.
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
    """Return why a file is not read, by the end of its name."""
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
"""What stands between op and fields of a transaction file; bronze does not keep it."""


def is_parquet(name: str) -> bool:
    """Return whether a file is read as Parquet; any other is CSV."""
    return name.lower().endswith(".parquet")


def dialect_of(source: DmsFiles) -> Dialect:
    """Return how the CSV files of a source are written."""
    return Dialect(source.csv_delimiter, source.csv_escape, source.csv_null_value, source.encoding.lower())


def has_header(file: SourceFile, source: DmsFiles) -> bool:
    """Return whether the first record of a CSV file names its fields; in transaction files none does."""
    return source.header and file.variant != TRANSACTIONS


def dms_form(file: SourceFile, table: Table) -> FileForm:
    """Return how a file is written."""
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
    )


def _layouts(file: SourceFile, source: DmsFiles) -> tuple[tuple[str, ...], ...]:
    op = (source.op,) if not file.load or source.include_op_for_full_load else ()
    return tuple((*op, *fields) for fields in source.other_fields)


def own_records(table: Table) -> OwnRecords:
    """Return which records of a transaction file are a table's."""
    schema, _, name = (table.source.cdc_table or table.name).rpartition(".")
    exact = table.source.cdc_table is not None
    return OwnRecords(table=name, schema=schema or None, exact=exact)


def declared_fields(table: Table) -> tuple[str, ...]:
    """Return the columns for the fields of files that name none, in file order, the op column left out."""
    source = table.source
    declared = source.fields or tuple(
        column.name for column in table.columns or () if column.expr is None and column.name != "*"
    )
    fields = ((name, "string") for name in declared if name.lower() != source.op.lower())
    return tuple(name for name, _ in file_columns(fields, source.op))


def columns(table: Table, files: Sequence[NewFile], existing: Sequence[str]) -> tuple[str, ...]:
    """Return bronze's columns so that every file of a batch fits.

    Args:
        table: the declaration.
        files: the files of the batch in the order of their positions.
        existing: columns the bronze table has now; none for a new table.

    Returns:
        Existing columns first, then new ones in the order they appear; a new table begins with the op column.

    Raises:
        DeclarationError: a file has no header and nothing names its fields.
    """
    source = table.source
    headerless = [file for file in files if _is_headerless(file, source) and file.size_bytes]
    fields = declared_fields(table) if headerless else ()
    if headerless and not fields:
        raise DeclarationError(
            f"table {table.name!r}: {headerless[0].path} has no header and nothing names its fields",
            hint="list them in source.fields or in columns, or set header: true",
        )
    names = {name.lower(): name for name in existing}
    names.setdefault(source.op.lower(), source.op)
    for file in files:
        for name in fields if _is_headerless(file, source) else [name for name, _ in file.columns]:
            names.setdefault(name.lower(), name)
    return tuple(names.values())


def known_fields(
    table: Table, existing: Mapping[str, str], named: Sequence[Sequence[tuple[str, str]]]
) -> dict[str, str]:
    """Return bronze's columns with their types once some files are taken; none while nothing but the op is named.

    Args:
        table: the declaration.
        existing: name -> type of those that bronze has.
        named: (name, type) of the fields that each new file names; none of a file whose fields the declaration names.
    """
    found = [*existing.items(), *(column for one in named for column in one)]
    if not all(named):
        found += [(name, "string") for name in declared_fields(table)]
    op = table.source.op
    known = {op.lower(): (op, "string")}
    for name, kind in found:
        first, have = known.setdefault(name.lower(), (name, kind))
        known[name.lower()] = (first, type_after(have, kind, table.evolution.on_type_change))
    return dict(known.values()) if len(known) > 1 else {}


def file_fields(table: Table, file: NewFile, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that the fields of a file go to, in file order.

    A transaction file has ``TABLE_AND_SCHEMA`` between the op column and the fields.
    """
    source, here = table.source, {name.lower(): name for name in columns}
    if file.variant != TRANSACTIONS and (is_parquet(file.name) or source.header or file.columns):
        return tuple(here[name.lower()] for name, _ in file.columns)
    # Before a file with records came, bronze has none of the declared fields.
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
    """The first record of a file is the names of its fields, and the declaration does not say so; or the reverse."""

    code = "FZ205"
    retryable = False


def verify_no_header(table: Table, path: str, first: Sequence[str | None]) -> None:
    """Refuse a CSV file that is read as one without header, and seems to have one.

    Args:
        table: the declaration; of files with ``header: true`` nobody asks.
        path: of the file, for people.
        first: the fields of its first record.

    Raises:
        HeaderError: all of the fields are names that the declaration knows; or, where it does not say ``header``, most
            of them are, or all of them look like names and some are no values of their columns.
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
    """Refuse a CSV file that is read as one with a header, and seems to begin with a record.

    Raises:
        HeaderError: none of the fields is a name that the declaration knows, and they do not look like names.
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
    """Count the fields of a first record that are names which the declaration knows."""
    columns = [name for name, column in declared(table).items() if column.expr is None]
    known = {name.lower() for name in (*table.keys, *table.sequence_by, *columns, *table.renames, table.source.op)}
    return sum((text or "").strip().lower() in known for text in first)


def _contradict(table: Table, first: Sequence[str | None]) -> bool:
    """Return whether some field of a record is no value of the column that it would go to; texts fit any."""
    kinds = {column.name: column.type for column in table.columns or ()}
    fields = layout(table) or ()
    values = first[len(first) - len(fields) :] if len(first) - len(fields) in {0, 1} else ()
    pairs = zip(fields, values, strict=False)
    return any(kinds.get(name, "string") not in {"string", type_of({value or ""})} for name, value in pairs)
