"""What this machine has: cores, memory, and a folder to keep things in."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from frazil.errors import SetupError


def cache_folder() -> Path:
    """Folder for jars, logs and start-up archives, all of which can be made again.

    ``$FRAZIL_CACHE``, else ``frazil`` in ``$XDG_CACHE_HOME``, else in ``.cache`` of the home folder. Not
    created.
    """
    if chosen := os.environ.get("FRAZIL_CACHE"):
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "frazil"


def kept_folder(name: str) -> Path:
    """Return a folder to write to in the cache, made when missing.

    Where the cache cannot be written (a read-only home), it is a folder among the temporary files.

    Raises:
        SetupError: that folder belongs to somebody else, who could put a Java of theirs into it.
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
    """Make ``path`` hold ``text``; untouched when it does already, never seen half written."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(mode)
        fresh.replace(path)
    return path


def usable_cores() -> int:
    """Cores this process may use, at least 1; a container's CPU quota counts."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _cgroup("cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        cores = min(cores, -(-int(quota) // int(period)))
    return max(cores, 1)


def total_memory_bytes() -> int:
    """Memory this process may use; a container's limit counts."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _cgroup("memory.max")
    return min(total, int(limit)) if limit.isdigit() else total


def default_heap_mib() -> int:
    """Heap of Spark's driver when nobody says: a quarter of the memory, between 1024 and 4096 MiB."""
    return min(max(total_memory_bytes() // 4 // 2**20, 1024), 4096)


def free_memory_bytes() -> int | None:
    """Memory that can be had without swapping, or None where the system does not say (outside Linux)."""
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
