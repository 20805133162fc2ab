"""Java's and the system's troubles, told as ours: one table from text to error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.errors import BusyError, FrazilError, SourceError, StorageError
from frazil.lake.lock import UnwritableLakeError

if TYPE_CHECKING:
    from collections.abc import Callable


class DiskFullError(StorageError):
    """No room is left where the lake or Spark's scratch files are."""

    code = "FZ301"


class CatalogError(StorageError):
    """The catalog does not answer."""

    code = "FZ303"


_KNOWN: tuple[tuple[tuple[str, ...], Callable[[str], FrazilError]], ...] = (
    (
        ("No space left on device", "Disk quota exceeded", "database or disk is full"),
        lambda text: DiskFullError(
            f"no room left on the disk: {text}",
            hint="free some room and run again; nothing half-written is visible",
        ),
    ),
    (
        (
            "Permission denied",
            "Read-only file system",
            "attempt to write a readonly database",
            "Mkdirs failed to create",
        ),
        lambda text: UnwritableLakeError(f"the lake cannot be written: {text}", hint="mend its rights and run again"),
    ),
    (
        ("changed while it was read",),
        lambda text: SourceError(text, hint="run again when the writer is done"),
    ),
    (
        (
            "CommitFailedException",
            "Cannot fast-forward",
            "Found conflicting files",
            "already exists and is being",
            # Another run took this one's branch for that of a dead one, and dropped it.
            "Cannot use branch (does not exist): frazil_run_",
            "Ref does not exist: frazil_run_",
        ),
        lambda text: BusyError(f"another writer got there first: {text}", hint="run again"),
    ),
    (
        (
            "SQLITE_BUSY",
            "database is locked",
            "UncheckedSQLException",
            "Connection refused",
            "CommitStateUnknown",
        ),
        lambda text: CatalogError(f"the catalog does not answer: {text}", hint="run again; what was published stays"),
    ),
)


def told(error: BaseException) -> FrazilError | None:
    """Translate a foreign error into one of ours, or None if it is none we know: then it is a bug.

    The texts of the whole chain of causes are looked at, since Spark wraps what Iceberg and Java say.
    """
    if isinstance(error, FrazilError):
        return error
    chain: list[str] = []
    at: BaseException | None = error
    while at is not None and len(chain) < 8:  # noqa: PLR2004 - deep enough for any real chain
        chain.append(str(at))
        at = at.__cause__ or at.__context__
    text = "\n".join(chain)
    for signs, build in _KNOWN:
        for sign in signs:
            if sign in text:
                line = next(line.strip() for line in text.splitlines() if sign in line)
                return build(line.strip(": ")[:300])
    return None
