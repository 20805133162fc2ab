"""Commands that look after the tables of a lake: ``maintain``, ``rollback``, ``cut`` and ``drop``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frazil import api
from frazil.cli.console import confirm, error_exit, grid, out, print_json
from frazil.cli.options import AsJson, OneTable, Project, Select, Verbose, Where, Yes, one_of
from frazil.cli.progress import Progress
from frazil.cli.reporting import show_maintained
from frazil.errors import DeclarationError
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.serve.cuts import Cut
    from frazil.serve.leftovers import Droppable


def maintain(path: Where = Path(), *, select: Select = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Compact files, expire snapshots, remove orphan files and compute statistics.

    Snapshots with the bookmarks that the next run needs are kept.

    Example: frazil maintain my_lake --select orders
    """
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        api.selection(pipeline, select or ())  # reports a wrong word before Java starts
        with Progress(quiet=as_json, first="start Spark") as progress:
            spark = api.session(pipeline, verbose=verbose)
            done = api.maintain(
                pipeline, spark=spark, select=select or (), tell=lambda text: progress.step(f"maintain {text}")
            )
        if as_json:
            print_json([asdict(report) for report in done])
        else:
            show_maintained(done)


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


def cut(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the new cut.")] = None,
    *,
    list_all: Annotated[bool, typer.Option("--list", help="List the cuts.")] = False,
    drop: Annotated[str | None, typer.Option(metavar="NAME", help="Remove a cut.")] = None,
    path: Project = Path(),
    yes: Yes = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Mark all marts and aggregates at one consistent point, for query --as-of NAME.

    Example: frazil cut month-end --project my_lake
    """
    with error_exit(as_json=as_json, verbose=verbose):
        if (name is not None) + list_all + (drop is not None) != 1:
            raise DeclarationError("give one of NAME, --list and --drop NAME", hint="frazil cut month-end")
        pipeline = api.load(path)
        if list_all:
            _show(api.cuts(pipeline), as_json=as_json)
        elif drop is not None:
            if not yes:
                confirm(
                    pipeline,
                    f"Remove the cut '{drop}'? Snapshots that only it keeps can then expire.",
                    "nothing was removed",
                )
            with Progress(quiet=as_json, first="start Spark and remove the cut"):
                found = api.drop_cut(pipeline, drop)
            if as_json:
                _show([found], as_json=True)
            else:
                out.print(f"cut {found.name} removed from {counted(len(found.tables), 'table')}", markup=False)
        else:
            with Progress(quiet=as_json, first="start Spark and mark the tables"):
                made = api.cut(pipeline, name or "")
            _show([made], as_json=as_json)


def _show(found: Sequence[Cut], *, as_json: bool) -> None:
    if as_json:
        from frazil.serve.query.plain import plain  # noqa: PLC0415

        print_json(plain(found))
        return
    rows = [
        [one.name, one.newest, len(one.tables), ", ".join(one.missing) or "none"]
        for one in sorted(found, key=lambda one: (f"{one.newest}", one.name))
    ]
    if rows:
        grid(None, ["cut", "newest commit", "tables", "without"], rows, right=["tables"])
    else:
        out.print("no cuts")


def drop(
    path: Where = Path(),
    *,
    select: Select = None,
    yes: Yes = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Drop tables that earlier declarations left behind, or those that --select names.

    Example: frazil drop my_lake
    """
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        found = api.droppable(pipeline, select or ())
        if found and not as_json:
            rows = [[table.full_name, table.role, table.source, table.rows] for table in found]
            grid(None, ["table", "layer", "made of", "rows"], rows, right=["rows"])
        if found:
            if not yes:
                confirm(pipeline, _question(found), "nothing was dropped")
            with Progress(quiet=as_json, first="start Spark and drop"):
                api.drop(pipeline, found, spark=api.session(pipeline, short=True, verbose=verbose))
        if as_json:
            print_json([asdict(table) for table in found])
        else:
            out.print(f"{counted(len(found), 'table')} dropped" if found else "nothing to drop")


def _question(found: Sequence[Droppable]) -> str:
    rows = sum(table.rows for table in found)
    bronze = sum(table.role == "bronze" for table in found)
    kept = " Bronze is the only copy of records whose files are no longer at the source." if bronze else ""
    return f"Drop {counted(len(found), 'table')} with {counted(rows, 'row')}?{kept}"
