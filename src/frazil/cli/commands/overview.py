"""Commands that list what a lake holds: ``status``, ``ls``, ``lineage`` and ``runs``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text
from rich.tree import Tree

from frazil import api
from frazil.cli.console import error_exit, grid, out, print_json, runnable
from frazil.cli.options import AsJson, Project, Select, Verbose, Where
from frazil.cli.reporting import is_behind, lag_line, passed_over
from frazil.spec.amount import counted, sized

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.api import Status
    from frazil.interop.lineage import Lineage
    from frazil.runner.past_runs import OpenRun, PastFailure
    from frazil.serve.lag import CaptureLag
    from frazil.serve.overview import ListedTable
    from frazil.serve.runs import PastRun, RunPart
    from frazil.serve.schema import SchemaChange, TableSchema
    from frazil.serve.status import MadeStatus, TableStatus


def status(
    table_or_path: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE|PATH",
            help="A table, to show its columns and file layouts too. Or the project.",
        ),
    ] = None,
    *,
    path: Project = Path(),
    select: Select = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show the state of every table, and what waits at its source; of one TABLE also its columns.

    Example: frazil status orders --project my_lake
    """
    if table_or_path is not None and select is not None:
        raise typer.BadParameter("tables are named twice; give TABLE or --select")
    with error_exit(as_json=as_json, verbose=verbose):
        from frazil.serve.query.plain import plain  # noqa: PLC0415

        found = api.status(path, select=select or table_or_path or ())
        schema = None if table_or_path is None else api.schema(path, table_or_path)
        if as_json:
            print_json(plain(found) | ({} if schema is None else plain(schema)))
            return
        show_status(found)
        if schema is not None:
            show_schema(schema)


_SHOWN = 5


def show_status(status: Status) -> None:
    """Print the state of every table, what waits at its source, and failures that remain."""
    names = ["table", "batch", "behind", "rows", "deleted", "files", "delete files", "snapshots", "size", "committed"]
    for table in status.tables:
        _table(table)
    rows = [_made(made) for table in status.tables for made in table.marts] + [_made(made) for made in status.gold]
    grid(None, names, rows, right=set(names) - {"table", "committed"})
    for made in (*(mart for table in status.tables for mart in table.marts), *status.gold):
        if made.trouble:
            whose = "" if made.name in made.trouble else f"{made.name}: "
            out.print(f"{whose}{made.trouble}", style="red", markup=False)
    for made in status.gold:
        _failures(made.failures)
    if status.open_run is not None:
        _open_run(status.open_run)
    if status.holder is not None:
        out.print(f"the lake is held by {status.holder}", markup=False)


def _table(table: TableStatus) -> None:
    out.print(
        f"[bold]{table.table}[/]: batch {table.batch}, {counted(table.files, 'file')}, "
        f"{counted(table.rows, 'record')}, {counted(table.changes, 'change')}, {table.quarantined:,} in quarantine"
    )
    if table.horizon:
        out.print(f"  changes before {table.horizon} are folded into the baseline", markup=False)
    for text in table.retyped:
        out.print(f"  {text}", style="yellow", markup=False)
    _spark_runs(table)
    _checks(table)
    for lag in table.captured:
        _lag(lag)
    if table.waiting:
        more = f" and {len(table.waiting) - _SHOWN} more" if len(table.waiting) > _SHOWN else ""
        out.print(f"  wait at the source: {', '.join(table.waiting[:_SHOWN])}{more}", style="yellow", markup=False)
    if table.touched:
        out.print(f"  touched since: {', '.join(table.touched[:_SHOWN])}", style="yellow", markup=False)
    if table.passed:
        out.print(f"  {passed_over(table.passed)}", style="yellow", markup=False)
    if table.trouble:
        out.print(f"  {table.trouble}", style="red", markup=False)
    if table.unfinished_erase:
        says = f"erase {table.unfinished_erase} is unfinished: frazil erase of any key of the table finishes it"
        out.print(f"  {says}", style="red", markup=False)
    if table.treating:
        says = f"old files may hold values of columns with pii: frazil erase --select {table.table} --pii removes them"
        out.print(f"  {says}", style="red", markup=False)
    _failures(table.failures)


def _spark_runs(table: TableStatus) -> None:
    """Print how often Spark computed the changes or a mart in place of the driver; nothing if that never happened."""
    for name, runs in (("changes", table.spark_runs), *((mart.name, mart.spark_runs) for mart in table.marts)):
        if runs.text:
            out.print(f"  {name}: {runs.text}", style="yellow", markup=False)


def _checks(table: TableStatus) -> None:
    """Print when the table was last proved and last compared with its source; nothing if that never happened."""
    laws, source = table.checks.laws, table.checks.source
    if laws is not None:
        proofs = ", ".join(
            f"{number:,} {word}"
            for number, word in ((laws.failed, "failed"), (laws.undecided, "undecided"), (laws.held, "held"))
            if number
        )
        style = "red" if laws.failed else None
        out.print(f"  proofs at {laws.at:%Y-%m-%d %H:%M:%S}: {proofs}", style=style, markup=False)
    if source is not None:
        what = "differed from" if source.failed else "was not comparable with" if source.undecided else "was equal to"
        style = "red" if source.failed else None
        out.print(f"  {what} its source at {source.at:%Y-%m-%d %H:%M:%S}", style=style, markup=False)
    _verified(table)


def _verified(table: TableStatus) -> None:
    """Print up to when the table was found equal to its source, if runs compare them or it once was."""
    known, style = table.checks.verified, "yellow" if table.checks.is_behind else None
    if known is not None and known.at is not None:
        out.print(f"  verified through {known.at:%Y-%m-%d %H:%M:%S}: {known.source}", style=style, markup=False)
    elif known is not None:
        out.print(
            f"  never found equal to its source, since {known.since:%Y-%m-%d %H:%M:%S}", style=style, markup=False
        )


def _lag(lag: CaptureLag) -> None:
    if lag.trouble:
        out.print(f"  {lag.name}: lag unknown: {lag.trouble}", style="red", markup=False)
        if lag.hint:
            out.print(f"    hint: {runnable(lag.hint)}", markup=False)
    else:
        out.print(f"  {lag_line(lag)}", style="yellow" if is_behind(lag) else None, markup=False)


def _open_run(run: OpenRun) -> None:
    began = f"the run {run.run_id} began at {run.began_at:%Y-%m-%d %H:%M:%S} and"
    if run.is_running:
        out.print(f"{began} is running", markup=False)
    else:
        says = "did not end: it was interrupted or killed. The next run continues its work"
        out.print(f"{began} {says}", style="yellow", markup=False)


def _failures(failures: Sequence[PastFailure]) -> None:
    for failure in failures:
        at = f"{failure.at:%Y-%m-%d %H:%M:%S}"
        out.print(
            f"  {failure.name} failed at {at} in run {failure.run_id}: [{failure.code}] {failure.message}",
            style="red",
            markup=False,
        )
        if failure.hint:
            out.print(f"    hint: {runnable(failure.hint)}", markup=False)


def _made(made: MadeStatus) -> list[Any]:
    at = f"{made.committed_at:%Y-%m-%d %H:%M:%S}" if made.committed_at else "never"
    deleted = "" if made.deleted_rows is None else made.deleted_rows
    counts = [made.batch, made.lag, made.rows, deleted, made.data_files, made.delete_files, made.snapshots]
    return [made.name, *counts, sized(made.size_bytes), at]


_FROM = {"field": "a field", "expr": "an expression", "source": "each record's arrival"}


def show_schema(found: TableSchema) -> None:
    """Print the columns, the layouts of the source's files, and fields that no column reads."""
    grid(
        f"{found.table}: columns of silver and marts",
        ("column", "type", "comes from", "declared", "since batch"),
        [
            (one.name, one.type, _FROM[one.comes_from], "yes" if one.is_declared else "no", one.since_batch)
            for one in found.columns
        ],
        right=("since batch",),
    )
    grid(
        "layouts of the files, in the order of the source",
        ("batch", "arrived", "first file", "what changed"),
        [(one.batch, one.arrived_at, one.file.rpartition("/")[2], _what(one)) for one in found.changes],
        right=("batch",),
    )
    if found.undeclared:
        names = ", ".join(name for name, _ in found.undeclared)
        few = counted(len(found.undeclared), "field is", "fields are")
        out.print(f"{few} in bronze only: {names}", style="yellow", markup=False)
    if found.left_out:
        few = counted(len(found.left_out), "generated column is", "generated columns are")
        out.print(f"{few} at the source only: {', '.join(found.left_out)}", style="yellow", markup=False)


def _what(change: SchemaChange) -> str:
    parts = [f"+ {name} {kind}" for name, kind in change.added]
    parts += [f"- {name}" for name in change.removed]
    parts += [f"{name} {before} → {kind}" for name, before, kind in change.retyped]
    return ", ".join(parts) or counted(change.fields, "field")


def ls(path: Where = Path(), *, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """List the tables of the lake with kind, rows and newest commit; asks no source.

    Example: frazil ls my_lake
    """
    with error_exit(as_json=as_json, verbose=verbose):
        found = api.ls(path)
        if as_json:
            from frazil.serve.query.plain import document  # noqa: PLC0415

            print_json(document({"tables": found}))
        else:
            show_tables(found)


def show_tables(found: Sequence[ListedTable]) -> None:
    """Print a line for each table, and why tables cannot be read."""
    names = ("table", "kind", "batch", "rows", "size", "committed")
    rows = [(one.name, one.kind, one.batch, one.rows, sized(one.size_bytes), _committed(one)) for one in found]
    grid(None, names, rows, right={"batch", "rows", "size"})
    for one in found:
        if one.trouble:
            out.print(f"{one.name}: {one.trouble}", style="red", markup=False)


def _committed(table: ListedTable) -> str:
    return f"{table.committed_at:%Y-%m-%d %H:%M:%S}" if table.committed_at else "never"


def lineage(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A source table, mart or aggregate.")],
    *,
    path: Project = Path(),
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show what a table is made of and what is made of it, and where its columns come from.

    Example: frazil lineage gold.revenue --project my_lake
    """
    with error_exit(as_json=as_json, verbose=verbose):
        found = api.lineage(path, table)
        if as_json:
            from frazil.serve.query.plain import document  # noqa: PLC0415

            print_json(document(found))
        else:
            show_lineage(found)


def show_lineage(found: Lineage) -> None:
    """Print the tables as a tree from their sources, and the columns of the table that was asked for."""
    shown: set[str] = set()
    for node in found.nodes:
        if not node.made_of:
            tree = Tree(_label(found, node.name))
            _grow(found, tree, node.name, shown)
            out.print(tree)
    [asked] = [node for node in found.nodes if node.name == found.table]
    if asked.made_of and asked.columns:
        rows = [
            (column, ", ".join(f"{table}.{field}" for table, field in origins) or "no column")
            for column, origins in asked.columns.items()
        ]
        grid(asked.name, ("column", "comes from"), rows)


def _grow(found: Lineage, tree: Tree, name: str, shown: set[str]) -> None:
    """Add what is made of a node; a node with several origins grows once."""
    for reader in found.readers(name):
        branch = tree.add(_label(found, reader))
        if reader not in shown:
            shown.add(reader)
            _grow(found, branch, reader, shown)


def _label(found: Lineage, name: str) -> Text:
    return Text(name, style="bold" if name == found.table else "")


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
            out.print(f"  hint: {runnable(failure.hint)}", markup=False)


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
