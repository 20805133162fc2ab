"""``frazil cut``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frazil import api
from frazil.cli.console import confirm, error_exit, out, print_json
from frazil.cli.grid import grid
from frazil.cli.options import AsJson, Project, Verbose, Yes
from frazil.cli.progress import Progress
from frazil.errors import DeclarationError
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.serve.cuts import Cut


def cut(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the new cut.")] = None,
    *,
    list_all: Annotated[bool, typer.Option("--list", help="List the cuts.")] = False,
    drop: Annotated[str | None, typer.Option(metavar="NAME", help="Remove a cut.")] = None,
    path: Project = Path(),
    yes: Yes = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Mark all marts and aggregates at one consistent point, for query --as-of NAME.

    Example: frazil cut month-end --project my_lake
    """
    with error_exit(as_json=as_json, verbose=verbose):
        if (name is not None) + list_all + (drop is not None) != 1:
            raise DeclarationError("give one of NAME, --list and --drop NAME", hint="frazil cut month-end")
        pipeline = api.load(path)
        if list_all:
            _show(api.cuts(pipeline), as_json=as_json)
        elif drop is not None:
            if not yes:
                confirm(
                    pipeline,
                    f"Remove the cut '{drop}'? Snapshots that only it keeps can then expire.",
                    "nothing was removed",
                )
            with Progress(quiet=as_json, first="start Spark and remove the cut"):
                found = api.drop_cut(pipeline, drop)
            if as_json:
                _show([found], as_json=True)
            else:
                out.print(f"cut {found.name} removed from {counted(len(found.tables), 'table')}", markup=False)
        else:
            with Progress(quiet=as_json, first="start Spark and mark the tables"):
                made = api.cut(pipeline, name or "")
            _show([made], as_json=as_json)


def _show(found: Sequence[Cut], *, as_json: bool) -> None:
    if as_json:
        from frazil.serve.query.plain import plain  # noqa: PLC0415

        print_json(plain(found))
        return
    rows = [
        [one.name, one.newest, len(one.tables), ", ".join(one.missing) or "none"]
        for one in sorted(found, key=lambda one: (f"{one.newest}", one.name))
    ]
    if rows:
        grid(None, ["cut", "newest commit", "tables", "without"], rows, right=["tables"])
    else:
        out.print("no cuts")
