"""The columns that Frazil owns, and the layout of bronze.

A bronze table has seven kinds of rows, partitioned by ``_cdc_kind``:

- ``record``: one record of a file as delivered, every field as text in a column of its own name;
- ``bad``: a record that could not be split into fields, its bytes in ``_cdc_raw`` and the reason in ``_cdc_reason``;
- ``part``: bytes of a bad record that do not fit into its row, in ``_cdc_raw``, from ``_cdc_offset`` on;
- ``corrected``: a record that replaces the record of its file and row, see ``bronze/read.py``. ``_cdc_raw`` has
  the text of the correction; the correction of the newest batch applies;
- ``erased``: the place of a record whose key was erased, without its content;
- ``folded``: number of removed records of a file, in ``_cdc_offset``; their changes are in silver's baseline;
- ``file``: the ledger, one row for each file (also for a duplicate), committed with the file's records.

``lines = rows + bad + headers + foreign`` holds for every file of the ledger. An erased or folded record still counts
under its former kind.

The bytes of a CSV file are ``_cdc_raw`` of its ledger row, followed by the bytes of each row. The bytes of a row are
``_cdc_raw`` (if NULL: the fields, written in ``_cdc_form`` of the ledger row), ``_cdc_end`` (if NULL: the line end of
that form), and the parts of the row.
"""

from __future__ import annotations

from typing import Final

PREFIX: Final = "_cdc_"

KIND: Final = "_cdc_kind"
FILE: Final = "_cdc_file"
ROW: Final = "_cdc_row"
POSITION: Final = "_cdc_position"
BATCH: Final = "_cdc_batch"
ARRIVED_AT: Final = "_cdc_arrived_at"
CLASS: Final = "_cdc_class"
KNOWN: Final = "_cdc_known"
SOURCE_TIME: Final = "_cdc_source_time"
RAW: Final = "_cdc_raw"
REASON: Final = "_cdc_reason"
LEDGER: Final = "_cdc_ledger"
END: Final = "_cdc_end"
OFFSET: Final = "_cdc_offset"
FORM: Final = "_cdc_form"

RECORD, BAD, CORRECTED, LEDGER_ROW, PART, ERASED = "record", "bad", "corrected", "file", "part", "erased"
FOLDED: Final = "folded"
UPSERT, DELETE, TRUNCATE = "upsert", "delete", "truncate"

LEDGER_TYPE: Final = (
    "struct<name: string, size_bytes: bigint, modified_ns: bigint, sha256: string, load: boolean, "
    "rows: bigint, bad: bigint, headers: bigint, foreign: bigint, same_as: string, "
    "columns: array<struct<name: string, type: string>>>"
)
"""Ledger entry of a file. ``foreign`` counts records of other tables in a transaction file and places of erased
records in a landing file; ``same_as`` is the path under which the content was first taken; ``columns`` is the layout
of the file."""

FORM_TYPE: Final = (
    "struct<content: string, content_sha256: string, delimiter: string, escape: string, null_value: string, "
    "null_text: string, line_end: string, quoted: array<string>, table: string, schema: string>"
)
"""How to restore the bytes of a file from its rows; NULL in rows that older versions of Frazil wrote.

``content`` is ``csv`` if the records can be restored, ``values`` for other formats, and ``bytes`` for an unreadable
file, which is one bad record. ``content_sha256`` is, for CSV, the hash of the text without records of other tables, or
NULL if that text is the stored file; for ``values`` it is the hash of the values. ``quoted`` names the columns whose
values all have quotes. ``table`` and ``schema`` follow the op in every record of a transaction file.
"""

BRONZE_COLUMNS: Final = {
    KIND: "string",
    FILE: "string",
    ROW: "bigint",
    POSITION: "string",
    BATCH: "bigint",
    ARRIVED_AT: "timestamp",
    KNOWN: "array<string>",
    RAW: "binary",
    REASON: "string",
    LEDGER: LEDGER_TYPE,
    END: "binary",
    OFFSET: "bigint",
    FORM: FORM_TYPE,
}
