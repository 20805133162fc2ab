"""``frazil drop``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from frazil import api
from frazil.cli.console import confirm, error_exit, out, print_json
from frazil.cli.grid import grid
from frazil.cli.options import AsJson, Select, Verbose, Where, Yes
from frazil.cli.progress import Progress
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.serve.leftovers import Droppable


def drop(
    path: Where = Path(),
    *,
    select: Select = None,
    yes: Yes = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Drop tables that earlier declarations left behind, or those that --select names.

    Example: frazil drop my_lake
    """
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        found = api.droppable(pipeline, select or ())
        if found and not as_json:
            rows = [[table.full_name, table.role, table.source, table.rows] for table in found]
            grid(None, ["table", "layer", "made of", "rows"], rows, right=["rows"])
        if found:
            if not yes:
                confirm(pipeline, _question(found), "nothing was dropped")
            with Progress(quiet=as_json, first="start Spark and drop"):
                api.drop(pipeline, found, spark=api.session(pipeline, short=True, verbose=verbose))
        if as_json:
            print_json([asdict(table) for table in found])
        else:
            out.print(f"{counted(len(found), 'table')} dropped" if found else "nothing to drop")


def _question(found: Sequence[Droppable]) -> str:
    rows = sum(table.rows for table in found)
    bronze = sum(table.role == "bronze" for table in found)
    kept = " Bronze is the only copy of records whose files are no longer at the source." if bronze else ""
    return f"Drop {counted(len(found), 'table')} with {counted(rows, 'row')}?{kept}"
