"""The works that are not batches on a loaded table: process start, and watching a folder."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import frazil
from bench.capture import capture
from bench.contenders.contender import Task
from bench.contenders.frazil_run import Frazil
from bench.data import BUILD, dataset
from bench.process import Watch, WorkerFailedError
from bench.turns import labels_of
from frazil.errors import FrazilError
from frazil.serve.query.query import query
from frazil.spark.java import find_java, spark_java_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bench.cases import Case, Work
    from bench.turns import Manner

    Row = dict[str, Any]

_POLL_S: Final = 0.05
_BARE: Final = """
from pyspark.sql import SparkSession
SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").config(
    "spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate().stop()
"""


def start(plan: Work, case: Case, manner: Manner) -> list[Row]:
    """Time whole processes: ``frazil run`` over a small batch, and a Spark session that only starts and stops.

    Both run once before the clock starts, so that files are in memory and Frazil's start-up archive is made.
    """
    files = dataset(case, plan.warm + plan.rounds)
    home = _project("frazil-command", files.columns, files.tables, plan.heap)
    run = [_frazil(), "run", str(home)]
    _arrive(home, files.load)
    _timed(run)
    _timed([sys.executable, "-c", _BARE])
    for batch in files.batches[: plan.warm]:
        _arrive(home, batch)
        _timed(run)
    rows = []
    for number, batch in enumerate(files.batches[plan.warm :]):
        _arrive(home, batch)
        for name, command in (("frazil-command", run), ("bare-session", [sys.executable, "-c", _BARE])):
            row = labels_of(case) | {"contender": name, "round": number, "phase": "start"} | _timed(command)
            manner.say(f"  {number + 1}/{plan.rounds} · {name}: {row['wall_s']:.2f} s, {row['cpu_s']:.2f} CPU s")
            rows.append(row)
    shutil.rmtree(home)
    return rows


def watch(plan: Work, case: Case, manner: Manner) -> list[Row]:
    """Time from a file's arrival to a readable row while ``frazil watch`` follows the folder.

    A file arrives by a rename, some seconds after the one before was readable; then the mart is asked without
    a JVM until it shows a row of that file: whenever its folder has changed, which is looked at twenty times a
    second. To ask takes a sixth of a second and more than a core, which the watch would miss. Where the
    command does not exist this only says so: the row has ``skipped`` and no number.
    """
    labels = labels_of(case) | {"contender": "frazil-watch", "phase": "watch"}
    if subprocess.run([_frazil(), "watch", "--help"], capture_output=True, check=False).returncode:
        manner.say(f"  SKIPPED, {plan.batches} files not measured: there is no frazil watch")
        return [labels | {"round": 0, "skipped": "there is no frazil watch", "right": None}]
    files = dataset(case, plan.warm + plan.batches)
    home = _project("frazil-watch", files.columns, files.tables, plan.heap)
    _arrive(home, files.load)
    pauses = random.Random(1)
    rows = []
    with (home / "watch.log").open("wb") as log:
        process = subprocess.Popen([_frazil(), "watch", str(home), "--json"], stdout=log, stderr=log)
        try:
            _readable(home, "LOAD", process, manner.timeout_s)
            for number, (file,) in enumerate(files.batches, start=-plan.warm):
                time.sleep(pauses.uniform(1.0, 4.0))
                waiting = home / file.name
                shutil.copyfile(file, waiting)
                began = time.perf_counter()
                waiting.rename(home / "landing" / file.parent.name / file.name)
                _readable(home, file.name, process, manner.timeout_s)
                wall_s = round(time.perf_counter() - began, 3)
                manner.say(f"  {file.name}: {wall_s:.2f} s{' (warm-up)' if number < 0 else ''}")
                if number >= 0:
                    rows.append(labels | {"round": number, "wall_s": wall_s, "right": None})
        finally:
            process.terminate()
            process.wait(timeout=120)
    shutil.rmtree(home)
    return rows


def _readable(home: Path, name: str, process: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Wait until the current table has a row that a file of this name brought."""
    pipeline, until = frazil.load(home), time.monotonic() + timeout_s
    folder, seen = home / "lake" / "marts" / "orders" / "metadata", -1
    while time.monotonic() < until:
        if process.poll() is not None:
            raise WorkerFailedError(f"frazil watch ended with {process.returncode}")
        time.sleep(_POLL_S)
        changed = folder.stat().st_mtime_ns if folder.is_dir() else -1
        if changed == seen:
            continue
        seen = changed
        try:
            newest = query(pipeline, "SELECT max(_cdc_position) FROM marts.orders").rows[0][0]
        except FrazilError:  # nothing is there yet
            newest = None
        if newest is not None and f"/{name}" in newest:
            return
    raise WorkerFailedError(f"no row of {name} after {timeout_s:.0f} s")


SPECIAL: Final[dict[str, Callable[[Work, Case, Manner], list[Row]]]] = {
    "capture": capture,
    "start": start,
    "watch": watch,
}
"""Works with a way of their own, by name."""


def _project(name: str, columns: dict[str, str], tables: Sequence[str], heap: str) -> Path:
    home = BUILD / "homes" / name
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    task = Task(home=home, columns=columns, tables=tuple(tables), heap=heap)
    Frazil(task, marts=("current", "history"), format_version=2)  # writes the declaration
    return home


def _arrive(home: Path, files: Iterable[Path]) -> None:
    for path in files:
        folder = home / "landing" / path.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / path.name).hardlink_to(path)


def _timed(command: Sequence[str]) -> Row:
    began = time.perf_counter()
    environment = os.environ | {"JAVA_HOME": f"{spark_java_home(find_java())}"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    seen = Watch(process.pid)
    _, said = process.communicate()
    wall_s = time.perf_counter() - began
    seen.end()
    if process.returncode:
        raise WorkerFailedError(said.decode(errors="replace").strip()[-300:])
    peak = max(seen.peak_bytes.values(), default=0)
    return {"wall_s": round(wall_s, 3), "cpu_s": round(seen.cpu_s, 3), "peak_bytes": peak, "right": None}


def _frazil() -> str:
    return str(Path(sys.executable).with_name("frazil"))
