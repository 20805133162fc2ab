"""Translate errors of Java, DuckDB, SQLite and the system into Frazil errors.

An error is recognised by its type, its number or Spark's condition, anywhere along its chain of causes. Where a library
uses one type for many errors, words of its message decide, and a comment says so.
"""

from __future__ import annotations

import contextlib
import errno
import re
import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import BusyError, FrazilError, SessionError, SetupError, SparkMissingError, StorageError
from frazil.host import has_ended
from frazil.iceberg.metadata import DamagedTableError, damaged
from frazil.iceberg.snapshot import ClockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from frazil.spec import Pipeline


class DiskFullError(StorageError):
    """No room is left where the lake or Spark's scratch files are."""

    code = "FZ301"


class UnwritableLakeError(StorageError):
    """The warehouse folder cannot be written."""

    code = "FZ302"


class CatalogError(StorageError):
    """The catalog does not answer."""

    code = "FZ303"


class UnreachableError(StorageError):
    """A service or a machine that the lake depends on does not answer."""

    code = "FZ307"


class RefusedError(StorageError):
    """A service that the lake depends on refuses: it does not know the login, or the login lacks a right."""

    code = "FZ309"
    retryable = False


class OutOfMemoryError(SetupError):
    """Java or DuckDB needs more memory than it may have."""

    code = "FZ906"


class JavaEndedError(SetupError):
    """Java ended while Frazil worked with it."""

    code = "FZ907"
    retryable = True


_SQLITE: Final = ("org.sqlite.SQLiteException", "sqlite3.DatabaseError")
_SQL: Final = (*_SQLITE, "java.sql.", "org.postgresql.util.PSQLException", "org.apache.iceberg.jdbc.")
_UNREADABLE: Final = (
    "org.apache.iceberg.exceptions.NotFoundException",
    "org.apache.iceberg.exceptions.RuntimeIOException",
    "org.apache.avro.",
    "org.apache.parquet.",
    "com.fasterxml.jackson.core.",
    "java.io.FileNotFoundException",
    "java.io.EOFException",
    "java.io.UncheckedIOException",
    "java.nio.file.NoSuchFileException",
    "_duckdb.IOException",
    "_duckdb.InvalidInputException",
    "_duckdb.SerializationException",
)
_UNREACHABLE: Final = (
    "java.net.",
    "java.nio.channels.UnresolvedAddressException",
    "java.util.concurrent.TimeoutException",
    "org.apache.iceberg.exceptions.RESTException",
    "org.apache.iceberg.exceptions.ServiceFailureException",
    "org.apache.iceberg.exceptions.ServiceUnavailableException",
    "software.amazon.awssdk.",
    "org.apache.hadoop.net.ConnectTimeoutException",
    "org.apache.thrift.transport.",
)
_REFUSED: Final = (
    "org.apache.iceberg.exceptions.NotAuthorizedException",
    "org.apache.iceberg.exceptions.ForbiddenException",
)
_OVERTAKEN: Final = re.compile(
    # Iceberg has one type for all failed conditions of a commit. The second line: another run writes to this run's
    # branch, or dropped it as the branch of a killed run. The third: what this run read has expired.
    r"Cannot fast-forward|Found conflicting files|already exists and is being|Cannot commit|older than last sequence"
    r"|Cannot use branch \(does not exist\): frazil_run_|Ref does not exist: frazil_run_"
    r"|Cannot set \S+ to unknown snapshot|Cannot find snapshot with ID \d"
)
# Iceberg has no type for a clock that is behind the newest commit, nor have the servers of catalogs.
_BEHIND: Final = re.compile(r"(?i)invalid (?:\w+ )?timestamp \d+: before [^\n]*")
# DuckDB has a type for answers of an object store, but none for a store that does not answer.
_SILENT: Final = re.compile(r"error for HTTP [A-Z]+ to '")
_OURS: Final = re.compile(r"\[(FZ\d{3})\] (.+)(?:\n\s+hint: (.+))?")


def translate_error(error: BaseException, pipeline: Pipeline | None = None) -> FrazilError | None:
    """Translate an error of another library into a Frazil error; None if no rule knows it, which means a bug.

    Args:
        error: the error that was caught.
        pipeline: adds to a damaged table's hint which tables to rebuild.
    """
    if isinstance(error, DamagedTableError) and pipeline is not None:
        error.advise(pipeline)
    if isinstance(error, FrazilError):
        return error
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in {"pyspark", "py4j"}:
        return SparkMissingError()
    chain = faults(error)
    for rule in (_from_a_worker, _no_room, _no_right, _no_memory, _no_java, _no_port, _no_driver, _behind, _overtaken):
        if (known := rule(chain)) is not None:
            return known
    return _damaged(chain, pipeline) or _lost(chain) or _catalog(chain) or _refused(chain) or _unreachable(chain)


@contextmanager
def translated(pipeline: Pipeline | None = None) -> Iterator[None]:
    """Raise known errors of other libraries that leave a block as Frazil errors."""
    try:
        yield
    except Exception as error:
        known = translate_error(error, pipeline)
        if known is None or known is error:
            raise
        raise known from error


def _first(chain: list[Fault], is_it: Callable[[Fault], object]) -> str | None:
    """Return the first line of the first fault that matches; None if none does."""
    for fault in chain:
        if is_it(fault):
            return next(iter(fault.text.strip().splitlines()), "")[:300] or fault.types[0].rpartition(".")[2]
    return None


def as_frazil_error(error: Exception, pipeline: Pipeline | None = None) -> FrazilError:
    """Return any error as a Frazil error: one that :func:`translate_error` does not know is a bug, FZ000."""
    known = translate_error(error, pipeline)
    if known is None:
        first = str(error).strip().splitlines()
        known = FrazilError(
            f"a bug in Frazil: {type(error).__name__}: {first[0][:300] if first else ''}",
            hint="run again with -v for the whole stack, and report it; the lake is as its last commit left it",
        )
    if known is not error:
        known.__cause__ = error
    return known


def _from_a_worker(chain: list[Fault]) -> FrazilError | None:
    """Return a Frazil error that was raised in a Python worker, which Spark returns as the text of a stack."""
    for fault in chain:
        kinds = ("org.apache.spark.api.python.PythonException", "pyspark.errors.exceptions.captured.PythonException")
        if fault.is_any(*kinds) and (ours := _OURS.search(fault.text)):
            kind = next((kind for kind in _kinds(FrazilError) if kind.code == ours[1]), FrazilError)
            made = kind.__new__(kind)
            FrazilError.__init__(made, ours[2], hint=ours[3])
            return made
    return None


def _kinds(root: type[FrazilError]) -> Iterator[type[FrazilError]]:
    for kind in root.__subclasses__():
        yield kind
        yield from _kinds(kind)


def _no_room(chain: list[Fault]) -> FrazilError | None:
    text = _first(
        chain,
        lambda fault: (
            (fault.is_any("builtins.OSError") and fault.number in (errno.ENOSPC, errno.EDQUOT))
            or (fault.is_any(*_SQLITE) and fault.number == sqlite3.SQLITE_FULL)
            # Java uses IOException for all of these, with the system's message.
            or re.search(r"No space left on device|Disk quota exceeded|database or disk is full", fault.text)
        ),
    )
    hint = "free some room and run again; nothing half-written is visible"
    return None if text is None else DiskFullError(f"no room left on the disk: {text}", hint=hint)


def _no_right(chain: list[Fault]) -> FrazilError | None:
    text = _first(
        chain,
        lambda fault: (
            (fault.is_any("builtins.OSError") and fault.number in (errno.EACCES, errno.EPERM, errno.EROFS))
            or (fault.is_any(*_SQLITE) and fault.number == sqlite3.SQLITE_READONLY)
            or fault.is_any("java.nio.file.AccessDeniedException", "java.nio.file.ReadOnlyFileSystemException")
            or fault.is_any("org.apache.hadoop.security.AccessControlException")
            # As above; the last two are Hadoop's message for a folder, and SQLite's through Iceberg.
            or re.search(
                r"Permission denied|Read-only file system|Mkdirs failed to create|write a readonly database", fault.text
            )
        ),
    )
    hint = "grant write permission on the warehouse and run again"
    return None if text is None else UnwritableLakeError(f"the lake cannot be written: {text}", hint=hint)


def _no_memory(chain: list[Fault]) -> FrazilError | None:
    java = _first(
        chain,
        lambda fault: (
            fault.is_any("java.lang.OutOfMemoryError", "org.apache.spark.memory.SparkOutOfMemoryError")
            # A task that failed on an executor returns only the text of its error.
            or (fault.is_any("org.apache.spark.SparkException") and "java.lang.OutOfMemoryError" in fault.text)
        ),
    )
    if java is not None:
        hint = "set FRAZIL_DRIVER_MEMORY to more, such as 4g, and run again; published snapshots are kept"
        return OutOfMemoryError("Java needs more memory than its limit (java.lang.OutOfMemoryError)", hint=hint)
    here = _first(chain, lambda fault: fault.is_any("builtins.MemoryError", "_duckdb.OutOfMemoryException"))
    hint = "close other programs, or ask for less"
    return None if here is None else OutOfMemoryError(f"no memory left: {here}", hint=hint)


def _no_java(chain: list[Fault]) -> FrazilError | None:
    """Return an error if Java has ended or is about to: py4j cannot connect, an answer is cut off, Spark is stopped."""
    if not any(
        fault.is_any("py4j.protocol.Py4JNetworkError")
        or (fault.is_any("builtins.ConnectionError") and has_ended())
        # Py4j's error for a missing answer; an error that Java answered with has a trace.
        or (fault.types[0] == "py4j.protocol.Py4JError" and "Trace:" not in fault.text)
        # Java stops Spark before it ends. Spark has no type for what fails then.
        or (fault.is_any("java.lang.IllegalStateException") and "stopped SparkContext" in fault.text)
        or (fault.is_any("org.apache.spark.SparkException") and "SparkContext was shut down" in fault.text)
        for fault in chain
    ):
        return None
    return JavaEndedError(
        "Java has ended in the middle of the work: it was killed, by hand or for want of memory",
        hint="run again, with a larger or smaller FRAZIL_DRIVER_MEMORY; logs/spark.log in the cache folder may say why",
    )


def _no_port(chain: list[Fault]) -> FrazilError | None:
    text = _first(chain, lambda fault: fault.is_any("java.net.BindException"))
    hint = "check that this machine's address 127.0.0.1 can be used and that ports are free"
    return None if text is None else SessionError(f"Spark cannot listen to its port: {text}", hint=hint)


def _no_driver(chain: list[Fault]) -> FrazilError | None:
    # Java has SQLException for all that a database or its driver refuses, and SQLSTATE 08001 for a server that is away
    # as well.
    text = _first(chain, lambda fault: fault.is_any("java.sql.") and "No suitable driver" in fault.text)
    hint = "add the JDBC driver of the catalog's database to the session: spark.jars.packages"
    return None if text is None else SessionError(f"the session cannot open the catalog: {text}", hint=hint)


def _behind(chain: list[Fault]) -> FrazilError | None:
    found = next((found for fault in chain if (found := _BEHIND.search(fault.text))), None)
    if found is None:
        return None
    return ClockError(f"another machine committed at a later time than the clock says, here or there: {found[0]}")


def _overtaken(chain: list[Fault]) -> FrazilError | None:
    text = _first(
        chain,
        lambda fault: (
            fault.is_any("org.apache.iceberg.exceptions.CommitFailedException") or _OVERTAKEN.search(fault.text)
        ),
    )
    return None if text is None else BusyError(f"another writer was first: {text}", hint="run again")


def _damaged(chain: list[Fault], pipeline: Pipeline | None) -> FrazilError | None:
    if not any(fault.is_any(*_UNREADABLE) and not _is_silent(fault) for fault in chain):
        return None
    # The innermost first: messages of Spark's wrappers contain whole stacks.
    found = (damaged(fault.text, pipeline=pipeline) for fault in reversed(chain))
    return next((error for error in found if error is not None), None)


def _is_silent(fault: Fault) -> bool:
    """Return whether DuckDB got no answer from an object store, or another one than that a file is not there."""
    if fault.is_any("_duckdb.HTTPException"):
        return fault.number != HTTPStatus.NOT_FOUND
    return fault.is_any("_duckdb.IOException") and bool(_SILENT.search(fault.text))


def _lost(chain: list[Fault]) -> FrazilError | None:
    lost = ("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED")
    if not any(fault.condition in lost or f"[{name}]" in fault.text for name in lost for fault in chain):
        return None
    return StorageError(
        "an executor was lost with rows that no other executor has", hint="run again; published snapshots are kept"
    )


def _catalog(chain: list[Fault]) -> FrazilError | None:
    kinds = (*_SQL, "org.apache.iceberg.exceptions.CommitStateUnknownException")
    # Where Spark cannot load the catalog, it takes the catalog's name for a namespace of its own.
    text = _first(chain, lambda fault: fault.is_any(*kinds) or fault.condition == "REQUIRES_SINGLE_PART_NAMESPACE")
    hint = "run again; published snapshots are kept"
    return None if text is None else CatalogError(f"the catalog does not answer: {text}", hint=hint)


def _refused(chain: list[Fault]) -> FrazilError | None:
    statuses = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
    text = _first(
        chain,
        lambda fault: (
            fault.is_any(*_REFUSED)
            or (fault.is_any("software.amazon.awssdk.services.", "_duckdb.HTTPException") and fault.number in statuses)
        ),
    )
    hint = "check the login of catalog and stores, its permissions, and the kinds of files that the store accepts"
    return None if text is None else RefusedError(f"catalog or storage refuses: {text}", hint=hint)


def _unreachable(chain: list[Fault]) -> FrazilError | None:
    kinds = (*_UNREACHABLE, "builtins.ConnectionError", "builtins.TimeoutError")
    text = _first(chain, lambda fault: fault.is_any(*kinds) or _is_silent(fault))
    hint = "check that catalog and storage are up and can be reached from here, and run again"
    return None if text is None else UnreachableError(f"catalog or storage does not answer: {text}", hint=hint)


_DEEP: Final = 12
_NUMBERS: Final = ("sqlite_errorcode", "errno", "status_code")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One error in a chain of causes.

    Attributes:
        types: full names of its class and, for a Python error, of its base classes.
        text: its message, without a stack.
        number: ``errno`` of an OSError, the result code of SQLite, the vendor's code of a Java SQLException, the HTTP
            status of an answer of Amazon's services, or to DuckDB.
        condition: Spark's name of the error, such as ``TABLE_OR_VIEW_NOT_FOUND``.
    """

    types: tuple[str, ...]
    text: str
    number: int | None = None
    condition: str | None = None

    def is_any(self, *names: str) -> bool:
        """Return whether one of its types is among ``names``; a name that ends with a dot means a whole package."""
        return any(kind == name or (name[-1] == "." and kind.startswith(name)) for kind in self.types for name in names)


def faults(error: BaseException) -> list[Fault]:
    """Return an error and its causes, outermost first."""
    found: list[Fault] = []
    at: BaseException | None = error
    while at is not None and len(found) < _DEEP:
        found.append(_of_python(at))
        # PySpark keeps the Java error of known types in one attribute, py4j of other types in another one.
        java = getattr(at, "java_exception", None) or getattr(at, "_origin", None)
        with contextlib.suppress(Exception):  # Java may have ended; the faults found so far are enough then
            found += _of_java(java)
        at = at.__cause__ or at.__context__
    return found


def _of_python(error: BaseException) -> Fault:
    condition = None
    with contextlib.suppress(Exception):
        condition = error.getCondition()  # type: ignore[attr-defined]
    is_java = hasattr(error, "java_exception")
    return Fault(
        types=tuple(f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__[:-2]),
        # For a Java error this would be the stack as text; its message is read from Java instead.
        text="" if is_java else str(getattr(error, "_desc", None) or error),
        number=next(filter(None, (getattr(error, name, None) for name in _NUMBERS)), None),
        condition=condition,
    )


def _of_java(error: Any) -> Iterator[Fault]:
    for _ in range(_DEEP):
        if error is None:
            return
        name = error.getClass().getName()
        number = None
        with contextlib.suppress(Exception):  # UncheckedSQLException has a name as if it had a code
            if name.endswith(("SQLException", "SQLiteException")):
                number = error.getErrorCode()
            elif name.startswith("software.amazon.awssdk.services."):
                number = error.statusCode()
        yield Fault(types=(name,), text=error.getMessage() or "", number=number)
        error = error.getCause()
