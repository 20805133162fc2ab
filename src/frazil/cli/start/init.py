"""``frazil init``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frazil import api
from frazil.cli.console import error_exit, out
from frazil.cli.grid import grid
from frazil.cli.options import Verbose, local

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.sources.dms.discover import Discovered
    from frazil.sources.postgres.database.discover import FoundTable

_COLUMNS_SHOWN = 8
_SERVERS = ("postgresql://", "postgres://", "${")


def init(
    folder: Annotated[Path, typer.Argument(parser=local, metavar="FOLDER", help="Folder of the new project.")] = Path(),
    *,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Declare the tables of a landing folder with DMS files (also s3://…), of a data contract (ODCS), or "
            "of a database: postgresql://… or ${env:SHOP_DB}.",
        ),
    ] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option("--tables", help="With a database: names or patterns of tables. Default: ask, or all with a key."),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Create a project: a declaration, and sample files unless --from names a source."""
    with error_exit(verbose=verbose):
        wanted = [word for given in tables or () for word in given.split(",")]
        asks = source is not None and source.startswith(_SERVERS) and not wanted and sys.stdin.isatty()
        if source is not None and asks:
            wanted = _asked(api.server_tables(source))
        begun = api.init(folder, source=source, tables=wanted)
        _show_discovered(begun.discovered)
        if begun.found and not asks:
            _show_found(begun.found, "found; review before the first run")
        for table in begun.without_key:
            out.print(f"{table.full_name}: left out, {table.doubts[0]}", style="yellow", markup=False)
        out.print(f"wrote {begun.declaration}", markup=False)
        for need in begun.needs:
            out.print(f"the server: {need.detail}", style="yellow" if need.ok is None else "red", markup=False)
            if need.hint:
                out.print(f"  hint: {need.hint}", markup=False)
        export = f"export {begun.variable}=…  # the address that you gave; no file has it\n      "
        first = export if begun.variable else ""
        out.print(f"next: {first}frazil validate {folder}\n      frazil run {folder}", markup=False)


def _asked(found: Sequence[FoundTable]) -> list[str]:
    """Ask which tables to declare; an empty answer means all that have a key."""
    _show_found(found, None)
    given = typer.prompt("Which tables? Names or patterns, with commas", default="", show_default=False, err=True)
    return [word.strip() for word in given.split(",") if word.strip()]


def _show_found(found: Sequence[FoundTable], title: str | None) -> None:
    grid(
        title,
        ["table", "rows, about", "keys", "replica identity", "columns"],
        [
            [
                one.full_name,
                "not counted" if one.rows is None else f"{one.rows:,}",
                ", ".join(one.keys) or "none!",
                one.identity,
                _columns(one),
            ]
            for one in found
        ],
        right=["rows, about"],
    )
    for one in found:
        for doubt in one.doubts:
            out.print(f"{one.full_name}: {doubt}", style="yellow", markup=False)


def _columns(table: FoundTable) -> str:
    more = len(table.columns) - _COLUMNS_SHOWN
    shown = ", ".join(f"{name} {kind}" for name, kind, _ in table.columns[:_COLUMNS_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown


def _show_discovered(found: Sequence[Discovered]) -> None:
    if not found:
        return
    names = ["table", "format", "keys", "sequence_by"]
    rows = [
        [
            one.name,
            one.format,
            ", ".join(one.keys) + ("" if one.keys_seen else " (by name only!)"),
            ", ".join(one.sequence_by) + (" (a guess!)" if one.stamp else ""),
        ]
        for one in found
    ]
    grid("found; review before the first run", names, rows)
    for one in found:
        for doubt in one.doubts:
            out.print(f"{one.name}: {doubt}", style="yellow", markup=False)
