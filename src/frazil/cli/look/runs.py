"""``frazil runs``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from frazil import api
from frazil.cli.console import error_exit, out, print_json
from frazil.cli.grid import grid
from frazil.cli.options import AsJson, Project, Verbose
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.serve.runs import PastRun, RunPart

_STYLES: Final = {"failed": "red", "killed": "yellow", "interrupted": "yellow", "running": "cyan"}


def runs(
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="A run's id or the end of it, or latest: its commits and failures."),
    ] = None,
    *,
    path: Project = Path(),
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Number of the newest runs.")] = 20,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show past and running runs; with RUN, what one of them did.

    A run without work leaves no record.

    Example: frazil runs latest --project my_lake
    """
    with error_exit(as_json=as_json, verbose=verbose):
        from frazil.serve.query.plain import document  # noqa: PLC0415

        if run is not None:
            one = api.past_run(path, run)
            if as_json:
                print_json(document(one))
            else:
                show_run(one)
            return
        found = api.runs(path, limit=limit)
        if as_json:
            print_json(document({"runs": found}))
        else:
            show_runs(found)


def show_runs(found: Sequence[PastRun]) -> None:
    """Print a line for each run, newest first."""
    if not found:
        out.print("no run left a record", markup=False)
        return
    names = ("began", "seconds", "state", "tables", "changes", "quarantined", "run")
    rows = [
        (
            f"{one.began_at:%Y-%m-%d %H:%M:%S}" if one.began_at else "",
            "" if one.seconds is None else f"{one.seconds:.1f}",
            one.state,
            _outcomes(one.parts),
            sum(part.changes for part in one.parts),
            sum(part.quarantined for part in one.parts),
            one.run_id,
        )
        for one in found
    ]
    grid(None, names, rows, right=("seconds", "changes", "quarantined"))


def _outcomes(parts: Sequence[RunPart]) -> str:
    done, failed = (sum(part.outcome == outcome for part in parts) for outcome in ("done", "failed"))
    said = [f"{done} done"] * bool(done) + [f"{failed} failed"] * bool(failed)
    return ", ".join(said) or "nothing new" * bool(parts)


def show_run(run: PastRun) -> None:
    """Print one run: its tables, its commits by time, and its failures with the way out."""
    ran = "" if run.seconds is None else f" after {run.seconds:.1f} s"
    began = f", begun {run.began_at:%Y-%m-%d %H:%M:%S}" if run.began_at else ""
    out.print(f"run {run.run_id}{began}: {run.state}{ran}", style=_STYLES.get(run.state, "green"), markup=False)
    for part in run.parts:
        counts = f"{counted(part.files, 'file')}, {counted(part.changes, 'change')}" if part.batch else ""
        out.print(f"  {part.name}: {part.outcome}{', ' * bool(counts)}{counts}", markup=False)
    if run.commits:
        _show_commits(run)
    for failure in run.failures:
        out.print(f"{failure.name}: [{failure.code}] {failure.message}", style="red", markup=False)
        if failure.hint:
            out.print(f"  hint: {failure.hint}", markup=False)


def _show_commits(run: PastRun) -> None:
    counts = ("inserted", "updated", "deleted", "late")
    rows = [
        (
            "" if run.began_at is None else f"{(one.committed_at - run.began_at).total_seconds():.1f}",
            one.table,
            one.rows,
            *(one.notes.get(count, "") for count in counts),
            one.notes.get("strategy", ""),
            f"{one.snapshot_id}",
        )
        for one in run.commits
    ]
    names = ("after s", "table", "written", *counts, "strategy", "snapshot")
    grid(None, names, rows, right={"after s", "written", *counts})
