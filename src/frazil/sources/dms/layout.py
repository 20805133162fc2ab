"""How the fields of files of Amazon DMS go to the columns of bronze."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import DeclarationError
from frazil.formats.csv.lines import Dialect
from frazil.formats.field_names import file_columns
from frazil.formats.own_records import SCHEMA_FIELD, TABLE_FIELD, OwnRecords
from frazil.formats.recoded import UTF_8
from frazil.sources.dms.header import verify_header, verify_no_header
from frazil.sources.dms.listing import TRANSACTIONS
from frazil.sources.inspection import FileForm
from frazil.spec.model.types import type_after

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frazil.sources.base import NewFile, SourceFile
    from frazil.spec import DmsFiles, Table

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


def form_of(file: SourceFile, table: Table) -> FileForm:
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


def fields_of(table: Table, file: NewFile, columns: Sequence[str]) -> tuple[str, ...]:
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
