"""A host that shares nothing with others but the lake: a process with a warm session, told what to do line by line."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from threading import Event, Timer
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import psutil

import frazil
from frazil import api
from frazil.catalog import lock as turns
from frazil.errors import FrazilError
from frazil.host import cache_folder
from frazil.runner.capture import capture_once
from frazil.runner.maintain import maintain
from frazil.runner.options import WatchOptions
from frazil.runner.report import RunFailedError
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 900
UPKEEP_AHEAD = dt.timedelta(days=9)
"""By so much a host's `maintain` is ahead: whatever no table names is old enough to go."""
HASTE: Final = 5
"""So many times as fast a lease of these hosts ends: others wait less for a host that was stopped."""
Answer = list[str]
"""What a job came to: a line ``code message`` for each error; nothing where it was done."""


def _makes_clock(library: Path) -> bool:
    """Compile the clock that can be set; without a compiler all clocks are right."""
    compiler = shutil.which("cc")
    if compiler is None:
        return False
    source = Path(__file__).with_name("clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, source], check=True)
    return True


class Host:
    """A process with its own home, cache and session."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        cache = folder / "cache"
        cache.mkdir(parents=True)
        for name in ("jars", "java", "start-up"):
            (cache / name).symlink_to(cache_folder() / name)
        self._drivers = ""
        self.set_clock(0)
        self._has_clock = _makes_clock(folder / "clock.so")
        self.start()

    def use(self, drivers: str) -> None:
        """Have a Java that was not started with other drivers: it keeps those it began with."""
        if self._drivers not in ("", drivers):
            self.close()
            self.start()
        self._drivers = drivers

    def start(self) -> None:
        """Start its process."""
        told = {"HOME": f"{self.folder}", "FRAZIL_CACHE": f"{self.folder / 'cache'}", "FRAZIL_DRIVER_MEMORY": "1g"}
        if self._has_clock:
            told |= {"LD_PRELOAD": f"{self.folder / 'clock.so'}", "CLOCK_FILE": f"{self.folder / 'clock'}"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.end_to_end.host"],
            cwd=ROOT,
            env={**os.environ, **told},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self.folder / "log").open("ab"),
        )

    def set_clock(self, seconds: int) -> None:
        """Set its clock, and those of its Java, ahead of the right time, or back where ``seconds`` is negative."""
        # Not truncated: its processes have the file in their memory.
        with os.fdopen(os.open(self.folder / "clock", os.O_CREAT | os.O_RDWR), "r+b") as clock:
            clock.write(struct.pack("=q", seconds))

    def begin(self, job: str, folder: Path, *words: str, failpoint: str = "") -> None:
        """Begin a job; ``failpoint`` ends or stops the host where it names one.

        A folder with a file ``no-lease`` is of a lake whose store keeps none.
        """
        given = {"job": job, "folder": f"{folder}", "words": words, "failpoint": failpoint}
        assert self._process.stdin
        self._process.stdin.write(json.dumps(given).encode() + b"\n")
        self._process.stdin.flush()

    def end(self) -> Answer | None:
        """Wait until the job is done; None where the host has died, which is started again then."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not self._has_said(0.1):
            assert time.monotonic() < until, "a job does not end"
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line or self._process.poll() is not None:  # killed, before or after its answer
            self.kill()
            self.start()
        return list(json.loads(line)) if line else None

    def do(self, job: str, folder: Path, *words: str) -> Answer | None:
        """Do a job."""
        self.begin(job, folder, *words)
        return self.end()

    def pause(self, after_seconds: float | None) -> None:
        """Stop it, with all its processes: after a while, or where its failpoint does; not if its job is done before.

        Which the others see as a machine that sleeps, or a network that is cut.
        """
        until = time.monotonic() + (PATIENCE_SECONDS if after_seconds is None else after_seconds)
        while time.monotonic() < until and not self._has_said(0.02):
            if after_seconds is None and psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED:
                break
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Let it end by itself: its Java then writes the archive of classes with which later ones start quicker."""
        self.resume()
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        """End it as a loss of power does."""
        self._signal(signal.SIGKILL)
        self._process.wait(PATIENCE_SECONDS)

    def _has_said(self, seconds: float) -> bool:
        assert self._process.stdout
        return bool(select.select([self._process.stdout], [], [], seconds)[0])

    def _signal(self, number: int) -> None:
        """Send a signal to the process and to its Java, which has a process group of its own."""
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._process.pid)
            for one in (*process.children(recursive=True), process):
                with suppress(psutil.NoSuchProcess):
                    one.send_signal(number)


def _rollback(pipeline: frazil.Pipeline, spark: SparkSession) -> None:
    """Go back by one batch."""
    newest = max(mart.batch for table in api.status(pipeline).tables for mart in table.marts)
    api.rollback(pipeline, api.rollback_plan(pipeline, "things", f"batch:{newest - 1}"), spark=spark)


def _watch(pipeline: frazil.Pipeline, spark: SparkSession, seconds: float) -> None:
    """Watch for a while, and say all that failed meanwhile."""
    told: list[str] = []
    stop = Event()
    Timer(seconds, stop.set).start()
    code = api.watch(pipeline, stop, spark=spark, options=WatchOptions(tell=told.append))
    failed = [f"{found[1]} {found[2]}" for one in told if (found := re.search(r"\[(FZ\d+)\] (.*)", one))]
    if code or failed:
        raise _WatchTroubleError(failed or [f"FZ000 exit {code}"])


def _raise(failed: Mapping[str, FrazilError]) -> None:
    for error in failed.values():
        raise error


class _WatchTroubleError(Exception):
    """What a watch said of its runs."""


def _do(job: str, folder: Path, words: list[str]) -> None:
    pipeline = frazil.load(folder)
    spark = spark_session(pipeline, short=True)
    match job:
        case "run" | "rebuild":
            frazil.run(pipeline, spark=spark, rebuild=job == "rebuild")
        case "erase":
            api.erase(pipeline, "things", keys=words, spark=spark)
        case "maintain":
            maintain(pipeline, spark, now=dt.datetime.now(dt.UTC) + UPKEEP_AHEAD)
        case "cut":
            api.cut(pipeline, *words, spark=spark)
        case "rollback":
            _rollback(pipeline, spark)
        case "check":
            api.check(pipeline)
        case "capture":
            _raise(capture_once(pipeline, ["things"]))
        case "reload":
            api.reload(pipeline, words)
        case "watch":
            _watch(pipeline, spark, *map(float, words))
        case _:
            raise ValueError(job)


def _tried(told: dict[str, Any]) -> Answer:
    os.environ["FRAZIL_FAILPOINT"] = told["failpoint"]
    keeps_lease = not Path(told["folder"], "no-lease").exists()
    try:
        with nullcontext() if keeps_lease else patch("frazil.catalog.lock.leased", nullcontext):
            _do(told["job"], Path(told["folder"]), told["words"])
    except RunFailedError as error:
        return [f"{failure.code} {failure.message}" for failure in error.report.errors]
    except _WatchTroubleError as error:
        return list(error.args[0])
    except FrazilError as error:
        return [f"{error.code} {error.message}"]
    except Exception as error:  # noqa: BLE001 - as the command does
        return [f"FZ000 {type(error).__name__} {error}"]  # of an error of Java the text has its stack
    return []


def main() -> None:
    """Do one job after the other, until nobody asks any more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Java's words are no answers
    lease, beat = turns.LEASE_SECONDS / HASTE, turns.BEAT_SECONDS / HASTE
    with patch.object(turns, "LEASE_SECONDS", lease), patch.object(turns, "BEAT_SECONDS", beat):
        for line in sys.stdin:
            print(json.dumps(_tried(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
