"""Longer results for people: where the lake stands, and the story of a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.cli.console import out
from frazil.cli.show import grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.serve.key import KeyStory
    from frazil.serve.status import MadeStatus, TableStatus

_KILO = 1000.0
_SHOWN = 5


def status_tables(tables: Sequence[TableStatus], gold: Sequence[MadeStatus]) -> None:
    """Print where every table stands and what waits at its source."""
    names = ["table", "batch", "behind", "rows", "deleted", "files", "delete files", "snapshots", "size", "committed"]
    for table in tables:
        out.print(
            f"[bold]{table.table}[/]: batch {table.batch}, {table.files} files, {table.rows} records, "
            f"{table.changes} changes, {table.quarantined} in quarantine"
        )
        if table.waiting:
            more = f" and {len(table.waiting) - _SHOWN} more" if len(table.waiting) > _SHOWN else ""
            out.print(f"  wait at the source: {', '.join(table.waiting[:_SHOWN])}{more}", style="yellow", markup=False)
        if table.touched:
            out.print(f"  touched since: {', '.join(table.touched[:_SHOWN])}", style="yellow", markup=False)
        if table.trouble:
            out.print(f"  {table.trouble}", style="red", markup=False)
    rows = [_made(made) for table in tables for made in table.marts] + [_made(made) for made in gold]
    grid(None, names, rows, right=set(names) - {"table", "committed"})


def key_story(story: KeyStory) -> None:
    """Print all that the lake holds of one key, from bronze to marts."""
    named = ", ".join(f"{name} = {value}" for name, value in story.key.items())
    out.print(f"{story.table} where {named}", style="bold", markup=False)
    out.print("\n1 as it came (bronze)")
    fields = list(dict.fromkeys(name for record in story.records for name in record.fields))
    grid(
        None,
        ["file", "row", "batch", "op", *fields, "quarantined"],
        [
            [_name(record.file), record.row, record.batch, record.op]
            + [record.fields.get(name) for name in fields]
            + [record.quarantine["reason"] if record.quarantine else ""]
            for record in story.records
        ],
    )
    out.print("2 typed changes in order, the last one wins (silver)")
    columns = list(dict.fromkeys(name for change in story.changes for name in change.values))
    grid(
        None,
        ["", *columns, "batch", "file", "row"],
        [
            [", ".join(change.marks) or change.kind]
            + [change.values.get(name, "·") for name in columns]
            + [change.batch, _name(change.file), change.row]
            for change in story.changes
        ],
    )
    for name, rows in story.marts.items():
        out.print(f"3 {name}", markup=False)
        if rows:
            shown = [column for column in rows[0] if not column.startswith("_cdc_")]
            grid(None, shown, [[row[column] for column in shown] for row in rows])
        else:
            out.print("  no row\n", style="dim")
    for note in story.notes:
        out.print(note, style="yellow", markup=False)


def _made(made: MadeStatus) -> list[Any]:
    size = float(made.size_bytes)
    unit = "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < _KILO or unit == "TB":
            break
        size /= _KILO
    at = f"{made.committed_at:%Y-%m-%d %H:%M:%S}" if made.committed_at else "never"
    deleted = "" if made.deleted_rows is None else made.deleted_rows
    counts = [made.batch, made.lag, made.rows, deleted, made.data_files, made.delete_files, made.snapshots]
    return [made.name, *counts, f"{size:.0f} {unit}", at]


def _name(path: str) -> str:
    return path.rpartition("/")[2]
