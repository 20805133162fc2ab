"""Command that removes personal data for good: ``erase``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frazil import api
from frazil.cli.console import as_value, confirm, error_exit, grid, out, print_json
from frazil.cli.options import AsJson, OneTable, Verbose, Where, Yes, local, one_of
from frazil.cli.progress import Progress
from frazil.errors import DeclarationError
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.erase.report import ErasedLayer, EraseProof, EraseReport, TreatReport
    from frazil.spec import Pipeline


def erase(
    path: Where = Path(),
    *,
    one_table: OneTable = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", "-k", help="A key; several columns as a JSON object by name. May be repeated."),
    ] = None,
    keys_from: Annotated[
        Path | None, typer.Option("--keys-from", parser=local, metavar="FILE", help="A file of keys, one a line.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", "-w", help="A condition over silver's columns; selects the keys of matching changes."),
    ] = None,
    unblock: Annotated[
        bool, typer.Option("--unblock", help="Accept records of erased keys again; erases nothing.")
    ] = False,
    pii: Annotated[
        bool,
        typer.Option("--pii", help="Replace values in the lake of columns that got pii after their files were read."),
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Erase keys from every layer, old snapshot and file, and prove that none is left.

    What would be removed is shown first.

    Example: frazil erase my_lake --select orders --key 1006
    """
    table = one_of(one_table)
    if not (key or keys_from or where or pii):
        raise typer.BadParameter("name the keys: --key, --keys-from or --where")
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        keys = [*(key or ()), *(_lines(keys_from) if keys_from else ())]
        api.erase_keys(pipeline, table, keys)  # a wrong one is refused before Spark starts
        if pii:
            if keys or where is not None or unblock:
                raise DeclarationError(
                    "--pii cannot be combined with keys or a condition", hint="erase keys in a command of their own"
                )
            _treat(pipeline, table, yes=yes, as_json=as_json, verbose=verbose)
            return
        with Progress(quiet=as_json, first="start Spark"):
            spark = api.session(pipeline, verbose=verbose)
        asked: dict[str, Any] = {"keys": keys, "where": where, "spark": spark}
        if unblock:
            if not yes:
                confirm(pipeline, "Accept records of these keys again?", "nothing was unblocked")
            count = api.unblock(pipeline, table, **asked)
            print_json({"unblocked": count}) if as_json else out.print(f"{counted(count, 'key')} unblocked")
            return
        if not yes:
            if not as_json:
                with Progress(first="search every layer for the keys"):
                    preview = api.erase_preview(pipeline, table, **asked)
                show_erase(preview)
            confirm(pipeline, "Erase? It cannot be undone, not even by a rollback.", "nothing was erased")
        _erase(pipeline, table, asked, as_json=as_json)


def _treat(pipeline: Pipeline, table: str, *, yes: bool, as_json: bool, verbose: bool) -> None:
    from frazil.erase.report import ValuesLeftError  # noqa: PLC0415 - most commands end without

    with Progress(quiet=as_json, first="start Spark"):
        spark = api.session(pipeline, verbose=verbose)
    if not yes:
        if not as_json:
            with Progress(first="count the values"):
                preview = api.treat_preview(pipeline, table, spark=spark)
            show_treat(preview)
        confirm(pipeline, "Replace them? It cannot be undone, not even by a rollback.", "nothing was replaced")
    try:
        with Progress(quiet=as_json, first=None) as progress:
            report = api.treat(pipeline, table, spark=spark, tell=progress.step)
    except ValuesLeftError as error:
        if not as_json:
            show_treat(error.report)
            raise
        print_json(asdict(error.report) | as_value(error))
        raise typer.Exit(error.exit_code) from None
    print_json(asdict(report)) if as_json else show_treat(report)


def _erase(pipeline: Pipeline, table: str, asked: dict[str, Any], *, as_json: bool) -> None:
    from frazil.erase.report import OccurrencesLeftError  # noqa: PLC0415 - most commands end without

    try:
        with Progress(quiet=as_json, first=None) as progress:
            report = api.erase(pipeline, table, **asked, tell=progress.step)
    except OccurrencesLeftError as error:
        if not as_json:
            show_erase(error.report)
            raise
        # The report has all places; the message has only the first ones.
        print_json(asdict(error.report) | as_value(error))
        raise typer.Exit(error.exit_code) from None
    print_json(asdict(report)) if as_json else show_erase(report)


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise DeclarationError(f"--keys-from {path}: {why}", hint="a text file in UTF-8, one key a line") from error
    return [line for line in text.splitlines() if line.strip()]


_FILES_SHOWN = 10


def show_erase(report: EraseReport) -> None:
    """Print what would be or was erased, table by table, then the files that remain and the proof."""
    _show_layers(report.layers)
    verb = "to erase" if report.proof is None else "erased"
    out.print(f"{report.table}: {counted(report.subjects, 'key')} {verb}", markup=False)
    if report.resumed:
        ended = "will be finished" if report.proof is None else "was finished"
        out.print(f"an earlier erase that was killed {ended} as well", markup=False)
    for files, done in ((report.rewritten, "rewritten without these keys"), (report.removed, "removed")):
        if files:
            verb = "" if report.proof else "to be "
            out.print(f"{counted(len(files), 'landing file')} of Frazil's own {verb}{done}:", markup=False)
            _show_files(files)
    if report.files:
        those = counted(len(report.files), "file at the source holds", "files at the source hold")
        stays = "stays as it is" if len(report.files) == 1 else "stay as they are"
        out.print(f"{those} records of these keys, and {stays}:", markup=False)
        _show_files(report.files)
    if report.unseen:
        could = counted(len(report.unseen), "file at the source", "files at the source")
        out.print(f"{could} could not be looked at, and may hold records of these keys:", markup=False)
        _show_files(report.unseen)
    if report.folded:
        have = counted(len(report.folded), "file at the source has", "files at the source have")
        out.print(f"{have} records that retention folded, and may hold records of these keys:", markup=False)
        _show_files(report.folded)
    if report.proof is not None:
        _show_proof(report.proof)
    if report.receipt:
        out.print(f"receipt: {report.receipt}", markup=False)


def show_treat(report: TreatReport) -> None:
    """Print which values of columns with ``pii`` would be or were replaced, table by table, then the proof."""
    _show_layers(report.layers)
    fields = ", ".join(f"{name} ({way})" for name, way in report.fields.items())
    if fields:
        verb = "replaced" if report.done else "to be replaced"
        out.print(f"{report.table}: the values of {fields} {verb}", markup=False)
    if report.resumed:
        out.print(f"an earlier replacement {'was' if report.done else 'will be'} finished", markup=False)
    out.print("files at the source, and landing files, are not changed", markup=False)
    if not report.done:
        return
    looked = f"{counted(report.rows, 'row')} and {counted(report.files, 'file')}"
    if not report.found:
        out.print(f"searched {looked}: no value is left", markup=False)
        return
    out.print(f"searched {looked}, and found values in:", markup=False)
    for place, count in report.found:
        out.print(f"  {place}: {count:,}", markup=False)


def _show_layers(layers: Sequence[ErasedLayer]) -> None:
    names = ["table", "rows", "snapshots", "branches and tags"]
    rows = [
        [
            layer.table,
            "computed again" if layer.rows is None else layer.rows,
            layer.snapshots,
            ", ".join(layer.refs) or "none",
        ]
        for layer in layers
    ]
    grid(None, names, rows, right={"rows", "snapshots"})


def _show_proof(proof: EraseProof) -> None:
    looked = f"{counted(proof.rows, 'row')} and {counted(proof.files, 'file')}"
    if proof.is_clean:
        out.print(f"searched {looked}: no key is left", markup=False)
    else:
        out.print(f"searched {looked}, and found erased keys in:", markup=False)
        for place, count in proof.found:
            out.print(f"  {place}: {count:,}", markup=False)
    if proof.by_hash:
        keys = counted(proof.by_hash, "key")
        known = "is known by its hash" if proof.by_hash == 1 else "are known by their hashes"
        out.print(f"{keys} of the erase that was killed {known} only.", markup=False)
        out.print("To search bad records, other columns and bytes for them, erase them again.", markup=False)


def _show_files(files: Sequence[str]) -> None:
    for file in files[:_FILES_SHOWN]:
        out.print(f"  {file}", markup=False)
    if len(files) > _FILES_SHOWN:
        out.print(f"  and {len(files) - _FILES_SHOWN:,} more", markup=False)
