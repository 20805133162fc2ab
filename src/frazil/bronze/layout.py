"""Files as they are passed around, and how the fields of each become columns of one bronze table.

All values here are frozen and picklable: the driver makes them, executors read with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frazil.bronze.record import BRONZE_COLUMNS, safe_name
from frazil.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from frazil.spec import DmsFiles, Table

SHARED_TABLE, SHARED_SCHEMA = "_cdc_table", "_cdc_schema"
"""Names of the second and third field of a transaction file while it is read; bronze does not keep them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file that was listed.

    Attributes:
        path: as stored in ``_cdc_file``: relative to the declaration's folder when below it, else absolute.
        uri: how to open it: a local absolute path.
        name: last part of the path; the order between files comes from it.
        modified_ns: modification time in nanoseconds since 1970; tells changed files, never orders them.
        load: a full load file; else a change file.
        position: sortable text, ``0/<name>/<folder>`` for load files, ``1/<name>/<folder>`` for change files.
        shared: a transaction file of ``cdc_path``, with records of many tables.
    """

    path: str
    uri: str
    name: str
    size_bytes: int
    modified_ns: int
    load: bool
    position: str
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile(SourceFile):
    """A file that was read once from end to end, so its content is known.

    Attributes:
        sha256: of the bytes of the file as they are stored, in hex.
        columns: (name, Spark type) of its fields in file order, the op column under its declared name;
            empty for a CSV file without header, whose fields the declaration names.
        broken: why no record of it can be read, as a reason of a bad record; None for a sound file.
        same_as: path under which the same content was taken first; None for new content.
    """

    sha256: str
    columns: tuple[tuple[str, str], ...] = ()
    broken: str | None = None
    same_as: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The bronze table's columns, and how its files are taken apart.

    Attributes:
        columns: source fields of the bronze table in its order, the op column among them.
        fields: fields of a CSV file without header in file order, without the op column.
        shared_table: table whose records of a transaction file are kept; compared without regard to case
            when ``shared_exact`` is false.
        shared_schema: its schema; None takes any.
        batch: number of the run's batch.
        arrived_at: time of the run, with a time zone.
    """

    columns: tuple[str, ...]
    fields: tuple[str, ...]
    op: str
    header: bool
    include_op_for_full_load: bool
    delimiter: str
    null_value: str
    escape: str | None
    change_seq: str | None
    shared_table: str
    shared_schema: str | None
    shared_exact: bool
    batch: int
    arrived_at: datetime

    def has_header(self, file: SourceFile) -> bool:
        """Whether the first record of a CSV file names its fields; transaction files never have a header."""
        return self.header and not file.shared

    def fields_of(self, file: NewFile) -> tuple[str, ...]:
        """Bronze columns that the fields of ``file`` go to, in file order.

        A transaction file has ``SHARED_TABLE`` and ``SHARED_SCHEMA`` between the op column and the fields.
        """
        if file.shared:
            return (self.op, SHARED_TABLE, SHARED_SCHEMA, *self.fields)
        if is_parquet(file.name) or self.header:
            here = {name.lower(): name for name in self.columns}
            return tuple(here[name.lower()] for name, _ in file.columns)
        has_op = not file.load or self.include_op_for_full_load
        return (self.op, *self.fields) if has_op else self.fields

    def known_of(self, file: NewFile) -> list[str] | None:
        """Columns that ``file`` carries, op aside; None when it carries all of ``columns``."""
        no_fields = {self.op, SHARED_TABLE, SHARED_SCHEMA}
        carried = [name for name in self.fields_of(file) if name not in no_fields]
        return None if set(self.columns) <= {*carried, self.op} else carried


def is_parquet(name: str) -> bool:
    """Whether a file is read as Parquet; any other is CSV."""
    return name.lower().endswith(".parquet")


def file_columns(names_and_types: Iterable[tuple[str, str]], op: str) -> tuple[tuple[str, str], ...]:
    """Give the fields of a file their column names; the op column gets its declared name.

    Args:
        names_and_types: fields in file order; names distinct without regard to case.
        op: declared name of the op column, compared without regard to case.
    """
    taken: set[str] = set()
    columns = []
    for name, kind in names_and_types:
        column = op if name.lower() == op.lower() else safe_name(name, frozenset(taken))
        taken.add(column.lower())
        columns.append((column, kind))
    return tuple(columns)


def layout_of(
    table: Table, files: Sequence[NewFile], existing: Sequence[str], *, batch: int, arrived_at: datetime
) -> Layout:
    """Decide the columns of the bronze table so that every file of a batch fits.

    Args:
        table: the declaration.
        files: the files of the batch in the order of their positions.
        existing: columns the bronze table has now, with or without bookkeeping columns; none for a new table.
        batch: number of the batch.
        arrived_at: time of the run, with a time zone.

    Returns:
        Existing columns first, then new ones in the order they appear; a new table begins with the op column.

    Raises:
        DeclarationError: a file has no header and nothing names its fields, or a delimiter, escape
            character or NULL text cannot work.
    """
    source = table.source
    _check_dialect(table.name, source)
    headerless = [file for file in files if _is_headerless(file, source) and file.size_bytes]
    fields = _declared_fields(table) if headerless else ()
    if headerless and not fields:
        raise DeclarationError(
            f"table {table.name!r}: {headerless[0].path} has no header and nothing names its fields",
            hint="list them in source.fields or in columns, or set header: true",
        )
    names = {name.lower(): name for name in existing if name not in BRONZE_COLUMNS}
    names.setdefault(source.op.lower(), source.op)
    for file in files:
        for name in fields if _is_headerless(file, source) else [name for name, _ in file.columns]:
            names.setdefault(name.lower(), name)
    schema, _, shared = (source.cdc_table or table.name).rpartition(".")
    return Layout(
        columns=tuple(names.values()),
        fields=tuple(names[name.lower()] for name in fields),
        op=names[source.op.lower()],
        header=source.header,
        include_op_for_full_load=source.include_op_for_full_load,
        delimiter=source.csv_delimiter,
        null_value=source.csv_null_value,
        escape=source.csv_escape,
        change_seq=names.get(source.change_seq.lower()) if source.change_seq else None,
        shared_table=shared,
        shared_schema=schema or None,
        shared_exact=source.cdc_table is not None,
        batch=batch,
        arrived_at=arrived_at,
    )


def read_settings(table: Table) -> dict[str, Any]:
    """Return what the records of a table's files depend on in its declaration, as plain values.

    Bronze keeps it in its bookmark: were it changed, a lake that took the files before would hold other records than
    one that takes them now. ``path`` and ``by_place`` are there to see that a source was exchanged for another.
    """
    source = table.source
    kept: dict[str, Any] = {
        "path": [*source.path, *(source.cdc_path or ())],
        "format": source.format,
        "by_place": not table.sequence_by and not source.change_seq,
    }
    if source.cdc_path:
        kept["cdc_table"] = source.cdc_table
    if source.format == "csv":
        kept |= source.model_dump(include={"header", "csv_delimiter", "csv_null_value", "csv_escape"})
    if source.cdc_path or (source.format == "csv" and not source.header):
        kept |= {"fields": [*_declared_fields(table)], "op": source.op}
        kept["include_op_for_full_load"] = source.include_op_for_full_load
    return kept


def _is_headerless(file: NewFile, source: DmsFiles) -> bool:
    return not file.broken and not is_parquet(file.name) and (file.shared or not source.header)


def _declared_fields(table: Table) -> tuple[str, ...]:
    source = table.source
    declared = source.fields or tuple(
        column.name for column in table.columns or () if column.expr is None and column.name != "*"
    )
    fields = ((name, "string") for name in declared if name.lower() != source.op.lower())
    return tuple(name for name, _ in file_columns(fields, source.op))


def _check_dialect(table: str, source: DmsFiles) -> None:
    # Records are cut by looking for single bytes, which is right in UTF-8 for ASCII only.
    for setting, value in (("csv_delimiter", source.csv_delimiter), ("csv_escape", source.csv_escape)):
        if value is not None and (not value.isascii() or value in '"\r\n\0'):
            raise DeclarationError(
                f"table {table!r}: {setting} {value!r} cannot work",
                hint="one ASCII character, neither quote, line end nor NUL",
            )
    if source.csv_delimiter == source.csv_escape:
        raise DeclarationError(f"table {table!r}: csv_delimiter and csv_escape are the same character")
