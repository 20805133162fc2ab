"""Names, texts and tables as DuckDB reads them."""

from __future__ import annotations


def identifier(*parts: str) -> str:
    """Write a name, or a dotted path of names, so that DuckDB takes it literally."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def duck_literal(text: str) -> str:
    """Write a text as a string literal of DuckDB, whose parser takes no character 0."""
    quoted = "'" + text.replace("'", "''") + "'"
    return "(" + quoted.replace("\0", "' || chr(0) || '") + ")" if "\0" in text else quoted


def scan(location: str, snapshot: int | None = None) -> str:
    """Write a table as DuckDB reads it: its rows are those of exactly this metadata file, or of an older snapshot."""
    older = "" if snapshot is None else f", snapshot_from_id => {snapshot}"
    return f"iceberg_scan({duck_literal(location)}{older})"
