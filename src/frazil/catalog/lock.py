"""One run of a pipeline at a time: by a lock of the warehouse's folder, or a lease in its object store.

The lock only lets a second run fail early with a clear message. The compare-and-swap of every commit
(``lake/commit.py``) keeps the tables correct, on any number of machines.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from frazil.catalog.lease import leased
from frazil.catalog.trouble import UnwritableLakeError
from frazil.catalog.warehouse import verify_place
from frazil.errors import BusyError
from frazil.iceberg.durable import make_durable
from frazil.spec.location import warehouse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec import Pipeline


_RETRY_SECONDS: Final = 0.2
"""Between two tries for a lock; a pipeline that is followed is free for a second between two runs."""


TURN_SECONDS: Final = 60.0
"""How long a command that changes tables outside a run waits for a run to end."""


def holder(pipeline: Pipeline) -> int | None:
    """Return the process that last held the pipeline's lock, which may have ended; None if unknown."""
    folder = warehouse(pipeline).path
    if folder is None:
        return None
    try:
        return int((folder / f".{pipeline.pipeline}.lock").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


@contextmanager
def run_lock(pipeline: Pipeline) -> Iterator[None]:
    """Hold the pipeline for a run: at once on a disk; in an object store after its holder.

    Raises:
        BusyError, WarehouseMovedError: as :func:`waiting_lock`.
    """
    with waiting_lock(pipeline, TURN_SECONDS if warehouse(pipeline).path is None else 0):
        yield


@contextmanager
def waiting_lock(pipeline: Pipeline, wait_seconds: float = TURN_SECONDS) -> Iterator[None]:
    """Hold the pipeline's lock as :func:`lock`, and wait while another process holds it.

    Raises:
        BusyError: it still holds the pipeline after ``wait_seconds``.
        WarehouseMovedError: the warehouse is a copy, or was moved.
    """
    until = time.monotonic() + wait_seconds
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(lock(pipeline))
            except BusyError:
                if time.monotonic() >= until:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                break
        verify_place(pipeline)
        yield


@contextmanager
def lock(pipeline: Pipeline) -> Iterator[None]:
    """Hold the pipeline's lock while a block runs. The system releases it when the process ends, for any reason.

    The end of the block waits until the disk has everything that was written. In an object store
    the lock is a lease, see :mod:`frazil.catalog.lease`.

    Raises:
        BusyError: another process holds it.
        UnwritableLakeError: the lock file cannot be made.
        DiskError: the disk could not take what was written.
    """
    folder = warehouse(pipeline).path
    if folder is None:
        with leased(pipeline):
            yield
        return
    path = folder / f".{pipeline.pipeline}.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = path.open("a+", encoding="ascii")
    except OSError as error:
        raise UnwritableLakeError(
            f"cannot write the warehouse {folder}: {error.strerror}",
            hint="grant write permission on the folder, or choose another warehouse",
        ) from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            handle.seek(0)
            holder = handle.read().strip() or "unknown"
            raise BusyError(
                f"pipeline {pipeline.pipeline!r} is held by another run (process {holder})",
                hint="wait for it to end; nothing has to be cleaned up if it died",
            ) from error
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        try:
            yield
        finally:
            make_durable(folder)
