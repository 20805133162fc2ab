"""``frazil diff``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frazil import api
from frazil.cli.console import error_exit, out, print_json
from frazil.cli.grid import fitted
from frazil.cli.options import AsJson, Project, Verbose
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from frazil.serve.query.diff import ChangedRow, Diff, Side


def diff(
    mart: Annotated[str, typer.Argument(metavar="MART", help="The mart's name.")],
    *,
    begin: Annotated[str, typer.Option("--from", metavar="POINT", help="A time (UTC), a snapshot, a cut, or batch:N.")],
    end: Annotated[str | None, typer.Option("--to", metavar="POINT", help="Another point. Default: now.")] = None,
    path: Project = Path(),
    limit: Annotated[int, typer.Option(min=0, help="Maximum number of rows to show; the counts cover all rows.")] = 20,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show the rows of a mart that changed between two points, with old and new values.

    Example: frazil diff orders --from batch:1 --project my_lake
    """
    with error_exit(as_json=as_json, verbose=verbose):
        found = api.diff(path, mart, begin, end, limit=limit)
        if as_json:
            from frazil.serve.query.plain import plain  # noqa: PLC0415

            print_json(plain(found))
        else:
            from frazil.cli.look.diff import show_diff  # noqa: PLC0415

            show_diff(found)


def show_diff(found: Diff) -> None:
    """Print the counts and the changed rows; changed values of an updated row are ``old → new``."""
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
    return "'NULL'" if value == "NULL" else f"{value}".removesuffix("+00:00")
