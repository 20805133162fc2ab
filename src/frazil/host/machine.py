"""Cores, memory and cache folder of this machine."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from frazil.errors import SetupError


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
