"""``frazil schema``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frazil import api
from frazil.cli.console import error_exit, out, print_json
from frazil.cli.grid import grid
from frazil.cli.options import AsJson, Project, Verbose
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from frazil.serve.schema import SchemaChange, TableSchema


def schema(
    table: Annotated[str, typer.Argument(help="The source table's name.")],
    *,
    path: Project = Path(),
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show a table's columns, and every layout that its source has delivered."""
    with error_exit(as_json=as_json, verbose=verbose):
        found = api.schema(path, table)
        if as_json:
            from frazil.serve.query.plain import plain  # noqa: PLC0415

            print_json(plain(found))
        else:
            show_schema(found)


_FROM = {"field": "a field", "expr": "an expression", "source": "each record's arrival"}


def show_schema(found: TableSchema) -> None:
    """Print the columns, the layouts of the source's files, and fields that no column reads."""
    grid(
        f"{found.table}: columns of silver and marts",
        ("column", "type", "comes from", "declared", "since batch"),
        [
            (one.name, one.type, _FROM[one.comes_from], "yes" if one.is_declared else "no", one.since_batch)
            for one in found.columns
        ],
        right=("since batch",),
    )
    grid(
        "layouts of the files, in the order of the source",
        ("batch", "arrived", "first file", "what changed"),
        [(one.batch, one.arrived_at, one.file.rpartition("/")[2], _what(one)) for one in found.changes],
        right=("batch",),
    )
    if found.undeclared:
        names = ", ".join(name for name, _ in found.undeclared)
        few = counted(len(found.undeclared), "field is", "fields are")
        out.print(f"{few} in bronze only: {names}", style="yellow", markup=False)
    if found.left_out:
        few = counted(len(found.left_out), "generated column is", "generated columns are")
        out.print(f"{few} at the source only: {', '.join(found.left_out)}", style="yellow", markup=False)


def _what(change: SchemaChange) -> str:
    parts = [f"+ {name} {kind}" for name, kind in change.added]
    parts += [f"- {name}" for name in change.removed]
    parts += [f"{name} {before} → {kind}" for name, before, kind in change.retyped]
    return ", ".join(parts) or counted(change.fields, "field")
