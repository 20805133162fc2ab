"""``frazil init``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from frazil import api
from frazil.cli.console import error_exit, out
from frazil.cli.grid import grid
from frazil.cli.options import Verbose, local


def init(
    folder: Annotated[Path, typer.Argument(parser=local, metavar="FOLDER", help="Folder of the new project.")] = Path(),
    *,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Declare the tables of a landing folder with DMS files (also s3://…), or of a data contract (ODCS).",
        ),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Create a project: a declaration, and sample files unless --from names a source."""
    with error_exit(verbose=verbose):
        begun = api.init(folder, source=source)
        if begun.discovered:
            names = ["table", "format", "keys", "sequence_by"]
            rows = [
                [
                    one.name,
                    one.format,
                    ", ".join(one.keys) + ("" if one.keys_seen else " (by name only!)"),
                    ", ".join(one.sequence_by),
                ]
                for one in begun.discovered
            ]
            grid("found; review before the first run", names, rows)
            for one in begun.discovered:
                for doubt in one.doubts:
                    out.print(f"{one.name}: {doubt}", style="yellow", markup=False)
        out.print(f"wrote {begun.declaration}", markup=False)
        out.print(f"next: frazil validate {folder}\n      frazil run {folder}", markup=False)
