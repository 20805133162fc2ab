"""Commands that only look, and start no JVM: plan, status, check, query, key."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from frazil.cli import show
from frazil.cli.console import err, out, print_json, told
from frazil.cli.options import AsJson, Select, Verbose, Where
from frazil.errors import DifferenceError
from frazil.spec.amount import counted

_UNKNOWN_KEY = 2


def plan(
    path: Where = Path(),
    *,
    select: Select = None,
    full_refresh: Annotated[bool, typer.Option("--full-refresh", help="As for run.")] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Tell what a run would do, and do nothing; what cannot be planned is an error of its table alone."""
    with told(as_json=as_json, verbose=verbose):
        from frazil.engine.settle import planned_values, report_of, settle  # noqa: PLC0415
        from frazil.plan.build import build  # noqa: PLC0415
        from frazil.plan.explain import as_values, explain  # noqa: PLC0415
        from frazil.serve.state import state  # noqa: PLC0415
        from frazil.spec.parse import load  # noqa: PLC0415
        from frazil.spec.select import selected  # noqa: PLC0415

        pipeline = load(path)
        names = selected(pipeline, select or [])
        found = state(pipeline, names)
        steps = build(pipeline, found, tables=names, rebuild=names if full_refresh else ())
        report = report_of(pipeline, names)
        settle(report, pipeline, found, steps)
        if as_json:
            print_json({"steps": as_values(steps), **planned_values(report)})
        else:
            for step in steps:
                out.print(explain(step), markup=False)
            show.planned(report)
            if steps or not report.errors:
                todo = f"{counted(len(steps), 'step')}; do {'it' if len(steps) == 1 else 'them'}: frazil run"
                out.print(todo if steps else "nothing to do", style="green", markup=False)
            show.failures(report)
        if report.errors:
            raise typer.Exit(report.exit_code)


def status(path: Where = Path(), *, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Show where every table stands and what waits at its source."""
    with told(as_json=as_json, verbose=verbose):
        from frazil.cli.stories import status_tables  # noqa: PLC0415
        from frazil.serve.plain import plain  # noqa: PLC0415
        from frazil.serve.status import gold_status, open_run  # noqa: PLC0415
        from frazil.serve.status import status as look  # noqa: PLC0415
        from frazil.spec.parse import load  # noqa: PLC0415

        pipeline = load(path)
        found, gold, run = look(pipeline), gold_status(pipeline), open_run(pipeline)
        if as_json:
            print_json({"tables": plain(found), "gold": plain(gold), "open_run": plain(run)})
        else:
            status_tables(found, gold, run)


def check(path: Where = Path(), *, select: Select = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Prove that the tables say what the changes say; exit 9 if they do not."""
    with told(as_json=as_json, verbose=verbose):
        from frazil.cli.progress import CheckProgress  # noqa: PLC0415
        from frazil.cli.proofs import proofs, summary  # noqa: PLC0415
        from frazil.serve.check import check as prove  # noqa: PLC0415
        from frazil.spec.parse import load  # noqa: PLC0415

        pipeline = load(path)
        with CheckProgress(quiet=as_json) as progress:
            findings = prove(pipeline, select=select or [], listener=progress)
        wrong = [finding for finding in findings if finding.ok is False]
        if as_json:
            print_json([asdict(finding) for finding in findings])
            if wrong:
                raise typer.Exit(DifferenceError.exit_code)
            return
        proofs(findings)
        if wrong:
            raise DifferenceError(
                summary(findings),
                hint="why a row is as it is: frazil key; to rebuild silver and marts from bronze: frazil rebuild",
            )
        out.print(summary(findings), style="green", markup=False)


def query(
    sql: Annotated[
        str | None,
        typer.Argument(help="SQL over the lake's tables, such as: select * from marts.hosts. Left out: a prompt."),
    ] = None,
    path: Where = Path(),
    *,
    limit: Annotated[int | None, typer.Option(min=0, help="Rows to show or write at most.")] = None,
    all_columns: Annotated[
        bool, typer.Option("--all-columns", help="Show what select * finds with the columns of bookkeeping, _cdc_….")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV to standard output, nothing else.")] = False,
    parquet: Annotated[Path | None, typer.Option(help="Write a Parquet file.")] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Ask the lake with SQL, by DuckDB."""
    with told(as_json=as_json, verbose=verbose):
        from frazil.cli.answers import Answers  # noqa: PLC0415
        from frazil.cli.prompt import prompt  # noqa: PLC0415
        from frazil.serve.query import QueryError  # noqa: PLC0415
        from frazil.spec.parse import load  # noqa: PLC0415

        if as_json + as_csv + (parquet is not None) > 1:
            raise QueryError("--json, --csv and --parquet are three forms of one answer", hint="choose one")
        if sql is not None and path == Path() and len(sql.split()) == 1 and Path(sql).exists():
            path, sql = Path(sql), None  # one word is no SQL
        if sql is None and not sys.stdin.isatty():
            raise QueryError("there is no SQL to run", hint='frazil query "select * from marts.hosts"')
        answers = Answers(
            pipeline=load(path),
            form="json" if as_json else "csv" if as_csv else "grid",
            parquet=parquet,
            limit=limit,
            all_columns=all_columns,
        )
        if sql is None:
            prompt(answers.give)
        else:
            answers.give(sql)


def key(
    table: Annotated[str, typer.Argument(help="The source table's name.")],
    value: Annotated[list[str], typer.Argument(help="The key: its values in the order of keys.")],
    *,
    path: Annotated[Path, typer.Option("--path", "-p", help="The declaration, or its folder.")] = Path(),
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Tell why a row looks as it does: its changes from bronze to marts, in order; exit 2 for a key nobody knows."""
    with told(as_json=as_json, verbose=verbose):
        from frazil.cli.stories import key_story, named  # noqa: PLC0415
        from frazil.serve.key import explain_key  # noqa: PLC0415
        from frazil.serve.plain import plain  # noqa: PLC0415
        from frazil.spec.parse import load  # noqa: PLC0415

        story = explain_key(load(path), table, value)
        if as_json:
            print_json(plain(story))
        elif story.is_known:
            key_story(story)
        if not story.is_known:
            err.print(f"{story.table}: no record, change or row has {named(story)}", style="yellow", markup=False)
            raise typer.Exit(_UNKNOWN_KEY)


COMMANDS = {"plan": plan, "status": status, "check": check, "query": query, "key": key}
