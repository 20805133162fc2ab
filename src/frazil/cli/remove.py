"""The command that removes tables: drop."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.cli import show
from frazil.cli.console import out, print_json, told
from frazil.cli.options import AsJson, Select, Verbose, Where, Yes
from frazil.cli.work import confirm
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
    """Remove tables that earlier declarations left behind, or those that --select names, with their files."""
    with told(as_json=as_json, verbose=verbose):
        from frazil.serve.leftovers import chosen, leftovers  # noqa: PLC0415
        from frazil.spec.parse import load  # noqa: PLC0415

        pipeline = load(path)
        found = chosen(pipeline, select) if select else leftovers(pipeline)
        if found and not as_json:
            _show(found)
        if found:
            if not yes:
                confirm(_question(found), "nothing was dropped")
            from frazil.engine.drop import drop as remove  # noqa: PLC0415
            from frazil.lake.session import spark_session  # noqa: PLC0415

            spark = spark_session(pipeline, short=True, verbose=verbose)
            remove(pipeline, spark, [(table.namespace, table.name) for table in found])
        if as_json:
            print_json([asdict(table) for table in found])
        else:
            out.print(f"{counted(len(found), 'table')} dropped" if found else "nothing to drop")


def _question(found: Sequence[Droppable]) -> str:
    rows = sum(table.rows for table in found)
    bronze = sum(table.role == "bronze" for table in found)
    kept = " Bronze is the only copy of records whose files are no longer at the source." if bronze else ""
    return f"Drop {counted(len(found), 'table')} with {counted(rows, 'row')}?{kept}"


def _show(found: Sequence[Droppable]) -> None:
    rows = [[table.full_name, table.role, table.source, table.rows] for table in found]
    show.grid(None, ["table", "layer", "made of", "rows"], rows, right=["rows"])


COMMANDS = {"drop": drop}
