"""``frazil doctor``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frazil import api
from frazil.cli.console import confirm, error_exit, out, print_json
from frazil.cli.grid import grid
from frazil.cli.options import AsJson, Verbose, Where, Yes
from frazil.errors import SetupError
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from frazil.recover.setbacks import Setback

_SIGNS = {True: "ok", False: "WRONG", None: "?"}


def doctor(
    path: Where = Path(),
    *,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Register each table in the catalog at its newest complete version."),
    ] = False,
    notify: Annotated[
        bool, typer.Option("--notify", help="Send a test message to every receiver under notify.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Check Java, jars, memory, disk, catalog and folders, with a fix for each problem.

    Example: frazil doctor my_lake
    """
    with error_exit(as_json=as_json, verbose=verbose):
        if repair:
            _repair(path, yes=yes, as_json=as_json)
        findings = api.doctor(path, notify=notify)
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


def _repair(path: Path, *, yes: bool, as_json: bool) -> None:
    due = api.repair_plan(path)
    back, ahead = [one for one in due if one.is_back], {one.full_name for one in due if one.is_ahead}
    if not as_json:
        for one in back:
            out.print(f"{one.full_name}: {_target(one)}", markup=False)
    if back and not yes:
        what = "The next run ingests the later changes again from the source, which must still have them."
        confirm(
            api.load(path),
            f"{what} Go back?",
            f"nothing was changed; {counted(len(back), 'table')} would have gone back",
        )
    done = api.repair(path)
    if not as_json:
        for name in sorted({*done} - {one.full_name for one in back}):
            times = ", with the present time for commits of a later one" if name in ahead else ""
            out.print(f"registered {name}{times}", markup=False)
        out.print("the catalog has all tables of the warehouse", style="green", markup=False)


def _target(one: Setback) -> str:
    if one.version is None:
        return "no version is complete; its folder is moved aside, and the next run creates it again"
    return f"back to version {one.version.number}, batch {one.batch}, the newest complete version"
