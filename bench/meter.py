"""Wall and CPU seconds of this process and all its descendants, and what other processes took meanwhile."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import psutil

if TYPE_CHECKING:
    from types import TracebackType

_TICKS = os.sysconf("SC_CLK_TCK")
_THREADS: Final = {"C1 CompilerThre": "compile_s", "C2 CompilerThre": "compile_s", "Executor task l": "tasks_s"}
"""What threads of a JVM do, by the name that the system has of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The cost of a piece of work.

    Attributes:
        wall_s: wall seconds.
        cpu_s: user and system seconds of the process tree: Python, its JVM, the JVM's Python workers, and
            those of them that ended.
        other_share: share of all cores' time that processes outside the tree took meanwhile, 0 to 1; the
            parent that only watches is not counted. 0 where the system does not tell.
        written_bytes: size of written table files; None if it was not counted.
        compile_s: seconds of ``cpu_s`` in which Java compiled what it had only interpreted so far; None without Java.
        tasks_s: seconds of ``cpu_s`` in Spark's tasks; None without Java.
    """

    wall_s: float
    cpu_s: float
    other_share: float
    written_bytes: int | None = None
    compile_s: float | None = None
    tasks_s: float | None = None

    def as_values(self) -> dict[str, Any]:
        """Give the reading as plain values, rounded to what the clock can tell."""
        return {name: round(number, 3) for name, number in asdict(self).items() if number is not None}


class Meter:
    """Measures the block it is the context of; ``reading`` is there afterwards."""

    reading: Reading

    def __enter__(self) -> Self:
        self._threads = _threads_s()
        self._wall, self._cpu, self._busy, self._watcher = _now()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        wall, cpu, busy, watcher = _now()
        wall_s, cpu_s = wall - self._wall, cpu - self._cpu
        other_s = max(busy - self._busy - cpu_s - (watcher - self._watcher), 0.0)
        share = other_s / (wall_s * (os.cpu_count() or 1)) if wall_s > 0 else 0.0
        parts = {part: max(seconds - self._threads[part], 0.0) for part, seconds in _threads_s().items()}
        self.reading = Reading(wall_s=wall_s, cpu_s=cpu_s, other_share=min(share, 1.0))
        self.reading = replace(self.reading, compile_s=parts.get("compile_s"), tasks_s=parts.get("tasks_s"))


def tree_rss_bytes(pid: int | None = None) -> int:
    """Resident memory of a process and its descendants; pages they share count once for each.

    A JVM that is about to start a command (a Python worker, or Hadoop's ``chmod``) forks first, and for an instant all
    of its memory would count twice: a JVM below a JVM is left out. Such a child has the name of the thread that made
    it, so it is known by its program.
    """
    total, machines = 0, set[int]()
    for process in _tree(pid):
        try:
            if Path(process.exe()).name == "java":
                if process.ppid() in machines:
                    continue
                machines.add(process.pid)
            total += process.memory_info().rss
        except psutil.Error:  # it ended meanwhile
            continue
    return total


def tree_pids(pid: int) -> set[int]:
    """Process ids of a process and its descendants, empty when it has ended."""
    return {process.pid for process in _tree(pid)}


def _tree(pid: int | None = None) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def _now() -> tuple[float, float, float, float]:
    cpu = 0.0
    for process in _tree():
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        # Children that ended and were waited for are only in their parent's account.
        cpu += times.user + times.system + times.children_user + times.children_system
    return time.perf_counter(), cpu, _busy_s(), _watcher_s()


def _threads_s() -> defaultdict[str, float]:
    """Sum up what the threads of all JVMs took so far, by what they do; empty without one, and where it is not told."""
    seconds = defaultdict[str, float](float)
    for process in _tree():
        for stat in Path(f"/proc/{process.pid}/task").glob("*/stat"):
            try:
                name, _, fields = stat.read_text(encoding="utf-8", errors="replace").partition("(")[2].rpartition(") ")
            except OSError:  # it ended meanwhile
                continue
            if part := _THREADS.get(name):
                user, system = fields.split()[11:13]
                seconds[part] += (int(user) + int(system)) / _TICKS
    return seconds


def _watcher_s() -> float:
    try:
        times = psutil.Process(os.getppid()).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def _busy_s() -> float:
    """Seconds that all cores together were not idle since boot."""
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    except OSError:
        return 0.0
    user, nice, system, _idle, _wait, interrupt, soft_interrupt, stolen = map(int, first.split()[1:9])
    return (user + nice + system + interrupt + soft_interrupt + stolen) / _TICKS
