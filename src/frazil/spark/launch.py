"""Start the Java that Spark runs in, so that it ends with this process and leaves nothing behind.

PySpark keeps Java in the terminal's process group until it is up. If it is interrupted before, Java keeps running: it
waits without end for the removed folder that it should write its port to.
"""

from __future__ import annotations

import os
import shlex
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from frazil.errors import SessionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from io import BufferedWriter

    from frazil.host import Scratch

_PORT = "gateway"
"""Java writes its port and secret to this file in the scratch folder."""


def launched(place: Scratch, conf: Mapping[str, str], log: Path, *, verbose: bool) -> Any:
    """Start Java in a scratch folder and return py4j's gateway to it.

    Java ends with its standard input, so it ends when this process ends for any reason.

    Args:
        place: Java's folder; removed when Java ends.
        conf: Spark's settings that must be known before Java runs, ``spark.driver.…``.
        log: file for Java's output before Spark's own log is set up.
        verbose: write that output to the terminal instead.

    Raises:
        SessionError: Java does not start; the message quotes its output.
    """
    with log.open("ab") as sink:
        before = sink.tell()
        try:
            port, secret = _started(place, conf, None if verbose else sink)
        except BaseException:
            place.remove()
            raise
    if port is None:
        place.remove()
        said = log.read_bytes()[before:].decode(errors="replace").strip().splitlines()
        raise SessionError(
            f"Java does not start with a heap of {conf['spark.driver.memory']}"
            + "".join(f"\n  {line}" for line in said[:5]),
            hint=f"set FRAZIL_DRIVER_MEMORY to less, or look at {log}",
        )
    with environment(PYSPARK_GATEWAY_PORT=f"{port}", PYSPARK_GATEWAY_SECRET=secret):
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    gateway.proc = place.process
    return gateway


@contextmanager
def own_interrupts() -> Iterator[None]:
    """Keep the process's own handler of Ctrl-C while a SparkContext is created.

    A SparkContext installs a handler that calls Java, even in the middle of a Java call of the main thread.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Set environment variables that Spark reads while it starts, and hide ``SPARK_HOME`` of another Spark."""
    before = {name: os.environ.pop(name, None) for name in (*values, "SPARK_HOME")}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, text in before.items():
            os.environ.pop(name, None)
            if text is not None:
                os.environ[name] = text


def _started(place: Scratch, conf: Mapping[str, str], sink: BufferedWriter | None) -> tuple[int | None, str]:
    """Start Java, and return its port and secret; None for the port if Java has ended."""
    port = place.folder / _PORT
    settings = [part for name, text in conf.items() for part in ("--conf", f"{name}={text}")]
    submitted = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    java = place.start(
        [f"{Path(_find_spark_home(), 'bin', 'spark-submit')}", *settings, *submitted],  # type: ignore[no-untyped-call]
        env={**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": f"{port}"},
        stdout=sink,
        stderr=sink,
    )
    while not port.is_file():
        if java.poll() is not None:
            return None, ""
        time.sleep(0.02)
    with port.open("rb") as written:
        number: int = read_int(written)  # type: ignore[no-untyped-call]
        return number, f"{UTF8Deserializer().loads(written)}"  # type: ignore[no-untyped-call]
