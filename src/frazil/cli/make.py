"""Commands around a declaration: init, generate, validate, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from frazil.cli import show
from frazil.cli.console import out, print_json, told
from frazil.cli.options import AsJson, Verbose, Where
from frazil.errors import DeclarationError


class FileExistsAlreadyError(DeclarationError):
    """A command would write over a file of the user's."""

    code = "FZ105"


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
        if target.exists():
            raise FileExistsAlreadyError(f"{target} is there already", hint="choose another folder, or move it away")
        folder.mkdir(parents=True, exist_ok=True)
        name = folder.resolve().name.lower().replace("-", "_").replace(" ", "_") or "lake"
        if source is None:
            from frazil.testing.generate import declaration, generate  # noqa: PLC0415

            generate(folder / "landing" / "orders", rows=1_000, batches=2, changes=100, seed=1)
            target.write_text(declaration("./landing/orders"), encoding="utf-8")
        else:
            from frazil.sources.declaration import declaration as declare  # noqa: PLC0415
            from frazil.sources.discover import discover  # noqa: PLC0415

            found = discover(source.resolve())
            target.write_text(declare(name, folder.resolve(), found), encoding="utf-8")
            rows = [[table.name, table.format, ", ".join(table.keys), ", ".join(table.sequence_by)] for table in found]
            show.grid(
                "found, look it through before the first run",
                ["table", "format", "keys", "sequence_by"],
                rows,
            )
        out.print(f"wrote {target}", markup=False)
        out.print(f"next: frazil validate {folder}\n      frazil run {folder}", markup=False)


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
    """Write DMS files of any size and nastiness, the same for the same seed."""
    with told(as_json=as_json, verbose=verbose):
        from dataclasses import asdict  # noqa: PLC0415

        from frazil.testing.generate import declaration  # noqa: PLC0415
        from frazil.testing.generate import generate as write  # noqa: PLC0415

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
        if as_json:
            print_json(asdict(made))
            return
        out.print(
            f"{rows} rows and {batches} x {changes} changes in {folder}; a declaration for them:\n",
            markup=False,
        )
        out.print(declaration(str(folder)), markup=False)


def validate(path: Where = Path(), *, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Find every mistake of a declaration at once; reads nothing else and starts no JVM."""
    with told(as_json=as_json, verbose=verbose):
        from frazil.spec.parse import load  # noqa: PLC0415

        pipeline = load(path)
        if as_json:
            print_json(
                {
                    "pipeline": pipeline.pipeline,
                    "tables": [table.name for table in pipeline.tables],
                    "problems": [],
                }
            )
            return
        marts = sum(len(table.marts) for table in pipeline.tables)
        out.print(
            f"{pipeline.pipeline}: {len(pipeline.tables)} tables, {marts} marts, {len(pipeline.gold)} aggregates, "
            "no problems",
            style="green",
            markup=False,
        )


def doctor(path: Where = Path(), *, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Look at Java, jars, memory, disk, catalog and folders: what is wrong, and how to mend it."""
    with told(as_json=as_json, verbose=verbose):
        from dataclasses import asdict  # noqa: PLC0415

        from frazil.lake.doctor import examine  # noqa: PLC0415
        from frazil.spec.parse import load  # noqa: PLC0415

        is_project = (path / "frazil.yml").exists() if path.is_dir() else path.exists()
        findings = examine(load(path) if is_project else None)
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


COMMANDS = {"init": init, "generate": generate, "validate": validate, "doctor": doctor}
