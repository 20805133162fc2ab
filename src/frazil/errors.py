"""Every error a user can meet: a stable code, what happened, where, and the way out.

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
"""Exit codes of errors: a bug, then what a person has to decide, then what another run may cure by itself."""


def worst_exit(codes: Iterable[int]) -> int:
    """Return the exit code of a command in which several things failed; 0 where nothing did."""
    return min(codes, key=WORST_FIRST.index, default=0)


class FrazilError(Exception):
    """The root: catch it to catch all that Frazil raises on purpose.

    Attributes:
        code: stable name of the error, such as ``FZ102``; documented in docs/errors.md.
        exit_code: what the command line ends with.
        message: what happened and where, in one sentence.
        hint: the way out, or None when there is none to offer.
        retryable: the same call may succeed later with nothing changed.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One error of a plan or a run, as a value.

    Attributes:
        name: what failed: a source table (``orders``), a mart (``marts.orders``) or an aggregate (``gold.revenue``).
        code, message, hint, retryable, exit_code: as :class:`frazil.FrazilError` has them.
    """

    name: str
    code: str
    message: str
    hint: str | None
    retryable: bool
    exit_code: int

    @classmethod
    def of(cls, name: str, error: FrazilError) -> Self:
        """Describe an error of ``name``."""
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
    """What the user declared cannot be run."""

    code = "FZ102"
    exit_code = 2


class DeclarationProblems(DeclarationError):  # noqa: N818
    """All the problems of one declaration, found at once."""

    code = "FZ100"

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        super().__init__(
            f"{count} {'problem' if count == 1 else 'problems'} in the declaration\n" + "\n".join(self.problems)
        )


class SourceError(FrazilError):
    """A source is not there, not readable, or changes while it is read."""

    code = "FZ200"
    exit_code = 3
    retryable = True


class StorageError(FrazilError):
    """The catalog or the storage under the lake does not answer, is full, or is read-only."""

    code = "FZ300"
    exit_code = 4
    retryable = True


class ContractError(FrazilError):
    """More records were bad than the declaration allows; nothing of the batch is visible past bronze."""

    code = "FZ400"
    exit_code = 5


class SchemaError(FrazilError):
    """The source's schema changed in a way that a person has to decide."""

    code = "FZ500"
    exit_code = 6


class BusyError(FrazilError):
    """Another run holds the pipeline, or got there first."""

    code = "FZ600"
    exit_code = 7
    retryable = True


class HistoryChangedError(FrazilError):
    """A known source file has other content than before, or a bookmark is lost."""

    code = "FZ700"
    exit_code = 8


class DifferenceError(FrazilError):
    """``check`` found tables that do not say what the changes say."""

    code = "FZ800"
    exit_code = 9


class SetupError(FrazilError):
    """The machine lacks something: Java, jars, memory."""

    code = "FZ900"
    exit_code = 2


class JavaError(SetupError):
    """There is no Java that Spark runs on."""

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
