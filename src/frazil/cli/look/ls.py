"""``frazil ls``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from frazil import api
from frazil.cli.console import error_exit, out, print_json
from frazil.cli.grid import grid
from frazil.cli.options import AsJson, Verbose, Where
from frazil.spec.amount import sized

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.serve.overview import ListedTable


def ls(path: Where = Path(), *, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """List the tables of the lake with kind, rows and newest commit; asks no source.

    Example: frazil ls my_lake
    """
    with error_exit(as_json=as_json, verbose=verbose):
        found = api.ls(path)
        if as_json:
            from frazil.serve.query.plain import document  # noqa: PLC0415

            print_json(document({"tables": found}))
        else:
            show_tables(found)


def show_tables(found: Sequence[ListedTable]) -> None:
    """Print a line for each table, and why tables cannot be read."""
    names = ("table", "kind", "batch", "rows", "size", "committed")
    rows = [(one.name, one.kind, one.batch, one.rows, sized(one.size_bytes), _committed(one)) for one in found]
    grid(None, names, rows, right={"batch", "rows", "size"})
    for one in found:
        if one.trouble:
            out.print(f"{one.name}: {one.trouble}", style="red", markup=False)


def _committed(table: ListedTable) -> str:
    return f"{table.committed_at:%Y-%m-%d %H:%M:%S}" if table.committed_at else "never"
