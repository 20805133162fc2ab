"""How the commands that run a pipeline show and end it."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import typer

from frazil.api import RunOptions
from frazil.cli.console import err, print_json
from frazil.cli.progress import Progress
from frazil.cli.render.notes import show_failures
from frazil.cli.render.run import show_run
from frazil.runner.report.report import RunFailedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from frazil.runner.report.report import RunReport
    from frazil.spec import Pipeline


def run_and_report(
    pipeline: Pipeline, run: Callable[[RunOptions], RunReport], *, as_json: bool, fail_fast: bool, verbose: bool
) -> None:
    """Run, show how it goes, what was done and what failed, and end with the exit code of the worst failure.

    Args:
        pipeline: the declaration.
        run: runs it with the options it is given.
        as_json: print the report as JSON, and nothing on the way.
        fail_fast: begin no further table once one has failed.
        verbose: show Spark's messages, and the stack of the worst failure.

    Raises:
        Exit: something failed.
    """
    cause: BaseException | None = None
    try:
        with Progress(quiet=as_json) as progress:
            report = run(RunOptions(fail_fast=fail_fast, listener=progress, verbose=verbose))
    except RunFailedError as error:
        report, cause = error.report, error.__cause__
    if as_json:
        print_json(report.as_values())
        show_failures(report.errors)
    else:
        show_run(report, pipeline.lake.namespaces)
    if verbose and cause is not None:
        err.print("".join(traceback.format_exception(cause)), markup=False)
    if report.exit_code:
        raise typer.Exit(report.exit_code)
