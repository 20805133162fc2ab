"""``frazil erase``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frazil import api
from frazil.cli.console import as_value, confirm, err, error_exit, out, print_json
from frazil.cli.options import AsJson, Verbose, Where, Yes, local
from frazil.cli.render.erase import show_erase, show_treat
from frazil.errors import DeclarationError
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from frazil.spec import Pipeline


def erase(
    path: Where = Path(),
    *,
    table: Annotated[str, typer.Option("--table", "-t", help="The source table, or one of its marts.")],
    key: Annotated[
        list[str] | None,
        typer.Option("--key", "-k", help="A key; of several columns as JSON by name. May be repeated."),
    ] = None,
    keys_from: Annotated[
        Path | None, typer.Option("--keys-from", parser=local, metavar="FILE", help="A file of keys, one a line.")
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", "-w", help="A condition over silver's columns: the keys of these changes.")
    ] = None,
    unblock: Annotated[bool, typer.Option("--unblock", help="Let erased keys come again; erases nothing.")] = False,
    pii: Annotated[
        bool,
        typer.Option("--pii", help="Replace what the lake holds of columns that were given pii after it was read."),
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Remove subjects from every layer, old snapshots and all files, for good; show first what would be removed."""
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        keys = [*(key or ()), *(_lines(keys_from) if keys_from else ())]
        if pii:
            if keys or where is not None or unblock:
                raise DeclarationError("--pii takes no key and no condition", hint="erase keys by themselves")
            _treat(pipeline, table, yes=yes, as_json=as_json, verbose=verbose)
            return
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
            if not as_json:
                show_erase(api.erase_preview(pipeline, table, **asked))
            confirm("Erase? It cannot be undone, not even by a rollback.", "nothing was erased")
        _erase(pipeline, table, asked, as_json=as_json)


def _treat(pipeline: Pipeline, table: str, *, yes: bool, as_json: bool, verbose: bool) -> None:
    from frazil.erase.treat_report import ValuesLeftError  # noqa: PLC0415 - most commands end without

    spark = api.session(pipeline, verbose=verbose)
    if not yes:
        if not as_json:
            show_treat(api.treat_preview(pipeline, table, spark=spark))
        confirm("Replace them? It cannot be undone, not even by a rollback.", "nothing was replaced")
    try:
        report = api.treat(pipeline, table, spark=spark, tell=lambda step: err.print(step, style="dim"))
    except ValuesLeftError as error:
        if not as_json:
            show_treat(error.report)
            raise
        print_json(asdict(error.report) | as_value(error))
        raise typer.Exit(error.exit_code) from None
    print_json(asdict(report)) if as_json else show_treat(report)


def _erase(pipeline: Pipeline, table: str, asked: dict[str, Any], *, as_json: bool) -> None:
    from frazil.erase.receipt import OccurrencesLeftError  # noqa: PLC0415 - most commands end without

    try:
        report = api.erase(pipeline, table, **asked, tell=lambda step: err.print(step, style="dim"))
    except OccurrencesLeftError as error:
        if not as_json:
            show_erase(error.report)
            raise
        # The report has the places, which the message has only the first of.
        print_json(asdict(error.report) | as_value(error))
        raise typer.Exit(error.exit_code) from None
    print_json(asdict(report)) if as_json else show_erase(report)


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise DeclarationError(f"--keys-from {path}: {why}", hint="a text file in UTF-8, one key a line") from error
    return [line for line in text.splitlines() if line.strip()]
