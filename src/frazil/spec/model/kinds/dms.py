"""Declared source: files of Amazon DMS."""

from __future__ import annotations

import re
from typing import Any, Final, Literal

from pydantic import Field

from frazil.spec.model.source import Paths, SourceSpec

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
