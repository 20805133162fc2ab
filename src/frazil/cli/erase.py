"""``frazil erase``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frazil import api
from frazil.cli.console import confirm, err, error_exit, out, print_json
from frazil.cli.options import AsJson, Verbose, Where, Yes
from frazil.cli.render.erase import show_erase
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from frazil.engine.erase_report import EraseReport


def erase(
    path: Where = Path(),
    *,
    table: Annotated[str, typer.Option("--table", "-t", help="The source table, or one of its marts.")],
    key: Annotated[
        list[str] | None,
        typer.Option("--key", "-k", help="A key; of several columns as JSON by name. May be repeated."),
    ] = None,
    keys_from: Annotated[Path | None, typer.Option("--keys-from", help="A file of keys, one a line.")] = None,
    where: Annotated[
        str | None, typer.Option("--where", "-w", help="A condition over silver's columns: the keys of these changes.")
    ] = None,
    unblock: Annotated[bool, typer.Option("--unblock", help="Let erased keys come again; erases nothing.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Remove subjects from every layer, old snapshots and all files, for good; show first what would be removed."""
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        keys = [*(key or ()), *(_lines(keys_from) if keys_from else ())]
        asked: dict[str, Any] = {
            "keys": keys,
            "where": where,
            "spark": api.session(pipeline, verbose=verbose),
        }
        if unblock:
            if not yes:
                confirm("Let these keys come again?", "nothing was unblocked")
            count = api.unblock(pipeline, table, **asked)
            print_json({"unblocked": count}) if as_json else out.print(f"{counted(count, 'key')} unblocked")
            return
        if not yes:
            _show(api.erase_preview(pipeline, table, **asked), as_json=as_json)
            confirm("Erase? It cannot be undone, not even by a rollback.", "nothing was erased")
        _show(api.erase(pipeline, table, **asked, tell=lambda step: err.print(step, style="dim")), as_json=as_json)


def _show(report: EraseReport, *, as_json: bool) -> None:
    print_json(asdict(report)) if as_json else show_erase(report)


def _lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8-sig")
    return [line for line in text.splitlines() if line.strip()]
