"""Create, load and validate declarations, and examine the machine."""

from __future__ import annotations

import datetime as dt
import warnings
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, TypeAlias, TypeVar

from frazil.errors import DeclarationError, FrazilWarning
from frazil.testing.sample_files import SampleFiles

if TYPE_CHECKING:
    from collections.abc import Callable


_Given = ParamSpec("_Given")
_Returned = TypeVar("_Returned")


def needs_spark(function: Callable[_Given, _Returned]) -> Callable[_Given, _Returned]:
    """Return a function that raises a :class:`frazil.errors.SparkMissingError` where it cannot import PySpark."""

    @wraps(function)
    def called(*args: _Given.args, **named: _Given.kwargs) -> _Returned:
        try:
            return function(*args, **named)
        except ModuleNotFoundError as error:
            from frazil.catalog.trouble import translate_error

            if (known := translate_error(error)) is None:
                raise
            raise known from error

    return called


if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.recover.doctor import Diagnosis
    from frazil.recover.setbacks import Setback
    from frazil.sources.capture import Looked
    from frazil.sources.dms.discover import Discovered
    from frazil.sources.postgres.database.discover import FoundTable
    from frazil.spec import Pipeline
    from frazil.spec.sql.select import Selection, Words
    from frazil.testing.generate import Generated

    Declaration: TypeAlias = Pipeline | Path | str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProject:
    """A new project.

    Attributes:
        declaration: path of the declaration.
        discovered: tables that were declared from files.
        found: tables that were declared from a database.
        without_key: tables of the database that were left out, because no key was found.
        variable: environment variable that must hold the address of the database; None if the declaration has it.
        needs: what the server of the database still lacks, each with a command.
        files: the sample files; None with a source.
    """

    declaration: Path
    discovered: tuple[Discovered, ...] = ()
    found: tuple[FoundTable, ...] = ()
    without_key: tuple[FoundTable, ...] = ()
    variable: str | None = None
    needs: tuple[Looked, ...] = ()
    files: Generated | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleProject:
    """Generated sample files, and the path of their declaration."""

    declaration: Path
    files: Generated


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """A declaration without mistakes; ``warnings`` name what this machine lacks for it."""

    pipeline: Pipeline
    warnings: tuple[str, ...]


SMALL_SAMPLE: Final = SampleFiles(rows=1_000, batches=2, changes=100)
"""Sample files of a new project."""


def init(
    folder: Path | str, *, source: Path | str | None = None, tables: Words = (), sample: SampleFiles = SMALL_SAMPLE
) -> NewProject:
    """Create a project: a declaration, and sample files of Amazon DMS if no source is given.

    Args:
        folder: the project's folder; created if it does not exist.
        source: a landing folder with files of Amazon DMS, whose tables are declared, as a path or an address in an
            object store (with credentials from the environment). Or a file with a data contract of the Open Data
            Contract Standard, whose objects are declared. Or the address of a PostgreSQL database, or a reference to it
            (``${env:SHOP_DB}``); the declaration never has its password.
        tables: with a database: names or patterns of the tables to declare; empty for all that have a key.
        sample: size and content of the sample files; equal settings write equal bytes.

    Returns:
        The declaration's path, the tables found at the source, and what its server still lacks; or the sample files.

    Raises:
        FileExistsAlreadyError: the folder has a declaration already.
        SourceError: the landing folder does not exist, or has no files of a known kind.
        ObjectStoreError: the store of the landing folder refuses requests.
        NoContractError: the file is not a data contract.
        ServerError: the database does not answer.
        UnknownTableError: the database has none of the tables.
        DeclarationError: ``tables`` without a database, or an address of another kind.

    Cost: reads samples of the source's files, or the catalog of the database.
    """
    from frazil.spec.load.project import new_declaration, write_declaration

    project = Path(folder)
    of_server = _is_of_server("" if source is None else f"{source}", tables)
    file = new_declaration(project)
    if of_server:
        from frazil.spec.sql.select import words

        return _init_from_server(file, f"{source}", words(tables))
    if source is None:
        made = _generate(file, project / "landing" / "orders", "./landing/orders", sample)
        return NewProject(declaration=file, files=made)
    name = _name_of(project)
    if Path(source).is_file():
        from frazil.interop.odcs import contract_declaration

        write_declaration(file, contract_declaration(Path(source), name))
        return NewProject(declaration=file)
    from frazil.sources.dms.declaration import dms_declaration
    from frazil.sources.dms.discover import discover
    from frazil.spec.model.stores import is_store

    landing = f"{source}"
    found = discover(landing if is_store(landing) else f"{Path(landing).resolve()}")
    write_declaration(file, dms_declaration(name, project.resolve(), found))
    return NewProject(declaration=file, discovered=tuple(found))


def _is_of_server(source: str, tables: Words) -> bool:
    """Return whether a source is a database.

    Raises:
        DeclarationError: it is none, and tables are chosen in it; or it is an address of another kind.
    """
    from frazil.sources.postgres.declaration import is_server
    from frazil.spec.model.stores import is_store

    of_server = is_server(source)
    if tables and not of_server:
        raise DeclarationError("tables are chosen in a database only", hint="--from postgresql://… --tables orders")
    if "://" in source and not of_server and not is_store(source):
        raise DeclarationError(
            f"a project cannot be made from {source.partition('://')[0]}://…",
            hint="give a folder, a bucket such as s3://…, a data contract, or postgresql://…; "
            "changes of other databases come by Debezium or Amazon DMS",
        )
    return of_server


def server_tables(source: str) -> tuple[FoundTable, ...]:
    """Return the tables of a PostgreSQL database that can be declared.

    Args:
        source: address of the database, or a reference to it.

    Raises:
        ServerError: the database does not answer.
        UnknownTableError: the database has no table.

    Cost: reads the catalog of the database.
    """
    from frazil.sources.postgres.declaration import server_tables as found

    return tuple(found(source, Path()))


def _init_from_server(file: Path, source: str, wanted: tuple[str, ...]) -> NewProject:
    from frazil.sources.postgres.declaration import examined, postgres_declaration, server_tables, variable_of
    from frazil.spec.load.project import write_declaration

    found = server_tables(source, file.parent, wanted)
    chosen = [table for table in found if table.keys or wanted]
    if not chosen:
        raise DeclarationError(
            f"no table of the database has a key: {', '.join(table.full_name for table in found)}",
            hint="add primary keys; or name the tables with --tables, and write keys into the declaration",
        )
    write_declaration(file, postgres_declaration(_name_of(file.parent), source, chosen))
    return NewProject(
        declaration=file,
        found=tuple(chosen),
        without_key=tuple(table for table in found if table not in chosen),
        variable=variable_of(source),
        needs=examined(source, load(file)) if all(table.keys for table in chosen) else (),
    )


def _name_of(project: Path) -> str:
    return project.resolve().name.lower().replace("-", "_").replace(" ", "_") or "lake"


def generate(folder: Path | str, files: SampleFiles | None = None) -> SampleProject:
    """Write sample files, and a declaration beside their folder. Deprecated: call :func:`init` with ``sample``."""
    from frazil.spec.load.project import new_declaration

    message = "frazil.api.generate is now frazil.api.init(…, sample=…); the old form works in this version only"
    warnings.warn(message, FrazilWarning, stacklevel=2)
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
    """Return the pipeline of a declaration file; a pipeline is returned unchanged."""
    if not isinstance(declaration, Path | str):
        return declaration
    from frazil.spec.load.parse import load as read

    return read(declaration)


def validate(declaration: Declaration) -> Validation:
    """Report every mistake of a declaration at once; reads the headers of the source's files, and starts no JVM.

    Raises:
        DeclarationProblems: the declaration has mistakes; the error lists all of them.
    """
    from frazil.catalog.catalogs import CLIENTS_HINT, missing_client
    from frazil.errors import DeclarationProblems
    from frazil.plan.checks import name_problems
    from frazil.serve.schema import known_sources
    from frazil.spec.check.check import check_declaration

    pipeline = load(declaration)
    check_declaration(pipeline)
    contracts, problems = known_sources(pipeline)
    if problems := [*problems, *name_problems(pipeline, contracts)]:
        raise DeclarationProblems(str(problem) for problem in problems)
    missing = missing_client(pipeline.lake.catalog)
    found = [f"catalog: {missing}; {CLIENTS_HINT}"] if missing else []
    return Validation(pipeline=pipeline, warnings=(*found, *_never_verified(pipeline)))


def _never_verified(pipeline: Pipeline) -> Iterator[str]:
    """Yield a warning about the tables that ``verify`` does not compare."""
    from frazil.sources.kinds import rows_at_source
    from frazil.spec.amount import counted

    left = [table.name for table in pipeline.tables if rows_at_source(table) is None]
    if pipeline.verify is not None and left:
        yield (
            f"verify: {counted(len(left), 'table is', 'tables are')} not compared, because the source has no rows to "
            f"read: {', '.join(left)}; frazil check --against DUMP compares with a copy"
        )


def doctor(declaration: Declaration | None = None, *, notify: bool = False) -> tuple[Diagnosis, ...]:
    """Examine Java, jars, memory and disk, and the warehouse, catalog and folders of a declaration if one is given.

    Args:
        declaration: a pipeline, the path of its declaration, or None.
        notify: send every receiver under ``notify`` a test message.
    """
    from frazil.recover.doctor import Diagnosis, diagnose

    if isinstance(declaration, Path | str):
        path = Path(declaration)
        file = path / "frazil.yml" if path.is_dir() else path
        declaration = file if file.exists() else None
    pipeline = None if declaration is None else load(declaration)
    found = diagnose(pipeline)
    if pipeline is not None and notify:
        from frazil.interop.notify.notify import trial

        for name, trouble in trial(pipeline):
            hint = None if trouble is None else "check the address and the login of the receiver"
            detail = trouble or "took a test message"
            found.append(Diagnosis(what=name, ok=trouble is None, detail=detail, hint=hint))
    return tuple(found)


def repair_plan(declaration: Declaration) -> tuple[Setback, ...]:
    """Return the tables that :func:`repair` would set back; change nothing."""
    from frazil.recover.setbacks import setbacks

    return tuple(setbacks(load(declaration)))


@needs_spark
def repair(declaration: Declaration) -> tuple[str, ...]:
    """Register each table in the catalog at its newest complete version; return the tables that were registered.

    A lost or damaged catalog is created again. After a power cut or a loss of files, tables go back to an older
    version, and the next run ingests the later files again. :func:`repair_plan` lists these tables.
    """
    from frazil.recover.catalog import repair_catalog

    return tuple(repair_catalog(load(declaration), dt.datetime.now(dt.UTC)))


def selection(declaration: Declaration, select: Words = ()) -> Selection:
    """Return the source tables and aggregates that the words of ``--select`` name."""
    from frazil.spec.sql.select import selected

    return selected(load(declaration), select)


def audit_trigger(log: str, tables: Words, *, rows: bool = False) -> str:
    """Return SQL that creates an audit log in PostgreSQL 14 or newer, with triggers on tables that write to it.

    Args:
        log: the log table, as ``schema.table``.
        tables: the logged tables, each as ``schema.table``.
        rows: also write the existing rows of the tables to the log, as inserts.
    """
    from frazil.sources.audit_log.database import audit_trigger as write
    from frazil.spec.sql.select import words

    return write(log, words(tables), rows=rows)
