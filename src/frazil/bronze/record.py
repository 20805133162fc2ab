"""The columns Frazil owns, and the shape of bronze.

A bronze table has four kinds of rows, partitioned by ``_cdc_kind``:

- ``record``: one record of a file as it came, every field as text in a column of its own name;
- ``bad``: a record that could not be taken apart, its bytes in ``_cdc_raw`` and the reason in ``_cdc_reason``;
- ``part``: bytes of a bad record that are too many for its row, in ``_cdc_raw``, from ``_cdc_offset`` on;
- ``file``: the ledger, one row a file taken (or met again), committed with its records.

``lines = rows + bad + headers + foreign`` holds for every file of the ledger.

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
RAW: Final = "_cdc_raw"
REASON: Final = "_cdc_reason"
LEDGER: Final = "_cdc_ledger"
END: Final = "_cdc_end"
OFFSET: Final = "_cdc_offset"
FORM: Final = "_cdc_form"

RECORD, BAD, LEDGER_ROW, PART = "record", "bad", "file", "part"
CSV, VALUES, BYTES = "csv", "values", "bytes"
UPSERT, DELETE = "upsert", "delete"

ICEBERG_RESERVED: Final = frozenset(
    {"_file", "_pos", "_deleted", "_partition", "_spec_id", "_row_id", "_last_updated_sequence_number"}
)
"""Names that Iceberg writes and then cannot read."""

LEDGER_TYPE: Final = (
    "struct<name: string, size_bytes: bigint, modified_ns: bigint, sha256: string, load: boolean, "
    "rows: bigint, bad: bigint, headers: bigint, foreign: bigint, same_as: string, "
    "columns: array<struct<name: string, type: string>>>"
)
"""What the ledger keeps of a file; ``foreign`` counts records of other tables in a transaction file,
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


def safe_name(name: str, taken: frozenset[str] = frozenset()) -> str:
    """Give a source field the name of its column.

    Names stay as they are but for three cases, all decided by the name alone: what Iceberg cannot read
    back and what begins with ``_cdc_`` gets the prefix ``source``; control characters become ``_``; a name
    that another field of the same file already has without regard to case gets ``__2``, ``__3`` ….

    Args:
        name: the field's name in the file; empty becomes ``unnamed``.
        taken: lower-case column names given so far.
    """
    clean = "".join(character if character.isprintable() else "_" for character in name).strip()[:255] or "unnamed"
    if clean.lower() in ICEBERG_RESERVED or clean.lower().startswith(PREFIX):
        clean = f"source{clean}"
    if clean.lower() not in taken:
        return clean
    number = 2
    while f"{clean}__{number}".lower() in taken:
        number += 1
    return f"{clean}__{number}"
