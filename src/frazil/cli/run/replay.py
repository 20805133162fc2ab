"""``frazil replay``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from frazil import api
from frazil.cli.console import confirm, err, error_exit
from frazil.cli.options import AsJson, OneTable, Verbose, Where, Yes, local, one_of
from frazil.cli.reporting import run_and_report
from frazil.spec.amount import counted
from frazil.steps import Normalize


def replay(
    path: Where = Path(),
    *,
    one_table: OneTable = None,
    corrected: Annotated[
        Path | None,
        typer.Option(
            "--from",
            parser=local,
            metavar="FILE",
            help="Corrected records, from: frazil quarantine --select TABLE --to FILE",
        ),
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Apply quarantined records again, after a fix of the declaration or with corrections.

    Each record keeps its old position among the changes.

    Example: frazil replay my_lake --select orders --from corrected.jsonl
    """
    table = one_of(one_table) if one_table or corrected is not None else None
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        what = _what(path, table, corrected)
        if not as_json:
            err.print(what, markup=False)
        if not yes:
            confirm(pipeline, "Replay?", "nothing was replayed")
        run_and_report(
            pipeline,
            lambda options: api.replay(pipeline, table=table, corrected=corrected, options=options),
            as_json=as_json,
            fail_fast=False,
            verbose=verbose,
        )


def _what(path: Path, table: str | None, corrected: Path | None) -> str:
    """Return what a replay would do, as text."""
    count = sum(rule.records for rule in api.quarantine(path, table, limit=0).rules)
    waiting = counted(count, "record")
    if table is not None and corrected is not None:
        judged = api.judge_corrections(path, table, corrected)
        given = counted(len(judged.corrections), "corrected record")
        return f"{given} of {waiting} in quarantine of {table}; {judged.text}"
    steps = api.plan(path, select=[table] if table else ()).steps
    rebuilt = sorted({step.table for step in steps if isinstance(step, Normalize) and step.rebuild})
    if rebuilt:
        return f"{waiting} in quarantine; silver and marts of {', '.join(rebuilt)} are rebuilt from bronze"
    if not count:
        return "nothing is in quarantine"
    return f"{waiting} in quarantine, and the declaration is unchanged: they would break the same rules"
