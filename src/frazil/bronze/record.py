"""The columns Frazil owns, and the shape of bronze.

A bronze table has three kinds of rows, partitioned by ``_cdc_kind``:

- ``record``: one record of a file as it came, every field as text in a column of its own name;
- ``bad``: a record that could not be taken apart, its bytes in ``_cdc_raw`` and the reason in ``_cdc_reason``;
- ``file``: the ledger, one row a file taken (or met again), committed with its records.

``lines = rows + bad + headers`` holds for every file of the ledger.
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

RECORD, BAD, LEDGER_ROW = "record", "bad", "file"
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
