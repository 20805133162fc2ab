"""Longer results for people: where the lake stands, and the story of a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.cli.console import out
from frazil.cli.show import grid, passed_over
from frazil.cli.wide import fitted
from frazil.spec.amount import counted, sized

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.engine.past_runs import OpenRun, PastFailure
    from frazil.serve.key import KeyStory
    from frazil.serve.status import MadeStatus, TableStatus

_SHOWN = 5


def status_tables(tables: Sequence[TableStatus], gold: Sequence[MadeStatus], run: OpenRun | None) -> None:
    """Print where every table stands, what waits at its source, and what failed and is not yet right again."""
    names = ["table", "batch", "behind", "rows", "deleted", "files", "delete files", "snapshots", "size", "committed"]
    for table in tables:
        out.print(
            f"[bold]{table.table}[/]: batch {table.batch}, {counted(table.files, 'file')}, "
            f"{counted(table.rows, 'record')}, {counted(table.changes, 'change')}, {table.quarantined:,} in quarantine"
        )
        if table.waiting:
            more = f" and {len(table.waiting) - _SHOWN} more" if len(table.waiting) > _SHOWN else ""
            out.print(f"  wait at the source: {', '.join(table.waiting[:_SHOWN])}{more}", style="yellow", markup=False)
        if table.touched:
            out.print(f"  touched since: {', '.join(table.touched[:_SHOWN])}", style="yellow", markup=False)
        if table.passed:
            out.print(f"  {passed_over(table.passed)}", style="yellow", markup=False)
        if table.trouble:
            out.print(f"  {table.trouble}", style="red", markup=False)
        _failures(table.failures)
    rows = [_made(made) for table in tables for made in table.marts] + [_made(made) for made in gold]
    grid(None, names, rows, right=set(names) - {"table", "committed"})
    for made in gold:
        if made.trouble:
            out.print(f"{made.name}: {made.trouble}", style="red", markup=False)
        _failures(made.failures)
    if run is not None:
        began = f"the run {run.run_id} began at {run.began_at:%Y-%m-%d %H:%M:%S} and"
        if run.is_running:
            out.print(f"{began} is at work", markup=False)
        else:
            out.print(
                f"{began} did not end: it was interrupted or killed. The next run takes up where it was",
                style="yellow",
                markup=False,
            )


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


def key_story(story: KeyStory) -> None:
    """Print all that the lake holds of one key, from bronze to marts."""
    out.print(f"{story.table} where {named(story)}", style="bold", markup=False)
    out.print("\n1 as it came (bronze)")
    fields = list(dict.fromkeys(name for record in story.records for name in record.fields))
    _rows(
        ["file", "row", "batch", "op", *fields, "quarantined"],
        [
            [_name(record.file), record.row, record.batch, record.op]
            + [record.fields.get(name) for name in fields]
            + [record.quarantine["reason"] if record.quarantine else ""]
            for record in story.records
        ],
        "no record",
    )
    out.print("2 typed changes in order, the last one wins (silver)")
    columns = list(dict.fromkeys(name for change in story.changes for name in change.values))
    _rows(
        ["change", *columns, "batch", "file", "row"],
        [
            [", ".join(change.marks) or change.kind]
            + [change.values.get(name, "·") for name in columns]
            + [change.batch, _name(change.file), change.row]
            for change in story.changes
        ],
        "no change",
    )
    for number, (name, rows) in enumerate(story.marts.items(), 3):
        out.print(f"{number} {name}", markup=False)
        shown = [column for column in (rows[0] if rows else ()) if not column.startswith("_cdc_")]
        _rows(shown, [[row[column] for column in shown] for row in rows], "no row")
    for note in story.notes:
        out.print(note, style="yellow", markup=False)


def named(story: KeyStory) -> str:
    """Write the key with the names of its columns."""
    return ", ".join(f"{name} = {value}" for name, value in story.key.items())


def _rows(names: Sequence[str], rows: Sequence[Sequence[Any]], none: str) -> None:
    if rows:
        fitted(names, rows)
    else:
        out.print(f"  {none}\n", style="dim", markup=False)


def _made(made: MadeStatus) -> list[Any]:
    at = f"{made.committed_at:%Y-%m-%d %H:%M:%S}" if made.committed_at else "never"
    deleted = "" if made.deleted_rows is None else made.deleted_rows
    counts = [made.batch, made.lag, made.rows, deleted, made.data_files, made.delete_files, made.snapshots]
    return [made.name, *counts, sized(made.size_bytes), at]


def _name(path: str) -> str:
    return path.rpartition("/")[2]
