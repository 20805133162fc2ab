"""The session with the database of a log."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from frazil.errors import SetupError, SourceError
from frazil.spec.secrets import redacted, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from frazil.spec.model.kinds.audit_log import AuditLog


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
