"""Errors of a PostgreSQL server, and hints for them."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from frazil.errors import HistoryChangedError, SchemaError, SetupError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class ServerError(SourceError):
    """A PostgreSQL server does not answer or closed the connection; a retry may succeed."""

    code = "FZ210"


class ServerSetupError(SourceError):
    """A PostgreSQL server is not set up for the declaration; the hint says what to do."""

    code = "FZ211"
    retryable = False


class SlotLostError(HistoryChangedError):
    """A PostgreSQL server no longer has the changes after the last landed one.

    Attributes:
        places: (schema, name) of the tables with missing changes; None if the slot is lost, which affects all tables.
    """

    code = "FZ705"

    def __init__(self, message: str, *, hint: str, places: frozenset[tuple[str, str]] | None = None) -> None:
        super().__init__(message, hint=hint)
        self.places = places


class TableReplacedError(SlotLostError):
    """A captured table was replaced, or its rows changed in a way that PostgreSQL does not send."""

    code = "FZ709"


class ColumnRenamedError(SchemaError):
    """A column of a captured table was renamed, and the declaration does not mention it."""

    code = "FZ508"


class DriverError(SetupError):
    """The PostgreSQL driver is not installed."""

    code = "FZ908"

    def __init__(self) -> None:
        super().__init__(
            "PostgreSQL is captured with psycopg, which is not installed", hint="pip install 'frazil[postgres]'"
        )


def require_driver() -> None:
    """Verify that the PostgreSQL driver is installed.

    Raises:
        DriverError: the driver is not installed.
    """
    if find_spec("psycopg") is None:
        raise DriverError


_HINTS: Final = {
    "42501": "frazil doctor names each missing right with its SQL: the login needs REPLICATION, SELECT on the tables, "
    "BYPASSRLS where they have row-level security, and a publication of them, which only their owner can make",
    "42704": "the publication was made after the slot: SELECT pg_drop_replication_slot('…'), and run again; keep the "
    "landing folder, so that the run names the tables to read again",
    "53400": "a capture needs one permanent replication slot, and one more during an initial load: raise "
    "max_replication_slots, or drop an unused slot",
}
"""SQLSTATE -> hint."""

_PASSING: Final = ("08", "40", "53", "55", "57", "58", "XX")
"""Classes of SQLSTATE that are not caused by the setup of the server."""


@contextmanager
def translate_server_errors(where: str, hints: Mapping[str, str] = _HINTS) -> Iterator[None]:
    """Translate errors of the driver into errors for people, by SQLSTATE.

    Args:
        where: name of the server or slot, for messages.
        hints: SQLSTATE -> hint; the default has the hints for logical replication.
    """
    import psycopg  # noqa: PLC0415 - an extra

    try:
        yield
    except psycopg.Error as error:
        state = error.sqlstate or ""
        first = (f"{error}".strip().splitlines() or [type(error).__name__])[0]
        hint = hints.get(state)
        if hint is None and (not state or state.startswith(_PASSING)):
            hint = "check that the server runs and is reachable; then run again"
            if "FATAL:" in first:
                hint = "the server answers: check database, user and password in its address; then run again"
            raise ServerError(f"{where}: {first}", hint=hint) from error
        raise ServerSetupError(f"{where}: {first}" + (f" (SQLSTATE {state})" if state else ""), hint=hint) from error
