"""``frazil lineage``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text
from rich.tree import Tree

from frazil import api
from frazil.cli.console import error_exit, out, print_json
from frazil.cli.grid import grid
from frazil.cli.options import AsJson, Project, Verbose

if TYPE_CHECKING:
    from frazil.interop.lineage import Lineage


def lineage(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A source table, mart or aggregate.")],
    *,
    path: Project = Path(),
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show what a table is made of and what is made of it, and where its columns come from.

    Example: frazil lineage gold.revenue --project my_lake
    """
    with error_exit(as_json=as_json, verbose=verbose):
        found = api.lineage(path, table)
        if as_json:
            from frazil.serve.query.plain import document  # noqa: PLC0415

            print_json(document(found))
        else:
            show_lineage(found)


def show_lineage(found: Lineage) -> None:
    """Print the tables as a tree from their sources, and the columns of the table that was asked for."""
    shown: set[str] = set()
    for node in found.nodes:
        if not node.made_of:
            tree = Tree(_label(found, node.name))
            _grow(found, tree, node.name, shown)
            out.print(tree)
    [asked] = [node for node in found.nodes if node.name == found.table]
    if asked.made_of and asked.columns:
        rows = [
            (column, ", ".join(f"{table}.{field}" for table, field in origins) or "no column")
            for column, origins in asked.columns.items()
        ]
        grid(asked.name, ("column", "comes from"), rows)


def _grow(found: Lineage, tree: Tree, name: str, shown: set[str]) -> None:
    """Add what is made of a node; a node with several origins grows once."""
    for reader in found.readers(name):
        branch = tree.add(_label(found, reader))
        if reader not in shown:
            shown.add(reader)
            _grow(found, branch, reader, shown)


def _label(found: Lineage, name: str) -> Text:
    return Text(name, style="bold" if name == found.table else "")
