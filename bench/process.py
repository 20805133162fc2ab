"""Start a worker, watch its memory from outside, and wait until nothing of it is left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import psutil

from bench.data import ROOT
from bench.meter import tree_pids, tree_rss_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import TextIO

_EVERY_S: Final = 0.1
_LINGER_S: Final = 120.0
"""A JVM may write its start-up archive after the worker has ended; the next turn waits that long for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The task of one process.

    Attributes:
        contender: its name.
        home, columns, tables, heap: as in :class:`bench.contenders.contender.Task`.
        load: full load files, or none when the home is loaded.
        batches: change files of each batch.
        warm: how many of the batches only warm up.
        read: whether to read the table at the end.
        export: folder for the rows of each mart that will be checked.
    """

    contender: str
    home: str
    columns: Mapping[str, str]
    tables: Sequence[str]
    heap: str
    load: Sequence[str] = ()
    batches: Sequence[Sequence[str]] = ()
    warm: int = 0
    read: bool = False
    export: Mapping[str, str] = field(default_factory=dict)


class WorkerFailedError(Exception):
    """A contender did not end as it should; the message says how, the log has the rest."""


class Watch:
    """Samples memory and CPU of a process tree while it lives.

    Attributes:
        phase: what the tree is doing now; set it to have peaks apart.
        peak_bytes: highest resident memory seen in each phase.
    """

    def __init__(self, pid: int) -> None:
        self.phase = "start"
        self.peak_bytes: dict[str, int] = defaultdict(int)
        self._pid, self._cpu_s, self._seen = pid, dict[int, float](), set[int]()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all processes of the tree, as last seen."""
        return sum(self._cpu_s.values())

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join()

    def end(self) -> None:
        """Stop, and wait until what the tree left behind has ended too."""
        self.stop()
        until = time.monotonic() + _LINGER_S
        while any(map(_alive, self._seen)) and time.monotonic() < until:
            time.sleep(_EVERY_S)

    def _sample(self) -> None:
        while not self._stop.wait(_EVERY_S):
            self.peak_bytes[self.phase] = max(self.peak_bytes[self.phase], tree_rss_bytes(self._pid))
            for pid in tree_pids(self._pid):
                self._seen.add(pid)
                with suppress(psutil.Error):
                    times = psutil.Process(pid).cpu_times()
                    self._cpu_s[pid] = times.user + times.system


def work(order: Order, logs: Path, timeout_s: float) -> list[dict[str, Any]]:
    """Have a worker do an order.

    Returns:
        The rows it told, each with ``peak_bytes`` of its phase.

    Raises:
        WorkerFailedError: it ended with an error, or not in time; then it has been killed.
    """
    logs.mkdir(parents=True, exist_ok=True)
    order_file, log = logs / f"{order.contender}.order.json", logs / f"{order.contender}.log"
    order_file.write_text(json.dumps(asdict(order)), encoding="utf-8")
    ear, mouth = os.pipe()
    command = [sys.executable, "-m", "bench.worker", str(order_file), str(mouth)]
    with log.open("wb") as sink, os.fdopen(ear, encoding="utf-8") as told:
        process = subprocess.Popen(
            command, stdout=sink, stderr=sink, pass_fds=[mouth], start_new_session=True, cwd=ROOT
        )
        os.close(mouth)
        watch = Watch(process.pid)
        # Killed by a clock of its own: reading what is told blocks while the worker is silent.
        clock = threading.Timer(timeout_s, _kill, [process])
        clock.start()
        try:
            rows = _listen(told, watch)
            code = process.wait()
        finally:
            late = not clock.is_alive()
            clock.cancel()
            _kill(process)
            watch.end()
    if late:
        raise WorkerFailedError(f"not done after {timeout_s:.0f} s")
    if code:
        raise WorkerFailedError(_reason(log.read_text(encoding="utf-8", errors="replace")) or f"ended with {code}")
    return [row | {"peak_bytes": watch.peak_bytes[row["phase"].partition("-")[0]]} for row in rows]


def _listen(told: TextIO, watch: Watch) -> list[dict[str, Any]]:
    rows = []
    for line in told:
        row = json.loads(line)
        if "began" in row:
            watch.phase = row["began"]
        else:
            rows.append(row)
    return rows


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the worker's own session of processes, if it is still there."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _reason(log: str) -> str:
    """Find what a worker died of: the last line that names an error, and what follows it."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    named = [number for number, line in enumerate(lines) if re.match(r"[\w.]+(Error|Exception)\b", line)]
    return " ".join(lines[named[-1] :] if named else lines[-1:])[:300]
