"""Commands around a declaration: init, generate, validate, doctor."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli import show
from frazil.cli.console import out, print_json, told
from frazil.cli.options import AsJson, Verbose, Where
from frazil.errors import DeclarationError
from frazil.spec.amount import counted


class FileExistsAlreadyError(DeclarationError):
    """A command would write over a file of the user's."""

    code = "FZ105"


if TYPE_CHECKING:
    from frazil.spec import Pipeline

_SCHEMA = ".frazil.schema.json"
_SCHEMA_LINE = f"# yaml-language-server: $schema=./{_SCHEMA}\n"
"""Tells an editor where the schema is: beside the declaration, so that it works offline and in any clone."""


def init(
    folder: Annotated[Path, typer.Argument(help="Folder of the new project.")] = Path(),
    *,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="A landing folder with DMS files: its tables are declared as found."),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Write a project that runs: a declaration, and sample files unless --from names real ones."""
    with told(verbose=verbose):
        target = folder / "frazil.yml"
        _refuse_to_replace(target)
        _make_folder(folder)
        _write_schema(folder)
        name = folder.resolve().name.lower().replace("-", "_").replace(" ", "_") or "lake"
        if source is None:
            from frazil.testing.generate import declaration, generate  # noqa: PLC0415

            generate(folder / "landing" / "orders", rows=1_000, batches=2, changes=100, seed=1)
            target.write_text(_SCHEMA_LINE + declaration("./landing/orders"), encoding="utf-8")
        else:
            from frazil.sources.declaration import declaration as declare  # noqa: PLC0415
            from frazil.sources.discover import discover  # noqa: PLC0415

            found = discover(source.resolve())
            target.write_text(_SCHEMA_LINE + declare(name, folder.resolve(), found), encoding="utf-8")
            rows = [[table.name, table.format, ", ".join(table.keys), ", ".join(table.sequence_by)] for table in found]
            show.grid(
                "found, look it through before the first run",
                ["table", "format", "keys", "sequence_by"],
                rows,
            )
        out.print(f"wrote {target}", markup=False)
        out.print(f"next: frazil validate {folder}\n      frazil run {folder}", markup=False)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DeclarationError(
            f"cannot make the folder {folder}: {error.strerror}", hint="choose another folder"
        ) from error


def generate(
    folder: Annotated[Path, typer.Argument(help="Folder the files go to; made if it is not there.")],
    *,
    rows: Annotated[int, typer.Option(help="Rows of the full load.")] = 10_000,
    batches: Annotated[int, typer.Option(help="Number of change files.")] = 3,
    changes: Annotated[int, typer.Option(help="Changes in each of them.")] = 1_000,
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 1,
    keys: Annotated[str, typer.Option(help="mixed, recent, uniform or hot.")] = "mixed",
    late: Annotated[float, typer.Option(help="Share of changes older than the batch before.")] = 0.0,
    duplicates: Annotated[float, typer.Option(help="Share of repeated records.")] = 0.03,
    parts: Annotated[int, typer.Option(help="Number of full load files.")] = 1,
    nasty: Annotated[bool, typer.Option("--nasty", help="Add records that cannot be read, typed or keyed.")] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Write DMS files of any size and nastiness, the same for the same seed, and beside their folder a declaration."""
    with told(as_json=as_json, verbose=verbose):
        from dataclasses import asdict  # noqa: PLC0415

        from frazil.testing.generate import declaration  # noqa: PLC0415
        from frazil.testing.generate import generate as write  # noqa: PLC0415

        project = folder.resolve().parent
        target = project / "frazil.yml"
        _refuse_to_replace(target)
        _make_folder(folder)
        made = write(
            folder,
            rows=rows,
            batches=batches,
            changes=changes,
            seed=seed,
            keys=keys,  # type: ignore[arg-type]
            late=late,
            duplicates=duplicates,
            nasty=nasty,
            parts=parts,
        )
        _write_schema(project)
        target.write_text(_SCHEMA_LINE + declaration(f"./{folder.resolve().name}"), encoding="utf-8")
        if as_json:
            print_json({**asdict(made), "declaration": target})
            return
        files = counted(len(made.load) + len(made.batches), "file")
        changed = counted(batches * changes, "change")
        out.print(f"wrote {files} with {counted(rows, 'row')} and {changed} to {folder}", markup=False)
        shown = folder.parent
        out.print(f"wrote {shown / 'frazil.yml'}\nnext: frazil run {shown}", markup=False)


def validate(path: Where = Path(), *, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Find every mistake of a declaration at once; looks at the headers of the files and starts no JVM."""
    with told(as_json=as_json, verbose=verbose):
        from frazil.lake.catalog_clients import CLIENTS_HINT, missing_client  # noqa: PLC0415
        from frazil.plan.names import check_names  # noqa: PLC0415
        from frazil.serve.fields import source_fields  # noqa: PLC0415
        from frazil.spec.amount import counted  # noqa: PLC0415
        from frazil.spec.parse import load  # noqa: PLC0415

        pipeline = load(path)
        check_names(pipeline, source_fields(pipeline))
        missing = missing_client(pipeline.lake.catalog)
        if as_json:
            print_json(
                {
                    "pipeline": pipeline.pipeline,
                    "tables": [table.name for table in pipeline.tables],
                    "problems": [],
                    "warnings": [f"catalog: {missing}; {CLIENTS_HINT}"] if missing else [],
                }
            )
            return
        marts = sum(len(table.marts) for table in pipeline.tables)
        out.print(
            f"{pipeline.pipeline}: {counted(len(pipeline.tables), 'table')}, {counted(marts, 'mart')}, "
            f"{counted(len(pipeline.gold), 'aggregate')}, no problems",
            style="green",
            markup=False,
        )
        if missing:
            out.print(f"catalog: {missing}; {CLIENTS_HINT}", style="yellow", markup=False)


def _refuse_to_replace(target: Path) -> None:
    if target.exists():
        raise FileExistsAlreadyError(f"{target} is there already", hint="choose another folder, or move it away")


def _write_schema(folder: Path) -> None:
    """Write the schema of declarations where the first line of the one in this folder refers to."""
    from frazil.spec.schema import schema_text  # noqa: PLC0415

    (folder / _SCHEMA).write_text(schema_text(), encoding="utf-8")


def doctor(
    path: Where = Path(),
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Make a lost, damaged or older catalog again from the warehouse.")
    ] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Look at Java, jars, memory, disk, catalog and folders: what is wrong, and how to fix it."""
    with told(as_json=as_json, verbose=verbose):
        from dataclasses import asdict  # noqa: PLC0415

        from frazil.lake.doctor import examine  # noqa: PLC0415
        from frazil.spec.parse import load  # noqa: PLC0415

        is_project = (path / "frazil.yml").exists() if path.is_dir() else path.exists()
        pipeline = load(path) if is_project or repair else None
        if repair and pipeline is not None:
            _repair(pipeline, quiet=as_json)
        findings = examine(pipeline)
        if as_json:
            print_json([asdict(finding) for finding in findings])
        else:
            signs = {True: "ok", False: "WRONG", None: "?"}
            rows = [[signs[finding.ok], finding.what, finding.detail] for finding in findings]
            show.grid(None, ["", "what", "found"], rows)
            for finding in findings:
                if finding.hint and not finding.ok:
                    out.print(f"{finding.what}: {finding.hint}", style="yellow", markup=False)
        if any(finding.ok is False for finding in findings):
            raise typer.Exit(2)


def _repair(pipeline: Pipeline, *, quiet: bool) -> None:
    from frazil.engine.register import repair_catalog  # noqa: PLC0415

    registered = repair_catalog(pipeline, dt.datetime.now(dt.UTC))
    if not quiet:
        for name in registered:
            out.print(f"registered {name}", markup=False)
        out.print("the catalog knows all tables of the warehouse", style="green", markup=False)


COMMANDS = {"init": init, "generate": generate, "validate": validate, "doctor": doctor}
