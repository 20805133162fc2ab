"""Commands to start with: ``init``, ``validate`` and ``doctor``."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from warnings import catch_warnings, simplefilter

import typer

from frazil import api
from frazil.cli.console import confirm, error_exit, grid, out, print_json, runnable
from frazil.cli.options import AsJson, Verbose, Where, Yes, local
from frazil.errors import SetupError
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.api import NewProject, SampleFiles
    from frazil.recover.setbacks import Setback
    from frazil.sources.dms.discover import Discovered
    from frazil.sources.postgres.database.discover import FoundTable


_COLUMNS_SHOWN = 8
_SERVERS = ("postgresql://", "postgres://", "${")


def _size(text: str, *names: str) -> Any:
    return typer.Option(*names, rich_help_panel="Sample files", help=text)


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
    sample: Annotated[
        bool, typer.Option("--sample", help="Write sample files and declare their table. The default without --from.")
    ] = False,
    rows: Annotated[int | None, _size("Rows of the full load; default 1,000.")] = None,
    batches: Annotated[int | None, _size("Number of change files; default 2.")] = None,
    changes: Annotated[int | None, _size("Changes in each change file; default 100.")] = None,
    seed: Annotated[int | None, _size("The same seed writes the same bytes; default 1.")] = None,
    keys: Annotated[str | None, _size("Which keys change: mixed (default), recent, uniform or hot.")] = None,
    late: Annotated[float | None, _size("Share of changes older than the batch before; default 0.")] = None,
    duplicates: Annotated[float | None, _size("Share of repeated records; default 0.03.")] = None,
    parts: Annotated[int | None, _size("Number of full load files; default 1.")] = None,
    nasty: Annotated[bool | None, _size("Add records that cannot be read, typed or keyed.", "--nasty")] = None,
    old_generate: Annotated[bool, typer.Option("--old-generate", hidden=True)] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Create a project: a declaration, and sample files unless --from names a source.

    Example: frazil init my_lake --from '${env:SHOP_DB}' --tables orders,items
    """
    asked: dict[str, Any] = {
        "rows": rows,
        "batches": batches,
        "changes": changes,
        "seed": seed,
        "keys": keys,
        "late": late,
        "duplicates": duplicates,
        "parts": parts,
        "nasty": nasty,
    }
    sizes = {name: value for name, value in asked.items() if value is not None}
    if source is not None and (sample or sizes):
        raise typer.BadParameter(f"--from declares files that are there; remove --{[*sizes, 'sample'][0]}")
    with error_exit(as_json=as_json, verbose=verbose):
        from frazil.serve.query.plain import plain  # noqa: PLC0415

        if old_generate:
            _generate(folder, api.SampleFiles(**sizes), as_json=as_json)
        else:
            files = replace(api.SMALL_SAMPLE, **sizes)
            wanted = [word for given in tables or () for word in given.split(",")]
            asks = not as_json and not wanted and (source or "").startswith(_SERVERS) and sys.stdin.isatty()
            if source is not None and asks:
                wanted = _asked(api.server_tables(source))
            begun = api.init(folder, source=source, tables=wanted, sample=files)
            if as_json:
                print_json(plain(begun))
            else:
                _show(begun, folder, files, asked=asks)


def _generate(folder: Path, files: SampleFiles, *, as_json: bool) -> None:
    """Do what ``frazil generate`` did: ``folder`` is that of the files, and the declaration is beside it."""
    with catch_warnings():
        simplefilter("ignore")  # the command has warned
        made = api.generate(folder, files)
    if as_json:
        print_json({**asdict(made.files), "declaration": made.declaration})
    else:
        _show_files(files, folder)
        out.print(f"wrote {folder.parent / 'frazil.yml'}\nnext: frazil run {folder.parent}", markup=False)


def _show(begun: NewProject, folder: Path, files: SampleFiles, *, asked: bool) -> None:
    _show_discovered(begun.discovered)
    if begun.found and not asked:
        _show_found(begun.found, "found; review before the first run")
    for table in begun.without_key:
        out.print(f"{table.full_name}: left out, {table.doubts[0]}", style="yellow", markup=False)
    if begun.files is not None:
        _show_files(files, folder / "landing" / "orders")
    out.print(f"wrote {begun.declaration}", markup=False)
    for need in begun.needs:
        out.print(f"the server: {need.detail}", style="yellow" if need.ok is None else "red", markup=False)
        if need.hint:
            out.print(f"  hint: {runnable(need.hint)}", markup=False)
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


def _show_files(files: SampleFiles, folder: Path) -> None:
    written = counted(files.parts + files.batches, "file")
    rows, changes = counted(files.rows, "row"), counted(files.batches * files.changes, "change")
    out.print(f"wrote {written} with {rows} and {changes} to {folder}", markup=False)


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


def validate(path: Where = Path(), *, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Report every mistake in a declaration at once, without starting Java.

    Example: frazil validate my_lake
    """
    with error_exit(as_json=as_json, verbose=verbose):
        valid = api.validate(path)
        pipeline = valid.pipeline
        if as_json:
            tables = [table.name for table in pipeline.tables]
            print_json({"pipeline": pipeline.pipeline, "tables": tables, "problems": [], "warnings": [*valid.warnings]})
            return
        marts = sum(len(table.marts) for table in pipeline.tables)
        out.print(
            f"{pipeline.pipeline}: {counted(len(pipeline.tables), 'table')}, {counted(marts, 'mart')}, "
            f"{counted(len(pipeline.gold), 'aggregate')}, no problems",
            style="green",
            markup=False,
        )
        for warning in valid.warnings:
            out.print(warning, style="yellow", markup=False)


_SIGNS = {True: "ok", False: "WRONG", None: "?"}


def doctor(
    path: Where = Path(),
    *,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Register each table in the catalog at its newest complete version."),
    ] = False,
    notify: Annotated[
        bool, typer.Option("--notify", help="Send a test message to every receiver under notify.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Check Java, jars, memory, disk, catalog and folders, with a fix for each problem.

    Example: frazil doctor my_lake
    """
    with error_exit(as_json=as_json, verbose=verbose):
        if repair:
            _repair(path, yes=yes, as_json=as_json)
        findings = api.doctor(path, notify=notify)
        if as_json:
            print_json([asdict(finding) for finding in findings])
        else:
            rows = [[_SIGNS[finding.ok], finding.what, finding.detail] for finding in findings]
            grid(None, ["", "what", "found"], rows)
            for finding in findings:
                if finding.hint and not finding.ok:
                    out.print(f"{finding.what}: {runnable(finding.hint)}", style="yellow", markup=False)
        if any(finding.ok is False for finding in findings):
            raise typer.Exit(SetupError.exit_code)


def _repair(path: Path, *, yes: bool, as_json: bool) -> None:
    due = api.repair_plan(path)
    back, ahead = [one for one in due if one.is_back], {one.full_name for one in due if one.is_ahead}
    if not as_json:
        for one in back:
            out.print(f"{one.full_name}: {_target(one)}", markup=False)
    if back and not yes:
        what = "The next run ingests the later changes again from the source, which must still have them."
        confirm(
            api.load(path),
            f"{what} Go back?",
            f"nothing was changed; {counted(len(back), 'table')} would have gone back",
        )
    done = api.repair(path)
    if not as_json:
        for name in sorted({*done} - {one.full_name for one in back}):
            times = ", with the present time for commits of a later one" if name in ahead else ""
            out.print(f"registered {name}{times}", markup=False)
        out.print("the catalog has all tables of the warehouse", style="green", markup=False)


def _target(one: Setback) -> str:
    if one.version is None:
        return "no version is complete; its folder is moved aside, and the next run creates it again"
    return f"back to version {one.version.number}, batch {one.batch}, the newest complete version"
