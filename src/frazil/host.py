"""This machine: its cores, memory and cache folder, scratch folders, and the Java processes that work in them.

A folder is locked by its process and by the Java in it, so its lock is free once both have ended, for any reason. Each
new scratch folder first removes the folders with a free lock.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Sequence

_PREFIX: Final = "frazil-scratch-"
_held: Final[list[Scratch]] = []
"""Scratch folders of this process."""
_starting: Final = Lock()
"""Held while a process is started, so that :func:`kill_all` misses none."""


@dataclass(eq=False, slots=True)
class Scratch:
    """A folder among the temporary files, and the process that works in it, if there is one.

    Attributes:
        folder: belongs to this object alone.
        lock: file descriptor that holds the folder.
        process: leads a session of its own, so that no signal of the terminal reaches it.
        unfinished: files elsewhere that only the process can finish.
    """

    folder: Path
    lock: int
    process: subprocess.Popen[bytes] | None = None
    unfinished: list[Path] = field(default_factory=list)

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start the process, which removes the folder when it ends: see :mod:`frazil.spark.java`.

        Args:
            command: the program and its arguments.
            options: of :class:`subprocess.Popen`; ``env`` is needed.
        """
        env = {**options.pop("env"), "TMPDIR": f"{self.folder}", "_FRAZIL_SCRATCH": f"{self.folder}"}
        with _starting:
            self.process = subprocess.Popen(
                command, env=env, stdin=subprocess.PIPE, start_new_session=True, pass_fds=[self.lock], **options
            )
        return self.process

    def kill(self) -> None:
        """Kill the process and its group. Other processes that it started end when their pipes break."""
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def remove(self) -> None:
        """Kill the process, wait until it is gone, and remove the folder."""
        self.kill()
        if self.process is not None:
            self.process.wait()
        for path in self.unfinished:
            path.unlink(missing_ok=True)
        _remove(self.folder)
        if self in _held:
            _held.remove(self)
            os.close(self.lock)


def scratch() -> Scratch:
    """Create a folder among the temporary files, and remove the folders of processes that have ended."""
    _sweep()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        with contextlib.suppress(OSError):  # a file system without locks: then nobody sweeps there either
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if folder.is_dir():
            made = Scratch(folder, lock)
            _held.append(made)
            return made
        os.close(lock)  # another process took it for a dead one's before it was locked


@cache
def spill_folder() -> Path:
    """Return the folder that queries without Java spill to; removed when this process ends."""
    made = scratch()
    atexit.register(made.remove)
    return made.folder


def has_ended() -> bool:
    """Return whether a process that this one started in a scratch folder has ended."""
    return any(each.process is not None and each.process.poll() is not None for each in _held)


def kill_all() -> None:
    """Kill every process that this one started in a scratch folder; returns at once."""
    with contextlib.ExitStack() as held:
        if _starting.acquire(timeout=1):
            held.callback(_starting.release)
        for each in tuple(_held):
            each.kill()


def remove_all() -> None:
    """Kill those processes, and remove all scratch folders of this process."""
    kill_all()
    for each in tuple(_held):
        each.remove()


def _sweep() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(folder)
            finally:
                os.close(lock)


def _remove(folder: Path) -> None:
    """Remove a folder, also while something that is about to end still writes into it."""
    for _ in range(5):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return


def cache_folder() -> Path:
    """Return the folder for jars, logs and start-up archives. It can be deleted at any time.

    It is ``$FRAZIL_CACHE``, else ``frazil`` in ``$XDG_CACHE_HOME``, else ``frazil`` in ``.cache`` of the home folder.
    This function does not create it.
    """
    if chosen := os.environ.get("FRAZIL_CACHE"):
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "frazil"


def kept_folder(name: str) -> Path:
    """Return a writable folder in the cache, and create it if it is missing.

    If the cache cannot be written (a read-only home), the folder is among the temporary files.

    Raises:
        SetupError: that temporary folder belongs to another user, who could put their own Java into it.
    """
    folder = cache_folder() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        writable = False
    else:
        writable = os.access(folder, os.W_OK)
    if not writable:
        own = Path(tempfile.gettempdir(), f"frazil-{os.getuid()}")
        own.mkdir(exist_ok=True, mode=0o700)
        if own.stat().st_uid != os.getuid():
            raise SetupError(f"{own} belongs to somebody else", hint="set FRAZIL_CACHE to a folder of yours")
        folder = own / name
        folder.mkdir(exist_ok=True)
    return folder


def keep_text(path: Path, text: str, *, mode: int = 0o644) -> Path:
    """Write ``text`` to ``path`` atomically, unless the file already has that content.

    Args:
        path: the file; its folder is created if missing.
        text: the content.
        mode: permissions of a new file.
    """
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(mode)
        fresh.replace(path)
    return path


def usable_cores() -> int:
    """Return the cores that this process may use, at least 1, within a container's CPU quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _cgroup("cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        cores = min(cores, -(-int(quota) // int(period)))
    return max(cores, 1)


def total_memory_bytes() -> int:
    """Return the memory that this process may use, within a container's limit."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _cgroup("memory.max")
    return min(total, int(limit)) if limit.isdigit() else total


def default_heap_mib() -> int:
    """Return the default heap of Spark's driver: a quarter of the memory, between 1024 and 4096 MiB."""
    return min(max(total_memory_bytes() // 4 // 2**20, 1024), 4096)


def free_memory_bytes() -> int | None:
    """Return the memory that is free without swapping; None outside Linux."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    free_kib = next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)
    if free_kib is None:
        return None
    limit, used = _cgroup("memory.max"), _cgroup("memory.current")
    free = free_kib * 1024
    return min(free, int(limit) - int(used)) if limit.isdigit() and used.isdigit() else free


def _cgroup(name: str) -> str:
    try:
        return Path("/sys/fs/cgroup", name).read_text(encoding="ascii").strip()
    except OSError:
        return ""
