"""List the types and messages along an error's chain of causes, Python's and Java's."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEEP: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One error in a chain of causes.

    Attributes:
        types: full names of its class and, for a Python error, of its base classes.
        text: its message, without a stack.
        number: ``errno`` of an OSError, the result code of SQLite, the vendor's code of a Java SQLException, the HTTP
            status of an answer of Amazon's services.
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
        number=getattr(error, "sqlite_errorcode", None) or getattr(error, "errno", None),
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
