"""Where changes come from: one frozen class a kind of source."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from frazil.spec.base import Spec

Paths = Annotated[
    tuple[str, ...],
    BeforeValidator(
        lambda value: (value,) if isinstance(value, str) else value,
        json_schema_input_type=str | tuple[str, ...],
    ),
]


class DmsFiles(Spec):
    r"""Files that Amazon DMS writes to S3 or a folder: full load files and change files of one table.

    Settings that DMS has too carry the DMS name in snake case, and its default.
    """

    kind: Literal["dms"] = Field(default="dms", description="The kind of source: files of Amazon DMS.")
    path: Paths = Field(
        min_length=1,
        description="Folders, files or glob patterns, searched recursively; relative to the declaration.",
    )
    format: Literal["csv", "parquet"] = Field(default="csv", description="Format of the files below path.")
    header: bool = Field(default=False, description="CSV: the first record names the fields (AddColumnName).")
    fields: tuple[str, ...] | None = Field(
        default=None,
        description="CSV without header: the field names in file order, without the op column. "
        "Left out: the declared columns that have no expr.",
    )
    op: str = Field(default="op", description="Name of the op column (I, U, D), compared without regard to case.")
    include_op_for_full_load: bool = Field(
        default=False, description="CSV without header: full load files have the op column too."
    )
    csv_delimiter: str = Field(default=",", min_length=1, max_length=1, description="The sign between two fields.")
    csv_null_value: str = Field(default="NULL", description="An unquoted field with this text is NULL.")
    csv_escape: str | None = Field(
        default=None,
        min_length=1,
        max_length=1,
        description="Escape character where quotes are not doubled (Rfc4180=false).",
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
        description="schema.table as it stands in the files of cdc_path; left out: any schema, same name.",
    )
    settle_seconds: float = Field(
        default=60.0,
        ge=0,
        description="A file that looks cut off (no line end or footer) and is younger waits for a later run.",
    )


Source = DmsFiles
