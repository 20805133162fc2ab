"""``frazil doctor``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from frazil import api
from frazil.cli.console import error_exit, out, print_json
from frazil.cli.options import AsJson, Verbose, Where
from frazil.cli.render.grid import grid
from frazil.errors import SetupError

_SIGNS = {True: "ok", False: "WRONG", None: "?"}


def doctor(
    path: Where = Path(),
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Recreate a lost, damaged or outdated catalog from the warehouse.")
    ] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Look at Java, jars, memory, disk, catalog and folders: what is wrong, and how to fix it."""
    with error_exit(as_json=as_json, verbose=verbose):
        registered = api.repair(path) if repair else ()
        if repair and not as_json:
            for name in registered:
                out.print(f"registered {name}", markup=False)
            out.print("the catalog knows all tables of the warehouse", style="green", markup=False)
        findings = api.doctor(path)
        if as_json:
            print_json([asdict(finding) for finding in findings])
        else:
            rows = [[_SIGNS[finding.ok], finding.what, finding.detail] for finding in findings]
            grid(None, ["", "what", "found"], rows)
            for finding in findings:
                if finding.hint and not finding.ok:
                    out.print(f"{finding.what}: {finding.hint}", style="yellow", markup=False)
        if any(finding.ok is False for finding in findings):
            raise typer.Exit(SetupError.exit_code)
