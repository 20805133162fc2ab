"""Who captures a log, and the session with its database."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from frazil.errors import SetupError, SourceError
from frazil.spec.secrets import redacted, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from frazil.spec.kinds.audit_log import AuditLog


@contextmanager
def alone(path: Path) -> Iterator[bool]:
    """Take a lock; yield False where another process has it."""
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


@contextmanager
def connected(source: AuditLog, folder: Path, name: str) -> Iterator[Any]:
    """Open a session with the database of a log; ``name`` is what people know the log by."""
    try:
        import psycopg  # noqa: PLC0415 - only databases need it
    except ImportError:
        raise SetupError(
            f"{name}: the Python package psycopg is missing", hint="pip install 'frazil[postgres]'"
        ) from None
    url = resolve(source.url or "", setting="url", folder=folder)
    try:
        with psycopg.connect(url, autocommit=True, application_name="frazil") as session:
            yield session
    except psycopg.Error as error:
        first = redacted((str(error).splitlines() or [type(error).__name__])[0])
        raise SourceError(
            f"{name}: {first}", hint="look at url and log of the source, and at what the user may read; then run again"
        ) from error
