"""``frazil generate``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from frazil import api
from frazil.cli.console import error_exit, out, print_json
from frazil.cli.options import AsJson, Verbose, local
from frazil.spec.amount import counted


def generate(
    folder: Annotated[
        Path, typer.Argument(parser=local, metavar="FOLDER", help="Folder for the files; created if necessary.")
    ],
    *,
    rows: Annotated[int, typer.Option(help="Rows of the full load.")] = 10_000,
    batches: Annotated[int, typer.Option(help="Number of change files.")] = 3,
    changes: Annotated[int, typer.Option(help="Changes in each change file.")] = 1_000,
    seed: Annotated[int, typer.Option(help="Seed; the same seed writes the same bytes.")] = 1,
    keys: Annotated[str, typer.Option(help="Which keys change: mixed, recent, uniform or hot.")] = "mixed",
    late: Annotated[float, typer.Option(help="Share of changes older than the batch before.")] = 0.0,
    duplicates: Annotated[float, typer.Option(help="Share of repeated records.")] = 0.03,
    parts: Annotated[int, typer.Option(help="Number of full load files.")] = 1,
    nasty: Annotated[bool, typer.Option("--nasty", help="Add records that cannot be read, typed or keyed.")] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Generate a declaration and DMS sample files; the same seed writes the same bytes."""
    with error_exit(as_json=as_json, verbose=verbose):
        files = api.SampleFiles(
            rows=rows,
            batches=batches,
            changes=changes,
            seed=seed,
            keys=keys,  # type: ignore[arg-type] # an unknown word is refused with the known ones
            late=late,
            duplicates=duplicates,
            parts=parts,
            nasty=nasty,
        )
        made = api.generate(folder, files)
        if as_json:
            print_json({**asdict(made.files), "declaration": made.declaration})
            return
        written = counted(len(made.files.load) + len(made.files.batches), "file")
        changed = counted(batches * changes, "change")
        out.print(f"wrote {written} with {counted(rows, 'row')} and {changed} to {folder}", markup=False)
        out.print(f"wrote {folder.parent / 'frazil.yml'}\nnext: frazil run {folder.parent}", markup=False)
