"""``frazil rollback``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from frazil import api
from frazil.cli.console import confirm, error_exit, out, print_json
from frazil.cli.grid import grid
from frazil.cli.options import AsJson, OneTable, Verbose, Where, Yes, one_of
from frazil.cli.progress import Progress
from frazil.spec.amount import counted


def rollback(
    path: Where = Path(),
    *,
    one_table: OneTable = None,
    to: Annotated[str, typer.Option("--to", metavar="POINT", help="A time (UTC), a snapshot, a cut, or batch:N.")],
    yes: Yes = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Roll the marts of a table, and aggregates over them, back to a point.

    The next run brings them up to date again.

    Example: frazil rollback my_lake --select orders --to batch:12
    """
    table = one_of(one_table)
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        found = api.rollback_plan(pipeline, table, to)
        if not as_json:
            rows = [[move.table, move.batch, move.to_batch, move.to_snapshot] for move in found.moves]
            if rows:
                grid(None, ["table", "batch", "to batch", "to snapshot"], rows, right=["batch", "to batch"])
            for name in found.stays:
                out.print(f"{name} did not exist at that point, and is not changed", style="yellow", markup=False)
            for stale in found.stale:
                name = ".".join(stale[1:])
                out.print(f"{name} is not changed; the next run computes it", style="yellow", markup=False)
        if found.moves:
            if not yes:
                count = counted(len(found.moves), "table")
                confirm(
                    pipeline,
                    f"Roll {count} back to {found.to}? The next run brings them up to date.",
                    "nothing was changed",
                )
            with Progress(quiet=as_json, first="start Spark and roll back"):
                api.rollback(pipeline, found, spark=api.session(pipeline, short=True, verbose=verbose))
        if as_json:
            from frazil.serve.query.plain import plain  # noqa: PLC0415

            print_json(plain(found))
        else:
            done = f"{counted(len(found.moves), 'table')} rolled back; frazil run brings them up to date"
            out.print(done if found.moves else "nothing to roll back", markup=False)
