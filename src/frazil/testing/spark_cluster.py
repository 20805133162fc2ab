"""Throw-away Spark clusters on 127.0.0.1: a master and its workers, each a process.

They come with PySpark's own jars, so there is nothing to install.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

import psutil

from frazil.errors import SetupError
from frazil.testing.machine import free_ports, java_program, spark_jars

if TYPE_CHECKING:
    from collections.abc import Iterator

QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
"""Options of a Java that lives for minutes: it compiles fast rather than well."""

_START_SECONDS: Final = 240
_PR_SET_PDEATHSIG: Final = 1
_EXECUTOR: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A standalone cluster that runs.

    Attributes:
        master: its address, for ``spark-submit --master``.
        folder: its logs, and the folders its applications work in.
        environment: what a driver needs, such as the Java to start.
    """

    master: str
    folder: Path
    environment: dict[str, str]
    _processes: tuple[subprocess.Popen[bytes], ...]

    def executors(self) -> list[int]:
        """Return the pids of the executors that are alive, oldest first."""
        found: list[psutil.Process] = []
        for worker in self._processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                found += psutil.Process(worker.pid).children(recursive=True)
        return [process.pid for process in sorted(found, key=_age) if _is_executor(process)]

    def kill_executor(self, pid: int) -> bool:
        """End an executor as a lost machine would; False where it has ended by itself."""
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True


@contextmanager
def spark_cluster(*, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[SparkCluster]:
    """Run a cluster while the block runs. Files of its applications are removed with it.

    Args:
        workers: processes that start executors.
        cores: of each worker.
        memory: that each worker gives to executors.

    Raises:
        SetupError: it does not start; says why.
    """
    folder = Path(tempfile.mkdtemp(prefix="frazil-spark-"))
    environment = {
        "JAVA_HOME": f"{Path(java_program()).resolve().parents[1]}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        # A worker of a PySpark wheel does not find it.
        "SPARK_SCALA_VERSION": _core().name.removeprefix("spark-core_").partition("-")[0],
    }
    port, page, *pages = free_ports(2 + workers)
    master = f"spark://127.0.0.1:{port}"
    processes: list[subprocess.Popen[bytes]] = []
    try:
        place = ["--host", "127.0.0.1", "--port", f"{port}", "--webui-port", f"{page}"]
        processes.append(_started("master.Master", place, folder / "master.log", environment))
        _wait_for("Starting Spark master", folder / "master.log", processes[-1])
        for number, its_page in enumerate(pages):
            size = ["--cores", f"{cores}", "--memory", memory, "--work-dir", f"{folder / f'work-{number}'}"]
            place = ["--host", "127.0.0.1", "--webui-port", f"{its_page}", *size, master]
            log = folder / f"worker-{number}.log"
            processes.append(_started("worker.Worker", place, log, environment))
            _wait_for("Successfully registered with master", log, processes[-1])
        yield SparkCluster(master, folder, environment, tuple(processes[1:]))
    finally:
        for process in reversed(processes):
            _kill_group(process)
        shutil.rmtree(folder, ignore_errors=True)


def _core() -> Path:
    """Return Spark's main jar, whose name tells the version of Scala."""
    return spark_jars("spark-core_2.*")[0]


def _started(role: str, words: list[str], log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    jars = _core().parent
    settings = log.with_suffix(".properties")
    settings.write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.out.ref = out\n"
        "appender.out.name = out\nappender.out.type = Console\n"
        "appender.out.layout.type = PatternLayout\nappender.out.layout.pattern = %p %c{1}: %m%n%ex\n",
        encoding="ascii",
    )
    java = Path(environment["JAVA_HOME"], "bin", "java")
    options = ["-Xmx256m", f"-Dlog4j2.configurationFile={settings}", "-cp", f"{jars}/*"]
    command = [f"{java}", *options, f"org.apache.spark.deploy.{role}", *words]
    with log.open("ab") as out:
        return subprocess.Popen(
            command,
            stdout=out,
            stderr=out,
            cwd=log.parent,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call, no lock
            env={**os.environ, **environment, "SPARK_HOME": f"{jars.parent}"},
        )


def _die_with_parent() -> None:
    """Have the system kill this process when the one that started it is killed, which ends no block then."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait_for(words: str, log: Path, process: subprocess.Popen[bytes]) -> None:
    until = monotonic() + _START_SECONDS
    while words not in (said := log.read_text(encoding="utf-8", errors="replace")):
        if process.poll() is not None or monotonic() > until:
            raise SetupError(
                f"the Spark cluster does not start: {said[-2000:]}", hint="look at the memory and the ports"
            )
        sleep(0.1)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and the executors that it has started, which are in its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _is_executor(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return _EXECUTOR in process.cmdline()
    return False


def _age(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.NoSuchProcess):
        return float(process.create_time())
    return 0.0
