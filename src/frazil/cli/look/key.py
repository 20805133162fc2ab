"""``frazil key``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frazil import api
from frazil.cli.console import err, error_exit, out, print_json
from frazil.cli.grid import fitted
from frazil.cli.options import AsJson, Project, Verbose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.serve.key import KeyStory

_UNKNOWN_KEY = 2


def key(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The source table's name.")],
    value: Annotated[list[str], typer.Argument(metavar="VALUE", help="The key: its values in the order of keys.")],
    *,
    path: Project = Path(),
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Explain why a row looks as it does: its changes from bronze to marts, in order.

    Exit code 2: the key is unknown.

    Example: frazil key orders 1006 --project my_lake
    """
    with error_exit(as_json=as_json, verbose=verbose):
        story = api.key(path, table, value)
        if as_json:
            from frazil.serve.query.plain import plain  # noqa: PLC0415

            print_json(plain(story))
        elif story.is_known:
            show_key(story)
        if not story.is_known:
            err.print(f"{story.table}: no record, change or row has {named(story)}", style="yellow", markup=False)
            raise typer.Exit(_UNKNOWN_KEY)


def show_key(story: KeyStory) -> None:
    """Print everything that the lake holds of one key, from bronze to marts."""
    out.print(f"{story.table} where {named(story)}", style="bold", markup=False)
    out.print("\n1 raw records (bronze)")
    fields = list(dict.fromkeys(name for record in story.records for name in record.fields))
    _rows(
        ["file", "row", "batch", "op", *fields, "quarantined"],
        [
            [_name(record.file), record.row, record.batch, record.op]
            + [record.fields.get(name) for name in fields]
            + [record.quarantine["reason"] if record.quarantine else "a correction" if record.is_correction else ""]
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
    """Return the key as text, with the names of its columns."""
    return ", ".join(f"{name} = {value}" for name, value in story.key.items())


def _rows(names: Sequence[str], rows: Sequence[Sequence[Any]], none: str) -> None:
    if rows:
        fitted(names, rows)
    else:
        out.print(f"  {none}\n", style="dim", markup=False)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
