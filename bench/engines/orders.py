"""The changes of a lake's source, batch by batch, and the expected rows of the marts."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from frazil.testing.oracle import Change, current, history

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COLUMNS: Final = {
    "orders": ("id", "total", "status"),
    "orders_history": ("id", "total", "status", "is_current", "is_deleted"),
}
"""Mart -> the columns that engines are asked for."""

_VALUES: Final = ("total", "status", "updated_at")
_LOADED: Final = 400
_TOUCHED: Final = 10


def deliver(landing: Path, batch: int) -> None:
    """Land the file of a batch: the first is a full load, each later one has updates, a late one and a delete."""
    landing.mkdir(parents=True, exist_ok=True)
    lines = [f"{op},{key},{at},{total},{status}" for op, key, at, total, status in _records(batch)]
    (landing / _file(batch)).write_text("\n".join(["Op,id,updated_at,total,status", *lines, ""]), encoding="utf-8")


def expected(mart: str, batch: int) -> list[tuple[str, ...]]:
    """Return the rows of a mart after a batch, as :func:`in_order` gives them: by the oracle, in plain Python."""
    changes = [change for number in range(1, batch + 1) for change in _changes(number)]
    columns = ("id", *_VALUES)
    rows = current(changes, columns) if mart == "orders" else history(changes, columns, ("total", "status"))
    return in_order([tuple(row[name] for name in COLUMNS[mart]) for row in rows])


def in_order(rows: list[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    """Return rows in an order that does not depend on the engine, their values as text."""
    return sorted(tuple(str(value) for value in row) for row in rows)


def _records(batch: int) -> Iterator[tuple[str, int, str, str, str]]:
    now = f"2026-01-{batch:02} 00:00:00"
    if batch == 1:
        yield from (("I", key, now, f"{key}.50", "new") for key in range(1, _LOADED + 1))
        return
    first = _TOUCHED * batch
    yield from (("U", key, now, f"{key}.{batch:02}", f"batch {batch}") for key in range(first, first + _TOUCHED))
    yield ("U", 1, now, f"1.{batch:02}", f"batch {batch}")
    yield ("U", 1, f"2026-01-{batch - 1:02} 12:00:00", "0.01", f"late in batch {batch}")
    yield ("D", _LOADED - batch, now, "", "")


def _changes(batch: int) -> Iterator[Change]:
    for number, (op, key, at, total, status) in enumerate(_records(batch), start=1):
        values = {"id": key, "updated_at": at, "status": status, "total": Decimal(total) if total else None}
        yield Change(
            key=(key,),
            sequence=(at,),
            position=_file(batch),
            row=number,
            deleted=op == "D",
            values=values,
            event_time=at,
        )


def _file(batch: int) -> str:
    return f"202601{batch:02}-000000000.csv"
