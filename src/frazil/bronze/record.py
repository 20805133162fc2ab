"""The columns Frazil owns, and the shape of bronze.

A bronze table has seven kinds of rows, partitioned by ``_cdc_kind``:

- ``record``: one record of a file as it came, every field as text in a column of its own name;
- ``bad``: a record that could not be taken apart, its bytes in ``_cdc_raw`` and the reason in ``_cdc_reason``;
- ``part``: bytes of a bad record that are too many for its row, in ``_cdc_raw``, from ``_cdc_offset`` on;
- ``corrected``: a record that takes the place of the one of its file and row, see ``bronze/read.py``: what was
  given for it is in ``_cdc_raw``; of several the one of the last batch counts;
- ``erased``: the place of a record whose key was erased, and nothing else of it;
- ``folded``: how many records of a file are gone because their changes are in silver's baseline, in ``_cdc_offset``;
- ``file``: the ledger, one row a file taken (or met again), committed with its records.

``lines = rows + bad + headers + foreign`` holds for every file of the ledger; an erased or folded record counts as what
it was.

The bytes of a CSV file are those of ``_cdc_raw`` in its ledger row, and then row by row: ``_cdc_raw``, where that is
NULL the fields written in the file's form (``_cdc_form`` in its ledger row); ``_cdc_end``, where that is NULL the
form's line end; the parts of the row.
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
"""What the ledger keeps of a file; ``foreign`` counts records of other tables in a transaction file, and
places of erased records in a landing file,
``same_as`` is the path the same content was first taken from, ``columns`` the file's own layout."""

FORM_TYPE: Final = (
    "struct<content: string, content_sha256: string, delimiter: string, escape: string, null_value: string, "
    "null_text: string, line_end: string, quoted: array<string>, table: string, schema: string>"
)
"""How the bytes of a file follow from its rows; NULL in rows that older versions of Frazil wrote.

``content`` is ``csv`` for records that can be written again; ``values`` for records of another format, of which
``content_sha256`` says the hash of their values (``bronze/values.py``); ``bytes`` for a file of which nothing
could be read, which is one bad record. ``content_sha256`` of CSV is the hash of its text without the records of other
tables, NULL where that is the file as it is stored. ``quoted`` names the columns whose values all have quotes;
``table`` and ``schema`` stand behind the op in every record of a transaction file.
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
