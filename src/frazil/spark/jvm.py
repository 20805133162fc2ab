"""Start the Java that Spark runs in: its options, class path, log and archive of classes; it ends with this process.

PySpark keeps Java in the terminal's process group until it is up. If it is interrupted before, Java keeps running: it
waits without end for the removed folder that it should write its port to.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pwd
import shlex
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from frazil.errors import SessionError
from frazil.host import default_heap_mib, keep_text, kept_folder, scratch
from frazil.older_spark import is_older_spark
from frazil.spark.jars import jars_for, ready_jars
from frazil.spark.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from io import BufferedWriter

    from frazil.host import Scratch
    from frazil.spark.java import JavaHome
    from frazil.spec import Pipeline

_SHORT: Final = [
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    # Address space for compiled code. Java's 48 MB for its simple compiler are full after some hundred queries; then it
    # mostly discards code and compiles it again.
    "-XX:ReservedCodeCacheSize=256m",
]
_STEADY: Final = [
    # A batch of changes runs much code a few thousand times: with Java's own thresholds its optimising compiler
    # takes more processor time than the work. Bulk loads still reach it. The cache holds what both compilers made.
    "-XX:Tier4InvocationThreshold=60000",
    "-XX:Tier4MinInvocationThreshold=10000",
    "-XX:Tier4CompileThreshold=200000",
    "-XX:Tier4BackEdgeThreshold=600000",
    # It also writes called code into the calling code less deeply than by default: half the work, no slower code.
    "-XX:MaxInlineLevel=9",
    "-XX:InlineSmallCode=1000",
    "-XX:FreqInlineSize=200",
    "-XX:ReservedCodeCacheSize=512m",
    # A batch's objects are garbage when it ends, so concurrent collection only takes time from the work. The parts of
    # the heap have fixed sizes: otherwise memory grows for several batches before it is stable.
    "-XX:+UseParallelGC",
    "-XX:-UseAdaptiveSizePolicy",
    "-XX:NewRatio=3",
    "-XX:SurvivorRatio=6",
    # Memory that Java's own libraries free stays with the process, a megabyte more a batch, unless it is trimmed.
    "-XX:+IgnoreUnrecognizedVMOptions",  # a Java 17 from before 2023 does not know the next one
    "-XX:TrimNativeHeapInterval=10000",
    # Otherwise every thread keeps an off-heap buffer as large as its largest read.
    "-Djdk.nio.maxCachedBufferSize=1048576",
]
_LOG_LIMIT_BYTES: Final = 10_000_000
_LOG4J: Final = """\
rootLogger.level = ${{sys:frazil.level:-warn}}
rootLogger.appenderRef.out.ref = out
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
{appender}
"""
_TO_TERMINAL: Final = "appender.out.type = Console\nappender.out.target = SYSTEM_ERR"
_TO_FILE: Final = "appender.out.type = File\nappender.out.append = true\nappender.out.fileName = {log}"


def verify_user() -> None:
    """Refuse to start Java as a user without a name on this machine: Hadoop, which Spark needs, does not work there.

    Raises:
        SessionError: the system does not know the user of this process, as in a container with a number as its user.
    """
    number = os.geteuid()
    try:
        pwd.getpwuid(number)
    except KeyError:
        raise SessionError(
            f"user {number} has no name on this machine, and Spark needs one",
            hint=f"give the user a name; in an image: RUN useradd --uid {number} frazil",
        ) from None


def start_java(
    pipeline: Pipeline, *, memory: str | None, short: bool, verbose: bool, tell: Callable[[str], object]
) -> Any:
    """Start Java with the pipeline's jars, and return py4j's gateway to it.

    Args:
        pipeline: gives the jars.
        memory: heap, such as ``2g``; None: ``$FRAZIL_DRIVER_MEMORY``, else a share of the machine's memory.
        short: use the options for a run of less than about a minute.
        verbose: write Spark's warnings to the terminal, not to a file.
        tell: called with a line of text before a download.

    Raises:
        SessionError: as :func:`verify_user`, or Java does not start.
        JavaError, JarError: no Java is found, or a jar cannot be fetched.
    """
    verify_user()
    java = find_java()
    jars = ready_jars(jars_for(pipeline), tell=tell)
    heap = memory or os.environ.get("FRAZIL_DRIVER_MEMORY") or f"{default_heap_mib()}m"
    place = scratch()
    options = [
        f"-Dlog4j2.configurationFile={_log4j(verbose=verbose)}",
        "-Duser.timezone=UTC",
        *_level(),
        f"-Djava.io.tmpdir={place.folder}",
    ]
    if sys.platform == "linux":
        # Hadoop starts chmod for every local file; VFORK starts it without a helper program.
        options.append("-Djdk.lang.Process.launchMechanism=VFORK")
    options += [
        *start_up_options(java, jars, place.unfinished),
        *(_SHORT if short else [*_STEADY, f"-Xms{heap}"]),
    ]
    launch = {
        "spark.driver.memory": heap,
        # On the class path from the start: later jars are copied, load slower and cannot be archived.
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.driver.extraJavaOptions": " ".join(f'"{option}"' for option in options),
    }
    log = kept_folder("logs") / "spark.log"
    _begin_again(log)
    if not is_older_spark():
        # PySpark 4 loads pandas at its first call of Java; here it does so while Java starts.
        Thread(target=import_module, args=["pyspark.testing.utils"], daemon=True).start()
    return launched(place, launch, log, verbose=verbose)


def _level() -> list[str]:
    """Return Java's option for the level of its log: that of Python's logger ``frazil``, if it has one."""
    level = logging.getLogger("frazil").level
    return [f"-Dfrazil.level={logging.getLevelName(level).lower().replace('warning', 'warn')}"] if level else []


def _begin_again(log: Path) -> None:
    """Remove the log if it is long. Another process that starts at the same time may remove it first."""
    with suppress(FileNotFoundError):
        if log.stat().st_size > _LOG_LIMIT_BYTES:
            log.unlink()


def _log4j(*, verbose: bool) -> Path:
    folder = kept_folder("logs")
    appender = _TO_TERMINAL if verbose else _TO_FILE.format(log=folder / "spark.log")
    return keep_text(
        folder / f"log4j2-{'terminal' if verbose else 'file'}.properties", _LOG4J.format(appender=appender)
    )


_CLAIM_SECONDS: Final = 3600
_KEEP_SECONDS: Final = 30 * 86400


def start_up_options(java: JavaHome, jars: Sequence[Path], unfinished: list[Path]) -> list[str]:
    """Return the Java options that use an archive of Spark's classes, or that create it.

    The first session of a (Java, Spark, jars) triple records the classes that it loads, and writes the archive when it
    ends. Later sessions map that file instead of reading and verifying thousands of classes. Java verifies the archive
    at each start, and ignores it if it does not match Java and the jars.

    Creating it slows that session by about a quarter, and leaves a file of 190 MB, written after the session's process
    has ended. No options are returned if ``$FRAZIL_START_UP_ARCHIVE`` is ``off``, or while another session creates the
    archive.

    Args:
        java: the Java to start.
        jars: the jars on its class path.
        unfinished: an archive that Java is about to create is added here, to be removed if Java is killed.
    """
    if os.environ.get("FRAZIL_START_UP_ARCHIVE") == "off":
        return []
    parts = (java.home.resolve(), java.version, Path(pyspark.__file__), pyspark.__version__, *jars)
    name = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]
    folder = kept_folder("start-up")
    archive = folder / f"{name}.jsa"
    silent = ["-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr"]
    base = _base(java, folder / f"{name}.base.jsa")
    if archive.is_file():
        return [f"-XX:SharedArchiveFile={os.pathsep.join(map(str, [*base, archive]))}", *silent]
    if _claimed(folder, name):
        return []
    claim = folder / f"{name}.jsa.part.{os.getpid()}"
    claim.touch()
    unfinished.append(claim)
    return [*(f"-XX:SharedArchiveFile={path}" for path in base), f"-XX:ArchiveClassesAtExit={claim}", *silent]


def _base(java: JavaHome, path: Path) -> list[Path]:
    """Return the archive of Java's own classes to build on; empty if Java brings one, which it finds itself.

    Trimmed runtimes lack it, so it is created here (13 MB, half a second). If that fails, Java runs without it.
    """
    if (java.home / "lib" / "server" / "classes.jsa").is_file():
        return []
    if not path.is_file():
        fresh = path.with_name(f"{path.name}.part.{os.getpid()}")
        dump = [
            f"{java.home / 'bin' / 'java'}",
            "-Xshare:dump",
            f"-XX:SharedArchiveFile={fresh}",
            "-Xlog:disable",
        ]
        if subprocess.run(dump, capture_output=True, check=False).returncode == 0:
            fresh.replace(path)
    return [path]


def _claimed(folder: Path, name: str) -> bool:
    """Return whether a session is creating the archive. Removes files of killed sessions and old installations."""
    now, claimed = time.time(), False
    for path in folder.glob("*.jsa*"):
        try:
            age_seconds = now - path.stat().st_mtime
        except FileNotFoundError:  # another session has ended, or swept it away
            continue
        if age_seconds > (_CLAIM_SECONDS if ".part." in path.name else _KEEP_SECONDS):
            path.unlink(missing_ok=True)
        elif path.name.startswith(f"{name}.jsa.part."):
            claimed = True
    return claimed


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
    _keep_classes(gateway.jvm)
    return gateway


def _keep_classes(jvm: Any) -> None:
    """Keep the classes that PySpark asks for by a short name with each column and each error.

    Java looks for such a class in every package that PySpark imports, and each miss searches all jars: a millisecond.
    """
    for name in ("PythonUtils", "PythonErrorUtils", "PythonSQLUtils", "functions"):
        setattr(jvm, name, getattr(jvm, name))
    jvm.py4j = jvm.py4j
    jvm.py4j.reflection = jvm.py4j.reflection
    jvm.py4j.reflection.TypeUtil = jvm.py4j.reflection.TypeUtil


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
