"""Names of contenders and works in pictures and tables."""

from __future__ import annotations

from typing import Final

LABELS: Final = {
    "bare-session": "a Spark session that only starts",
    "dbt": "dbt, incremental merge",
    "debezium-slot": "Debezium in Python, delta-rs",
    "delta-rs": "delta-rs, merge",
    "delta-spark": "Delta Lake on Spark, MERGE",
    "dlt-delta": "dlt to Delta",
    "dlt-iceberg": "dlt to Iceberg",
    "dlt-slot": "dlt from a slot to Delta",
    "frazil": "Frazil, current table and history",
    "frazil-command": "frazil run, the whole process",
    "frazil-current": "Frazil, from the files on",
    "frazil-current-v3": "Frazil, from the files on, table format 3",
    "frazil-guarded": "Frazil, every batch compared",
    "frazil-history": "Frazil, history from the files on",
    "frazil-slot": "Frazil, from the slot on",
    "frazil-watch": "frazil watch",
    "limit-copy": "limit: write the whole table again",
    "limit-scan": "limit: one scan, write changed rows",
    "limit-write": "limit: write changed rows",
    "merge": "careful MERGE on Iceberg",
    "pyiceberg": "PyIceberg, upsert and delete",
    "recipe": "the recipe",
    "recipe-all": "the recipe, reading all files",
    "recipe-audit": "the recipe, from an audit table",
    "recipe-both": "the recipe, both tables",
    "recipe-history": "the recipe's history",
    "spark-once": "Spark writes the files once",
}
"""Name of a contender -> its label."""

_PARTS: Final = {
    "frazil-current · apply": "Frazil, applying only",
    "frazil-current-v3 · apply": "Frazil, applying only, table format 3",
    "frazil-guarded · apply": "Frazil, applying only, every batch compared",
    "frazil-history · apply": "Frazil, applying a history only",
}
"""Name of a part -> its label."""

WORKS: Final = {
    "apply": "Current table",
    "capture": "From PostgreSQL to the current table",
    "history": "History",
    "load": "First load",
    "many": "Many tables in one run",
    "quick": "make bench-quick",
    "soak": "Many batches in a row",
    "start": "Process start",
    "watch": "Watch a folder",
    "wide": "Wide tables",
}
"""Name of a work -> its label."""


def label(name: str) -> str:
    """Return the label of a contender or of a part of one; its name where it has none."""
    return _PARTS.get(name) or LABELS.get(name, name)
