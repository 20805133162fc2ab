"""One run of a pipeline at a time: by a lock of the warehouse's folder, or a lease in its object store.

The lock only lets a second run fail early with a clear message. The compare-and-swap of every commit
(``lake/commit.py``) keeps the tables correct, on any number of machines.

A lease is taken, kept and given back by conditional writes, each against the version that was read or written before.
Who holds it writes it again every ten seconds. Who waits takes it over where it stays as it is for thirty seconds by
the waiter's own clock, so no two clocks are compared; on the holder's machine at once, where its process has ended.

The lease is politeness, as the lock of a folder is. A holder that slept past its end goes on, and the compare-and-swap
of commits refuses what it computed (``lake/orphans.py``). A store that cannot keep a lease is therefore not a failure.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import os
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from frazil.catalog.conf import lake_access
from frazil.catalog.trouble import UnwritableLakeError
from frazil.catalog.warehouse import verify_place
from frazil.errors import BusyError, SetupError, StorageError
from frazil.iceberg.files import make_durable
from frazil.spec.location import warehouse
from frazil.spec.model.stores import is_store
from frazil.storage.object_store import StoreAddress
from frazil.storage.store_client import ObjectStoreError, get, put_if

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec import Pipeline
    from frazil.spec.model.stores import StoreAccess
    from frazil.storage.store_client import Version

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
    the lock is a lease, see :mod:`frazil.catalog.lock`.

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


LEASE_SECONDS: Final = 30.0
"""A lease that stays as it is for so long is over."""
_WRONG_CLOCK: Final = "RequestTimeTooSkewed"
"""What a store says of a clock that is wrong by more than a quarter of an hour."""
BEAT_SECONDS: Final = 10.0
"""So often its holder writes it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that holds a lake.

    Attributes:
        host: name of its machine.
        process: its id there.
        machine: which machine and container that is, as the system knows it; empty where it does not say.
        since: when it began, by its own clock.
    """

    host: str
    process: int
    machine: str
    since: str

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}, since {self.since}"

    @property
    def has_ended(self) -> bool:
        """Whether the process is known to have ended: it was one of this machine."""
        if not self.machine or self.machine != _machine():
            return False
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return False


def lease_holder(pipeline: Pipeline) -> Holder | None:
    """Return the holder of a lake in an object store; None without one, or if it is unknown."""
    lease = _lease(pipeline)
    if lease is not None:
        with suppress(OSError, StorageError, SetupError):
            holder = lease.read().holder
            return None if holder is not None and holder.has_ended else holder
    return None


@contextmanager
def leased(pipeline: Pipeline) -> Iterator[None]:
    """Hold a lake in an object store while a block runs; where the store cannot keep a lease, without one.

    Raises:
        BusyError: another process holds it.
        ObjectStoreError: the store finds this machine's clock wrong. Java's client would correct for that by itself,
            and commit with times that keep all other hosts from writing.

    Cost: one request before the block where this process held the lake last, else two or three; one after it, and one
    every :data:`BEAT_SECONDS`.
    """
    lease, held = _lease(pipeline), None
    if lease is not None:
        try:
            held = lease.take(pipeline.pipeline)
        except (OSError, StorageError, SetupError) as error:
            if isinstance(error, ObjectStoreError) and error.store_code == _WRONG_CLOCK:
                raise
    try:
        yield
    finally:
        if held is not None:
            held.give_back()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A version of a lease; ``version`` is None before the first one."""

    version: Version | None = None
    holder: Holder | None = None
    epoch: int = 0
    token: str = ""


class _Lease:
    """The lease of a lake, as this process knows it."""

    def __init__(self, access: StoreAccess, key: str) -> None:
        self._access, self._key = access, key
        self._left: _Found | None = None
        """What this process left when it gave the lease back."""
        self._seen: tuple[Version | None, float] = (None, 0.0)
        """The version that another process held, and since when."""

    def read(self) -> _Found:
        """Read who holds the lease."""
        try:
            found = get(self._access, self._key)
            content = bytes(found.bytes())
        except FileNotFoundError:
            return _Found()
        version = {name: found.meta[name] for name in ("e_tag", "version")}
        try:
            told = json.loads(content)
            holder = told["holder"] and Holder(**told["holder"])
            return _Found(version=version, holder=holder, epoch=int(told["epoch"]), token=told["token"])
        except (KeyError, TypeError, ValueError):
            return _Found(version=version)

    def take(self, pipeline: str) -> _Held:
        """Take the lease.

        Raises:
            BusyError: another process holds it, or took it at this moment.
        """
        left, self._left = self._left, None
        taken = None if left is None else self._take(left)
        if taken is not None:
            return taken
        found = self.read()
        if found.holder is not None and not self._is_over(found, found.holder):
            raise BusyError(
                f"pipeline {pipeline!r} is held by another process ({found.holder})",
                hint=f"wait for it to end; if it died, its lease ends {LEASE_SECONDS:.0f} seconds later",
            )
        taken = self._take(found)
        if taken is None:
            raise BusyError(f"pipeline {pipeline!r} was taken by another process at this moment", hint="try again")
        return taken

    def _is_over(self, found: _Found, holder: Holder) -> bool:
        version, since = self._seen
        if version != found.version:
            self._seen = found.version, time.monotonic()
            return holder.has_ended
        return holder.has_ended or time.monotonic() - since >= LEASE_SECONDS

    def _take(self, found: _Found) -> _Held | None:
        now = dt.datetime.now(dt.UTC)
        holder = Holder(
            host=socket.gethostname(), process=os.getpid(), machine=_machine(), since=f"{now:%Y-%m-%d %H:%M:%S}"
        )
        wanted = replace(found, holder=holder, epoch=found.epoch + 1, token=uuid4().hex)
        written = self.write(wanted)
        return None if written is None else _Held(self, written)

    def write(self, wanted: _Found) -> _Found | None:
        """Write the lease if it is still the version that ``wanted`` names; None where another has its place."""
        told = {"holder": wanted.holder and asdict(wanted.holder), "epoch": wanted.epoch, "token": wanted.token}
        # No two versions are the same text: stores know versions by a hash of it.
        content = json.dumps({**told, "written": uuid4().hex}, indent=1).encode()
        version = put_if(self._access, self._key, content, wanted.version)
        if version is not None:
            return replace(wanted, version=version)
        # The client tries again by itself: what it finds in its way may be its own first try.
        found = self.read()
        return found if found.token == wanted.token else None

    def leave(self, free: _Found) -> None:
        """Remember the version that this process left: the next turn need not read it."""
        self._left = free


class _Held:
    """A held lease; a thread writes it again until it is given back."""

    def __init__(self, lease: _Lease, found: _Found) -> None:
        self._lease, self._found = lease, found
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="frazil lease", daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        while not self._is_done.wait(BEAT_SECONDS):
            with suppress(OSError, StorageError, SetupError):
                written = self._lease.write(self._found)
                if written is None:
                    return  # another process took it: this one had slept
                self._found = written

    def give_back(self) -> None:
        """Give it back, unless another process took it already."""
        self._is_done.set()
        self._thread.join(LEASE_SECONDS)
        if self._thread.is_alive():
            return  # the store does not answer: the lease ends by itself
        with suppress(OSError, StorageError, SetupError):
            free = self._lease.write(replace(self._found, holder=None))
            if free is not None:
                self._lease.leave(free)


def _lease(pipeline: Pipeline) -> _Lease | None:
    """Return the lease of a lake; None where it is in no object store."""
    place = warehouse(pipeline)
    if place.path is not None or not is_store(place.uri):
        return None
    address = StoreAddress(f"{place.uri}/.frazil/leases/{pipeline.pipeline}.json", lake_access(pipeline, place.uri))
    return _lease_at(address.access, address.key)


@lru_cache(maxsize=64)
def _lease_at(access: StoreAccess, key: str) -> _Lease:
    return _Lease(access, key)


@lru_cache(maxsize=1)
def _machine() -> str:
    """Name the running system and the part of it in which process ids mean the same; empty where it does not say."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""
