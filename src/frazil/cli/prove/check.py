"""``frazil check``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frazil import api
from frazil.cli.console import error_exit, out, print_json
from frazil.cli.options import AsJson, Select, Verbose, Where
from frazil.cli.progress import CheckProgress
from frazil.cli.render.check import show_proofs, summary
from frazil.errors import DifferenceError

if TYPE_CHECKING:
    from frazil.serve.check.finding import Finding

Source = Annotated[
    bool, typer.Option("--source", help="Compare the marts with the tables at their sources, and nothing else.")
]
Against = Annotated[
    str | None, typer.Option("--against", help="Compare the mart of one table with a dump: a file, folder or s3://…")
]
Certificates = Annotated[
    bool, typer.Option("--certificates", help="Prove that the lake is what its certificates say, and nothing else.")
]
Known = Annotated[
    list[str] | None,
    typer.Option("--known", help="With --certificates: a certificate's hash, noted elsewhere; it must be there."),
]


def check(
    path: Where = Path(),
    *,
    select: Select = None,
    source: Source = False,
    against: Against = None,
    certificates: Certificates = False,
    known: Known = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Prove that the tables say what the changes say, or what the source has; exit 9 if they do not."""
    with error_exit(as_json=as_json, verbose=verbose):
        unseen: tuple[Finding, ...] = ()
        with CheckProgress(quiet=as_json) as progress:
            if certificates or known:
                findings = api.check_certificates(path, known=known or (), listener=progress)
            elif source or against is not None:
                findings = api.check_source(path, select=select or (), against=against, listener=progress)
            else:
                findings = api.check(path, select=select or (), listener=progress)
                unseen = api.not_compared(path, select=select or ())
        wrong = [finding for finding in findings if finding.ok is False]
        if as_json:
            print_json([asdict(finding) for finding in (*findings, *unseen)])
            if wrong:
                raise typer.Exit(DifferenceError.exit_code)
            return
        show_proofs(findings, unseen)
        if wrong:
            raise DifferenceError(
                summary(findings),
                hint="why a row is as it is: frazil key; to rebuild silver and marts from bronze: frazil rebuild",
            )
        out.print(summary(findings), style="green", markup=False)
