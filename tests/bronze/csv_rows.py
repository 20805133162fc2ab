"""What the rows of bronze hold of a CSV file, for its tests."""

from __future__ import annotations

from typing import Any


def good(rows: list[dict[str, Any]], names: str = "a b c") -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names.split()) for row in rows if row["_cdc_kind"] == "record"]


def bad(rows: list[dict[str, Any]]) -> list[tuple[int, str, bytes | None]]:
    return [(row["_cdc_row"], row["_cdc_reason"], row["_cdc_raw"]) for row in rows if row["_cdc_kind"] == "bad"]


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return [row["_cdc_row"] for row in rows if row["_cdc_kind"] == "record"]
