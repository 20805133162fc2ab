"""What changed in a mart, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.cli.console import out
from frazil.cli.grid import fitted
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from frazil.serve.query.diff import ChangedRow, Diff, Side


def show_diff(found: Diff) -> None:
    """Print the counts, and the rows: of an updated one each value that changed as ``old → new``."""
    out.print(f"{found.mart}: {_side(found.begin)} to {_side(found.end)}", style="bold", markup=False)
    counts = f"{found.inserted} inserted, {found.updated} updated, {found.deleted} deleted"
    if found.rows:
        keys = [*found.rows[0].key]
        fitted(["change", *keys, *found.columns], [_cells(row, found.columns) for row in found.rows])
    more = found.changed - len(found.rows)
    note = f"; {counted(more, 'row')} not shown, --limit shows more" if more else ""
    out.print(f"{counts}{note}", style="dim", markup=False)


def _side(side: Side) -> str:
    return f"batch {side.batch} (snapshot {side.snapshot})"


def _cells(row: ChangedRow, columns: tuple[str, ...]) -> list[Any]:
    return [row.change, *row.key.values(), *(_cell(row, name) for name in columns)]


def _cell(row: ChangedRow, name: str) -> Any:
    if row.old is None or row.new is None:
        return (row.old or row.new or {})[name]
    old, new = row.old[name], row.new[name]
    return new if old == new else f"{_text(old)} → {_text(new)}"


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else f"{value}".lower()
    return f"{value}".removesuffix("+00:00")
