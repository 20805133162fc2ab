"""Commands that only look, and start no JVM: plan, status, check, query, key."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from frazil.cli import show
from frazil.cli.console import out, print_json, told
from frazil.cli.options import AsJson, Select, Verbose, Where
from frazil.errors import DifferenceError


def plan(
    path: Where = Path(),
    *,
    select: Select = None,
    full_refresh: Annotated[bool, typer.Option("--full-refresh", help="As for run.")] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Tell what a run would do, and do nothing."""
    with told(as_json=as_json, verbose=verbose):
        from frazil.plan.build import build  # noqa: PLC0415
        from frazil.plan.explain import as_values, explain  # noqa: PLC0415
        from frazil.serve.state import state  # noqa: PLC0415
        from frazil.spec.parse import load  # noqa: PLC0415
        from frazil.spec.select import selected  # noqa: PLC0415

        pipeline = load(path)
        names = selected(pipeline, select or [])
        steps = build(pipeline, state(pipeline), tables=names, rebuild=names if full_refresh else ())
        if as_json:
            print_json(as_values(steps))
            return
        for step in steps:
            out.print(explain(step), markup=False)
        out.print(
            f"{len(steps)} steps; do them: frazil run" if steps else "nothing to do",
            style="green",
            markup=False,
        )


def status(path: Where = Path(), *, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Show where every table stands and what waits at its source."""
    with told(as_json=as_json, verbose=verbose):
        from frazil.cli.stories import status_tables  # noqa: PLC0415
        from frazil.serve.plain import plain  # noqa: PLC0415
        from frazil.serve.status import gold_status  # noqa: PLC0415
        from frazil.serve.status import status as look  # noqa: PLC0415
        from frazil.spec.parse import load  # noqa: PLC0415

        pipeline = load(path)
        found, gold = look(pipeline), gold_status(pipeline)
        if as_json:
            print_json({"tables": plain(found), "gold": plain(gold)})
        else:
            status_tables(found, gold)


def check(path: Where = Path(), *, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Prove that the tables say what the changes say; exit 9 if they do not."""
    with told(as_json=as_json, verbose=verbose):
        from frazil.serve.check import check as prove  # noqa: PLC0415
        from frazil.spec.parse import load  # noqa: PLC0415

        findings = prove(load(path))
        if as_json:
            print_json([asdict(finding) for finding in findings])
        else:
            signs = {True: "ok", False: "WRONG", None: "?"}
            rows = [[signs[finding.ok], finding.law, finding.table, finding.detail] for finding in findings]
            show.grid(None, ["", "law", "table", "found"], rows)
        wrong = [finding for finding in findings if finding.ok is False]
        if wrong:
            raise DifferenceError(
                f"{len(wrong)} of {len(findings)} proofs fail",
                hint="see why a row is as it is: frazil key; make the tables anew from bronze: frazil rebuild",
            )
        if not as_json:
            out.print(f"{len(findings)} proofs hold", style="green", markup=False)


def query(
    sql: Annotated[str, typer.Argument(help="SQL over the lake's tables, such as: select * from marts.hosts")],
    path: Where = Path(),
    *,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Ask the lake with SQL, by DuckDB."""
    with told(as_json=as_json, verbose=verbose):
        from frazil.serve.query import as_json as values  # noqa: PLC0415
        from frazil.serve.query import query as ask  # noqa: PLC0415
        from frazil.spec.parse import load  # noqa: PLC0415

        result = ask(load(path), sql)
        if as_json:
            out.out(values(result))
            return
        show.grid(None, result.columns, result.rows)
        out.print(f"{len(result.rows)} rows", style="dim", markup=False)


def key(
    table: Annotated[str, typer.Argument(help="The source table's name.")],
    value: Annotated[list[str], typer.Argument(help="The key: its values in the order of keys.")],
    *,
    path: Annotated[Path, typer.Option("--path", "-p", help="The declaration, or its folder.")] = Path(),
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Tell why a row looks as it does: its changes from bronze to marts, in order."""
    with told(as_json=as_json, verbose=verbose):
        from frazil.cli.stories import key_story  # noqa: PLC0415
        from frazil.serve.key import explain_key  # noqa: PLC0415
        from frazil.serve.plain import plain  # noqa: PLC0415
        from frazil.spec.parse import load  # noqa: PLC0415

        story = explain_key(load(path), table, value)
        if as_json:
            print_json(plain(story))
        else:
            key_story(story)


COMMANDS = {"plan": plan, "status": status, "check": check, "query": query, "key": key}
