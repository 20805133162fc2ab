"""Declared source: files of Amazon DMS."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field

from frazil.spec.contract import is_closed, is_headerless, layout, repeated
from frazil.spec.load.problem import Problem, suggestion
from frazil.spec.model.source import Paths, SourceSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.load.problem import Path
    from frazil.spec.model.source import FoldBy, TableSpec

OLD_KEY: Final = "__before_"
"""Prefix of the fields with old keys, where the image before an update is a record of its own."""


def writes_before_images(op: str) -> bool:
    """Return whether an op column is of a tool that writes the image before an update as a record of its own."""
    return op.lower() in {"__$operation", "_change_type"} or op.lower().endswith("change_oper")


FILE: Final = "_cdc_file"
"""Bronze's column with the path of a record's file. DMS writes the time into the name."""


class DmsFiles(SourceSpec):
    r"""Files that Amazon DMS writes to S3 or a folder: full load files and change files of one table.

    Settings of DMS keep their name, in snake case, and their default.
    """

    kind: Literal["dms"] = Field(default="dms", description="The kind of source: files of Amazon DMS.")
    path: Paths = Field(
        min_length=1,
        description="Folders, files or glob patterns, searched recursively; relative to the declaration.",
    )
    format: Literal["csv", "parquet"] = Field(default="csv", description="Format of the files below path.")
    header: bool = Field(
        default=False,
        description="CSV: the first record names the fields (AddColumnName). Left out: false, and files whose first "
        "record looks like names are refused until it is said.",
    )
    fields: tuple[str, ...] | None = Field(
        default=None,
        description="CSV without header: the field names in file order, without the op column. "
        "Left out: the declared columns that have no expr.",
    )
    other_fields: tuple[tuple[str, ...], ...] = Field(
        default=(),
        description="CSV without header: lists of fields that other files have, some of those in fields. A file is "
        "read with the list that has as many fields as its first record.",
    )
    names: dict[str, str] = Field(
        default_factory=dict,
        description="Field, exactly as records name it -> the name that it has here: for two that differ by case, or "
        "one called like the op column.",
    )
    op: str = Field(default="op", description="Name of the op column (I, U, D), compared without regard to case.")
    include_op_for_full_load: bool = Field(
        default=False, description="CSV without header: full load files have the op column too."
    )
    csv_delimiter: str = Field(default=",", min_length=1, max_length=1, description="The sign between two fields.")
    csv_null_value: str = Field(default="NULL", description="An unquoted field with this text is NULL.")
    csv_no_sup_value: str | None = Field(
        default=None,
        min_length=1,
        description="CSV: a field of a change with this text was not in the source's log; the row keeps its value.",
    )
    csv_escape: str | None = Field(
        default=None,
        min_length=1,
        max_length=1,
        description="Escape character where quotes are not doubled (Rfc4180=false).",
    )
    encoding: str = Field(
        default="utf-8",
        description="CSV: encoding of the files, as Python names it, such as cp1252; one that ASCII is a part of.",
    )
    change_seq: str | None = Field(
        default=None,
        description="Field with AR_H_CHANGE_SEQ: it then orders the changes in place of file and row.",
    )
    before_image_prefix: str | None = Field(
        default=None, description="Prefix of before-image fields, such as BI_: a changed key is then seen."
    )
    cdc_path: Paths | None = Field(
        default=None,
        description="Folder(s) of transaction-ordered change files (CdcPath), many tables in one file.",
    )
    cdc_table: str | None = Field(
        default=None,
        description="schema.table as the files of cdc_path name it; left out: any schema, same name.",
    )
    snapshots: Literal["partial"] | None = Field(
        default=None,
        description="What a second full load has: partial (some rows; changes win over them, and a row that it lacks "
        "stays). Left out: the table stops at a second full load that differs from it.",
    )
    settle_seconds: float = Field(
        default=60.0,
        ge=0,
        description="A file that looks cut off (no line end or footer) and is younger waits for a later run.",
    )

    @property
    def locations(self) -> dict[str, tuple[str, ...]]:
        """Return ``path`` and ``cdc_path``."""
        return {"path": self.path, "cdc_path": self.cdc_path or ()}

    @property
    def operation_field(self) -> str:
        """Return the op column."""
        return self.op

    @property
    def orders_records(self) -> bool:
        """Return whether records have a change sequence."""
        return self.change_seq is not None

    @property
    def leaves_out(self) -> bool:
        """Return whether an update may lack values that were not logged."""
        return self.csv_no_sup_value is not None

    @property
    def named_delivery(self) -> str:
        """Return the pattern of the time in the names of change files."""
        return r"(?:^|/)(?:CDC_TXN-)?([0-9]{8}-?[0-9]{9})[^/]*$"

    @property
    def compares_loads(self) -> bool:
        """Return whether the declaration does not say what second full loads have."""
        return self.snapshots is None

    @property
    def types_fields(self) -> bool:
        """Return whether the files are Parquet, which has types."""
        return self.format != "csv"

    def field_names(self, declared: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the fields of headerless files, without the op column; files of ``cdc_path`` never have a header."""
        is_headerless = (self.format == "csv" and not self.header) or self.cdc_path is not None
        return (self.fields or declared) if is_headerless else None

    @property
    def meaning(self) -> dict[str, Any]:
        """Return the kind and the settings of op, change sequence and before-images."""
        return self.model_dump(mode="json", include={"kind", "op", "change_seq", "before_image_prefix"})

    @property
    def before_prefix(self) -> str | None:
        """Return the prefix of before-image fields; None without any."""
        return self.before_image_prefix or (OLD_KEY if writes_before_images(self.op) else None)

    def is_bookkeeping(self, field: str) -> bool:
        """Return whether a field is the op column, the change sequence or a before-image."""
        own = {self.op.lower(), (self.change_seq or self.op).lower()}
        return field.lower() in own or bool(self.before_prefix and field.startswith(self.before_prefix))

    @property
    def retention_by(self) -> tuple[FoldBy, ...]:
        """Return that files order their records by the columns of ``sequence_by``."""
        return ("time",)

    @property
    def ways_out_of_bad_rows(self) -> list[str]:
        """Return the settings that wrong records of the files point to."""
        ways = ["say kind: snapshot where the files are whole copies of the table, without an op"]
        if self.format == "csv" and not self.header:
            ways.append("name in other_fields what files have from before or after a column was added or dropped")
        return ways

    def problems(self, table: TableSpec, at: Path) -> Iterator[Problem]:
        """Yield what is wrong with these settings for a table."""
        return _problems(table, at)


_NAMED: Final = r"^(?:.*/)?([0-9]{4})([0-9]{2})([0-9]{2})-([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{3})[^/]*$"
_PARTS: Final = "{}1-{}2-{}3 {}4:{}5:{}6.{}7"


def time_in_name(path: str) -> str | None:
    """Return the UTC time at the start of a file's name, such as ``20260131-050000123``; None without one."""
    found = re.match(_NAMED, path)
    return found and found.expand(_PARTS.replace("{}", "\\"))


def time_in_name_sql(path: str) -> str:
    """Write :func:`time_in_name` as SQL; ``path`` is SQL of a path."""
    parts = _PARTS.replace("{}", "$")
    return f"CASE WHEN {path} RLIKE '{_NAMED}' THEN regexp_replace({path}, '{_NAMED}', '{parts}') END"


def _problems(table: TableSpec, at: Path) -> Iterator[Problem]:
    yield from _naming_of_fields(table, at)
    if table.source.csv_no_sup_value is not None and table.source.csv_no_sup_value == table.source.csv_null_value:
        message = f"csv_no_sup_value in the source of table '{table.name}' is csv_null_value"
        yield Problem((*at, "csv_no_sup_value"), message, "leave it out: what was not logged cannot be told from NULL")
    yield from _names(table, at)
    yield from _other_fields(table, (*at, "other_fields"))
    yield from _encoding(table, (*at, "encoding"))
    yield from _fields(table, at)
    yield from _signs(table, at)
    yield from _transaction_files(table, at)
    yield from _change_seq(table, (*at, "change_seq"))
    yield from _before_image(table, (*at, "before_image_prefix"))


def _naming_of_fields(table: TableSpec, at: Path) -> Iterator[Problem]:
    source, whose = table.source, f"the source of table '{table.name}'"
    if source.header and source.format == "parquet":
        yield Problem((*at, "header"), f"header in {whose} is for CSV; Parquet files name their fields")
    if source.fields is not None and not is_headerless(table):
        why = "the header names the fields" if source.format == "csv" else "Parquet files name their fields"
        yield Problem((*at, "fields"), f"fields in {whose} has no use: {why}", "leave it out")
    if is_headerless(table) and not source.fields and (not is_closed(table) or not layout(table)):
        yield Problem(
            at,
            f"{whose} has CSV files without a header, and nothing names their fields",
            'write fields: [...] in file order, declare columns without "*", or set header: true',
        )


def _names(table: TableSpec, at: Path) -> Iterator[Problem]:
    source, whose = table.source, f"names in the source of table '{table.name}'"
    if source.names and source.format == "csv" and not source.header:
        yield Problem(
            (*at, "names"), f"{whose} has no use: CSV without a header names no fields", "name them in fields"
        )


def _encoding(table: TableSpec, at: Path) -> Iterator[Problem]:
    source, ascii_signs = table.source, bytes(range(128))
    try:
        is_known = ascii_signs.decode(source.encoding) == ascii_signs.decode()
    except (LookupError, UnicodeError):
        is_known = False
    if not is_known:
        message = f"encoding of the source of table '{table.name}' is '{source.encoding}', which cannot be read"
        yield Problem(at, message, "write one that Python knows and ASCII is a part of, such as latin-1 or cp1252")


def _other_fields(table: TableSpec, at: Path) -> Iterator[Problem]:
    source, whose = table.source, f"other_fields in the source of table '{table.name}'"
    if source.other_fields and (source.fields is None or source.header or source.format != "csv"):
        yield Problem(at, f"{whose} applies only to fields of headerless CSV", "leave it out, or write fields")
        return
    counts = [len(source.fields or ())]
    for index, fields in enumerate(source.other_fields):
        if unknown := [name for name in fields if name not in source.fields]:
            message = f"{whose} names '{unknown[0]}', which is not one of fields"
            yield Problem((*at, index), message, suggestion(unknown[0], source.fields))
        if repeated(fields) or len(fields) in counts:
            yield Problem((*at, index), f"{whose} needs lists of different lengths, each field once")
        counts.append(len(fields))


def _fields(table: TableSpec, at: Path) -> Iterator[Problem]:
    fields = table.source.fields or ()
    for name in repeated(fields):
        yield Problem((*at, "fields"), f"field '{name}' of table '{table.name}' is listed twice")
    for index, field in enumerate(fields):
        if field.lower() == table.source.op.lower():
            message = f"fields of table '{table.name}' lists the op column '{field}'"
            yield Problem((*at, "fields", index), message, "leave it out: it precedes the fields")


def _signs(table: TableSpec, at: Path) -> Iterator[Problem]:
    source, whose = table.source, f"the source of table '{table.name}'"
    for setting, sign in (("csv_delimiter", source.csv_delimiter), ("csv_escape", source.csv_escape)):
        # Records are cut at single bytes, which is right in UTF-8 for ASCII only.
        if sign is not None and (not sign.isascii() or sign in {'"', "\r", "\n", "\0"}):
            hint = "write one ASCII character, neither quote, line end nor NUL"
            yield Problem((*at, setting), f"{setting} of {whose} cannot work", hint)
    if source.csv_escape == source.csv_delimiter:
        yield Problem((*at, "csv_escape"), f"csv_escape of {whose} is the delimiter")


def _transaction_files(table: TableSpec, at: Path) -> Iterator[Problem]:
    source, whose, here = table.source, f"cdc_table of table '{table.name}'", (*at, "cdc_table")
    if source.cdc_table is None:
        return
    if source.cdc_path is None:
        yield Problem(here, f"{whose} applies only with cdc_path", "leave it out")
    if "." not in source.cdc_table:
        yield Problem(here, f"{whose} is not schema.table", "write public.hosts or the like")


def _change_seq(table: TableSpec, at: Path) -> Iterator[Problem]:
    name, fields, whose = table.source.change_seq, layout(table), f"of table '{table.name}'"
    if name is None:
        return
    if not name.strip() or name.lower() == table.source.op.lower():
        yield Problem(at, f"change_seq {whose} must name a field other than the op column")
    elif fields and name not in fields:
        message = f"change_seq {whose} names '{name}', which is not one of its fields"
        yield Problem(at, message, suggestion(name, fields))


def _before_image(table: TableSpec, at: Path) -> Iterator[Problem]:
    prefix, fields, whose = table.source.before_image_prefix, layout(table) or (), f"of table '{table.name}'"
    if prefix is None:
        return
    missing = [prefix + key for key in table.keys if key in fields and prefix + key not in fields]
    if not prefix.strip():
        yield Problem(at, f"before_image_prefix {whose} is empty", "write BI_ or the like, or leave it out")
    elif missing:
        message = f"before_image_prefix {whose} is '{prefix}', but the field '{missing[0]}' is missing"
        yield Problem(at, message, "add it to the fields; without it a changed key is not seen")
