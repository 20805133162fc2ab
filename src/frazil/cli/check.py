"""``frazil check``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from frazil import api
from frazil.cli.console import error_exit, out, print_json
from frazil.cli.options import AsJson, Select, Verbose, Where
from frazil.cli.render.check import show_proofs, summary
from frazil.cli.render.progress import CheckProgress
from frazil.errors import DifferenceError


def check(path: Where = Path(), *, select: Select = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Prove that the tables say what the changes say; exit 9 if they do not."""
    with error_exit(as_json=as_json, verbose=verbose):
        with CheckProgress(quiet=as_json) as progress:
            findings = api.check(path, select=select or (), listener=progress)
        wrong = [finding for finding in findings if finding.ok is False]
        if as_json:
            print_json([asdict(finding) for finding in findings])
            if wrong:
                raise typer.Exit(DifferenceError.exit_code)
            return
        show_proofs(findings)
        if wrong:
            raise DifferenceError(
                summary(findings),
                hint="why a row is as it is: frazil key; to rebuild silver and marts from bronze: frazil rebuild",
            )
        out.print(summary(findings), style="green", markup=False)
