"""``frazil status``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from frazil import api
from frazil.cli.console import error_exit, out, print_json
from frazil.cli.grid import grid
from frazil.cli.lag import is_behind, lag_line
from frazil.cli.notes import passed_over
from frazil.cli.options import AsJson, Select, Verbose, Where
from frazil.spec.amount import counted, sized

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.api import Status
    from frazil.runner.past_runs import OpenRun, PastFailure
    from frazil.serve.lag import CaptureLag
    from frazil.serve.status import MadeStatus, TableStatus


def status(path: Where = Path(), *, select: Select = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Show the state of every table, and what waits at its source."""
    with error_exit(as_json=as_json, verbose=verbose):
        found = api.status(path, select=select or ())
        if as_json:
            from frazil.serve.query.plain import plain  # noqa: PLC0415

            print_json(plain(found))
        else:
            show_status(found)


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


def _lag(lag: CaptureLag) -> None:
    if lag.trouble:
        out.print(f"  {lag.name}: lag unknown: {lag.trouble}", style="red", markup=False)
        if lag.hint:
            out.print(f"    hint: {lag.hint}", markup=False)
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
            out.print(f"    hint: {failure.hint}", markup=False)


def _made(made: MadeStatus) -> list[Any]:
    at = f"{made.committed_at:%Y-%m-%d %H:%M:%S}" if made.committed_at else "never"
    deleted = "" if made.deleted_rows is None else made.deleted_rows
    counts = [made.batch, made.lag, made.rows, deleted, made.data_files, made.delete_files, made.snapshots]
    return [made.name, *counts, sized(made.size_bytes), at]
