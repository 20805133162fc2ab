"""Errors for users: a stable code, what happened, where, and the way out.

FrazilError                                   exit
├── RunFailedError        FZ001  tables of a run failed                  worst
├── DeclarationError      FZ1xx  what was declared is wrong             2
│   ├── DeclarationProblems FZ100  all problems of one file, together    2
├── SourceError           FZ2xx  a source cannot be read                3
├── StorageError          FZ3xx  catalog, disk or object store           4
├── ContractError         FZ4xx  too many bad records                    5
├── SchemaError           FZ5xx  a schema change needs a decision        6
├── BusyError             FZ6xx  another run holds the pipeline          7
├── HistoryChangedError   FZ7xx  a bookmark is lost, a known file changed 8
├── DifferenceError       FZ8xx  ``check`` found a difference            9
└── SetupError            FZ9xx  Java, jars, memory: the machine          2
    ├── JavaError         FZ901  no Java 17 or 21                         2
    ├── JarError          FZ902  a jar cannot be had, or is not the one   2
    └── SessionError      FZ903  Spark does not start, or lacks Iceberg   2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

WORST_FIRST: Final = (1, 8, 9, 6, 5, 2, 4, 3, 7)
"""Exit codes, worst first: bugs, then errors that need a decision, then errors that another run may cure."""


def worst_exit(codes: Iterable[int]) -> int:
    """Return the exit code of a command with several failures; 0 without any."""
    return min(codes, key=WORST_FIRST.index, default=0)


class FrazilError(Exception):
    """Root of the error tree: catch it to catch every error that Frazil raises on purpose.

    Attributes:
        code: stable name of the error, such as ``FZ102``; documented in docs/errors.md.
        exit_code: exit code of the command line.
        message: the event and its place, in one sentence.
        hint: the way out; None if there is no hint.
        retryable: the same call may succeed later without any change.
    """

    code: ClassVar[str] = "FZ000"
    exit_code: int = 1
    retryable: bool = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message, self.hint = message, hint
        super().__init__(message)

    def __str__(self) -> str:
        text = f"[{self.code}] {self.message}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class FrazilWarning(RuntimeWarning):
    """A call is done, and something beside it did not work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One error of a plan or a run, as a value.

    Attributes:
        name: the source table (``orders``), mart (``marts.orders``) or aggregate (``gold.revenue``) that failed.
        code, message, hint, retryable, exit_code: see :class:`frazil.FrazilError`.
    """

    name: str
    code: str
    message: str
    hint: str | None
    retryable: bool
    exit_code: int

    @classmethod
    def of(cls, name: str, error: FrazilError) -> Self:
        """Return the error of ``name`` as a value."""
        return cls(
            name=name,
            code=error.code,
            message=error.message,
            hint=error.hint,
            retryable=error.retryable,
            exit_code=error.exit_code,
        )

    def __str__(self) -> str:
        text = f"{self.name}: [{self.code}] {self.message}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class DeclarationError(FrazilError):
    """The declaration cannot be run."""

    code = "FZ102"
    exit_code = 2


class DeclarationProblems(DeclarationError):  # noqa: N818
    """All problems of one declaration, reported together."""

    code = "FZ100"

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        super().__init__(
            f"{count} {'problem' if count == 1 else 'problems'} in the declaration\n" + "\n".join(self.problems)
        )


class SourceError(FrazilError):
    """A source is missing, unreadable, or changes during the read."""

    code = "FZ200"
    exit_code = 3
    retryable = True


class StorageError(FrazilError):
    """The catalog or the storage under the lake does not answer, is full, or is read-only."""

    code = "FZ300"
    exit_code = 4
    retryable = True


class ContractError(FrazilError):
    """A batch has more bad records than the declaration allows; only bronze shows the batch."""

    code = "FZ400"
    exit_code = 5


class SchemaError(FrazilError):
    """The source's schema changed, and the declaration does not say how to follow."""

    code = "FZ500"
    exit_code = 6


class BusyError(FrazilError):
    """Another run holds the pipeline, or committed first."""

    code = "FZ600"
    exit_code = 7
    retryable = True


class HistoryChangedError(FrazilError):
    """The content of a known source file changed, or a bookmark is lost."""

    code = "FZ700"
    exit_code = 8


class DifferenceError(FrazilError):
    """``check`` found tables that differ from their changes."""

    code = "FZ800"
    exit_code = 9


class SetupError(FrazilError):
    """The machine lacks Java, jars or memory."""

    code = "FZ900"
    exit_code = 2


class SparkMissingError(SetupError):
    """PySpark is not installed, and what was asked for needs Spark."""

    code = "FZ919"

    def __init__(self) -> None:
        super().__init__(
            "PySpark is not installed: runs, maintain, erase and replay need it",
            hint="pip install 'frazil[spark]', or 'frazil[java]' where the machine has no Java; "
            "capture, query, status, check and ui work without",
        )


class JavaError(SetupError):
    """No Java that Spark supports was found."""

    code = "FZ901"

    def __init__(self, seen: Iterable[str]) -> None:
        self.seen = tuple(seen)
        looked = f" ({'; '.join(self.seen)})" if self.seen else ""
        super().__init__(
            f"no Java 17 or 21 found{looked}",
            hint="pip install 'frazil[java]' brings one; or set FRAZIL_JAVA_HOME to the folder of yours",
        )


class JarError(SetupError):
    """A jar cannot be fetched, or its content is not the pinned one."""

    code = "FZ902"


class SessionError(SetupError):
    """Spark does not start, or a session that was handed in lacks Iceberg or the catalog."""

    code = "FZ903"
