"""Throw-away Apache Kafka brokers on 127.0.0.1, for tests and demonstrations: one node, KRaft mode, no ZooKeeper.

The jars come from Maven's repositories through the Ivy that Spark brings along, once, into the cache folder; behind a
mirror ``$FRAZIL_IVY_SETTINGS`` names an Ivy settings file. Only tests run them, so their content is not pinned.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from base64 import urlsafe_b64encode
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import SetupError
from frazil.testing.machine import answers, free_ports, java_program, spark_jars

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION: Final = "4.1.0"
_ARTIFACT: Final = "kafka_2.13"
_START_SECONDS: Final = 240
_STOP_SECONDS: Final = 30
_FETCH_SECONDS: Final = 590
_HEAP: Final = ("-Xmx256m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SETTINGS: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.backoff.ms": "200",
}


@dataclass(slots=True)
class Kafka:
    """A broker, started or not; its data stays in its folder until :func:`kafka` ends.

    Attributes:
        folder: its data, settings and log.
        port: of the broker.
    """

    folder: Path
    port: int
    _controller: int
    _process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def servers(self) -> str:
        """Return what clients begin with."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """Return the process, None where none runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            SetupError: it does not; says why.
        """
        jars, java = jars_folder(), java_program()
        log = self.folder / "kafka.log"
        settings = self.folder / "server.properties"
        is_new = not settings.exists()
        if is_new:
            addresses = {
                "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
                "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
                "log.dirs": f"{self.folder / 'data'}",
            }
            lines = [f"{name}={value}\n" for name, value in (_SETTINGS | addresses).items()]
            settings.write_text("".join(lines), encoding="utf-8")
        command: list[Any] = [java, *_HEAP, "-cp", f"{jars}/*"]
        with log.open("ab") as out:
            if is_new:
                made = [*command, "kafka.tools.StorageTool", "format", f"--cluster-id={_cluster_id()}", "-c", settings]
                subprocess.run(made, stdout=out, stderr=out, check=False, timeout=_START_SECONDS)
            self._process = subprocess.Popen(
                [*command, "kafka.Kafka", settings], stdout=out, stderr=out, start_new_session=True
            )
        until = monotonic() + _START_SECONDS
        while not answers(self.port):
            if self._process.poll() is not None or monotonic() > until:
                self.kill()
                said = log.read_text(encoding="utf-8", errors="replace")[-2000:]
                raise SetupError(f"Kafka does not start: {said}", hint="it needs Java 17 or 21 and 300 MB of memory")
            sleep(0.1)

    def stop(self) -> None:
        """Stop it as an operator would."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(how)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def kafka() -> Iterator[Kafka]:
    """Run a broker while the block runs; its data goes with it.

    Raises:
        SetupError: Java is missing, the jars cannot be fetched, or the broker does not start.
    """
    folder = Path(tempfile.mkdtemp(prefix="frazil-kafka-"))
    port, controller = free_ports(2)
    broker = Kafka(folder, port, controller)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


def jars_folder() -> Path:
    """Return the folder with Kafka's jars, which are fetched if they are not there.

    Raises:
        SetupError: they cannot be fetched.
    """
    cache = Path(os.environ.get("FRAZIL_CACHE") or Path.home() / ".cache" / "frazil")
    ready = cache / f"kafka-{VERSION}"
    if ready.is_dir():
        return ready
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as work:
        command: list[Any] = [java_program(), "-cp", _ivy(), "org.apache.ivy.Main", "-warn"]
        if settings := os.environ.get("FRAZIL_IVY_SETTINGS"):
            command += ["-settings", settings]
        command += ["-dependency", "org.apache.kafka", _ARTIFACT, VERSION, "-types", "jar", "bundle"]
        command += ["-cache", f"{work}/ivy", "-confs", "default"]
        command += ["-retrieve", f"{work}/jars/[artifact]-[revision].[ext]"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_FETCH_SECONDS)
        if not list(Path(work, "jars").glob(f"{_ARTIFACT}-{VERSION}.jar")) or answer.returncode:
            raise SetupError(
                f"Kafka's jars cannot be fetched: {answer.stdout[-500:]} {answer.stderr[-500:]}",
                hint=f"behind a mirror set FRAZIL_IVY_SETTINGS; or put the jars of {_ARTIFACT} {VERSION} into {ready}",
            )
        try:
            Path(work, "jars").rename(ready)
        except OSError:
            if not ready.is_dir():  # else another process was first
                raise
    return ready


def _ivy() -> str:
    return f"{spark_jars('ivy')[0]}"


def _cluster_id() -> str:
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
