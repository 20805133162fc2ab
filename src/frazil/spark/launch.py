"""Start the Java that Spark runs in, so that it ends when this process does, and leaves nothing behind.

PySpark's own way keeps Java in the terminal's process group until it is up, and leaves it running when it is
interrupted before: the folder that Java writes its port to is gone by then, and Java waits for ever.
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

    from frazil.host.scratch import Scratch

_PORT = "gateway"
"""File in the scratch folder that Java writes its port and secret to."""


def launched(place: Scratch, conf: Mapping[str, str], log: Path, *, verbose: bool) -> Any:
    """Start Java in a scratch folder and return py4j's gateway to it.

    Java ends when its standard input does, which is when this process ends, however it ends.

    Args:
        place: Java's folder; removed when Java ends.
        conf: Spark's settings that count before Java runs, ``spark.driver.…``.
        log: file for what Java writes before Spark's own log is set up.
        verbose: it goes to the terminal instead.

    Raises:
        SessionError: Java does not start; its own words are in the message.
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
    """Keep the process's own answer to Ctrl-C while a SparkContext is made.

    A SparkContext installs another one, which calls Java in the middle of whatever the main thread asks Java just then.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Set what Spark reads while it starts; ``SPARK_HOME`` must not lead to another Spark."""
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
    """Start Java and wait until it says its port; None where it ended instead."""
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
