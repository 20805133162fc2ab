"""Begin, load and validate declarations, and examine the machine they are for."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from frazil.testing.sample_files import SampleFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.recover.catalog import Setback
    from frazil.recover.doctor import Diagnosis
    from frazil.sources.dms.discover import Discovered
    from frazil.spec import Pipeline
    from frazil.spec.sql.select import Selection
    from frazil.testing.generate import Generated

    Declaration: TypeAlias = Pipeline | Path | str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProject:
    """A project that was begun: its declaration, and the tables that were discovered at its source, if it has one."""

    declaration: Path
    discovered: tuple[Discovered, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleProject:
    """Files that were generated, and the declaration for them."""

    declaration: Path
    files: Generated


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """A declaration without mistakes; ``warnings`` are sentences on what this machine lacks for it."""

    pipeline: Pipeline
    warnings: tuple[str, ...]


def init(folder: Path | str, *, source: Path | str | None = None) -> NewProject:
    """Write a project that runs: a declaration, and sample files unless a landing folder is given.

    Args:
        folder: the project's folder; made if it is not there.
        source: a landing folder with files of Amazon DMS, or its address in an object store, which is reached as the
            environment says: its tables are declared as found. Or a file, which is a data contract of the Open Data
            Contract Standard: its objects are declared.

    Returns:
        The declaration's path, and what was found at the source.

    Raises:
        FileExistsAlreadyError: the folder has a declaration.
        SourceError: the landing folder is not there, or holds no files of a known kind.
        ObjectStoreError: the store of the landing folder refuses to list or to read.
        NoContractError: the file is no data contract.

    Cost: reads samples of the source's files.
    """
    from frazil.spec.load.project import new_declaration, write_declaration

    project = Path(folder)
    file = new_declaration(project)
    if source is None:
        files = SampleFiles(rows=1_000, batches=2, changes=100)
        _generate(file, project / "landing" / "orders", "./landing/orders", files)
        return NewProject(declaration=file)
    name = project.resolve().name.lower().replace("-", "_").replace(" ", "_") or "lake"
    if Path(source).is_file():
        from frazil.interop.from_odcs import contract_declaration

        write_declaration(file, contract_declaration(Path(source), name))
        return NewProject(declaration=file)
    from frazil.sources.dms.declaration import dms_declaration
    from frazil.sources.dms.discover import discover
    from frazil.spec.model.stores import is_store

    landing = f"{source}"
    found = discover(landing if is_store(landing) else f"{Path(landing).resolve()}")
    write_declaration(file, dms_declaration(name, project.resolve(), found))
    return NewProject(declaration=file, discovered=tuple(found))


def generate(folder: Path | str, files: SampleFiles | None = None) -> SampleProject:
    """Write files of Amazon DMS, the same for the same settings, and beside their folder a declaration for them."""
    from frazil.spec.load.project import new_declaration

    landing = Path(folder)
    file = new_declaration(landing.resolve().parent, landing)
    made = _generate(file, landing, f"./{landing.resolve().name}", files or SampleFiles())
    return SampleProject(declaration=file, files=made)


def _generate(file: Path, landing: Path, path: str, files: SampleFiles) -> Generated:
    from frazil.spec.load.project import write_declaration
    from frazil.testing.generate import generate, sample_declaration

    made = generate(landing, files)
    write_declaration(file, sample_declaration(path))
    return made


def load(declaration: Declaration) -> Pipeline:
    """Return the pipeline that a path declares; a pipeline as it is."""
    if not isinstance(declaration, Path | str):
        return declaration
    from frazil.spec.load.parse import load as read

    return read(declaration)


def validate(declaration: Declaration) -> Validation:
    """Find every mistake of a declaration at once, with the headers of the files that wait; starts no JVM.

    Raises:
        DeclarationProblems: all mistakes.
    """
    from frazil.catalog.clients import CLIENTS_HINT, missing_client
    from frazil.errors import DeclarationProblems
    from frazil.plan.names import name_problems
    from frazil.serve.schema import known_sources
    from frazil.spec.check.check import check as check_declaration

    pipeline = load(declaration)
    check_declaration(pipeline)
    contracts, problems = known_sources(pipeline)
    if problems := [*problems, *name_problems(pipeline, contracts)]:
        raise DeclarationProblems(str(problem) for problem in problems)
    missing = missing_client(pipeline.lake.catalog)
    return Validation(pipeline=pipeline, warnings=(f"catalog: {missing}; {CLIENTS_HINT}",) if missing else ())


def doctor(declaration: Declaration | None = None) -> tuple[Diagnosis, ...]:
    """Examine Java, jars, memory and disk; and warehouse, catalog and folders of a declaration, if there is one."""
    from frazil.recover.doctor import diagnose

    if isinstance(declaration, Path | str):
        path = Path(declaration)
        file = path / "frazil.yml" if path.is_dir() else path
        declaration = file if file.exists() else None
    return tuple(diagnose(None if declaration is None else load(declaration)))


def repair_plan(declaration: Declaration) -> tuple[Setback, ...]:
    """Return what :func:`repair` would do; changes nothing."""
    from frazil.recover.catalog import setbacks

    return tuple(setbacks(load(declaration)))


def repair(declaration: Declaration) -> tuple[str, ...]:
    """Let the catalog name the newest version of each table whose files are all there; return the tables that were set.

    Makes a catalog that is lost or damaged again. After a power cut, or where files were lost, tables go back, and the
    next run takes again what came after: :func:`repair_plan` tells.
    """
    from frazil.recover.catalog import repair_catalog

    return tuple(repair_catalog(load(declaration), dt.datetime.now(dt.UTC)))


def selection(declaration: Declaration, select: Sequence[str] = ()) -> Selection:
    """Return the source tables and aggregates that words mean, as every command with ``--select`` takes them."""
    from frazil.spec.sql.select import selected

    return selected(load(declaration), select)


def audit_trigger(log: str, tables: Sequence[str], *, rows: bool = False) -> str:
    """Return SQL that makes an audit log in PostgreSQL 14 or newer, and lets tables write to it.

    Args:
        log: the log, as ``schema.table``.
        tables: the tables, each as ``schema.table``.
        rows: rows that a table has before it gets the trigger are written to the log too, as inserts.
    """
    from frazil.sources.audit_log.trigger import audit_trigger as write

    return write(log, tables, rows=rows)
