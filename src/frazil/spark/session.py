"""The Spark session: Frazil's own on this machine, or one that the user passes in."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, WeakSet

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from frazil.catalog.conf import EXTENSIONS, PREFIX, SECRET_SETTINGS, catalog_conf
from frazil.errors import JarError, SessionError, StorageError
from frazil.host import usable_cores
from frazil.spark.gateway import java_class, settings_in_java
from frazil.spark.jars import jars_for
from frazil.spark.java import find_java, spark_java_home
from frazil.spark.jvm import environment, own_interrupts, start_java
from frazil.spec import CATALOG, EmbeddedCatalog
from frazil.spec.location import embedded_catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from frazil.spec import Pipeline

TUNED: Final = ("spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled")
"""Settings that users adapt to the size of their data, also while a session runs."""

_idle: Final[WeakKeyDictionary[SparkSession, list[tuple[dict[str, str], SparkSession]]]] = WeakKeyDictionary()
"""Idle sessions, with the settings of their lake, by the session that they were created from."""
_fit: Final[WeakSet[SparkSession]] = WeakSet()
"""Sessions that were checked to have Iceberg's extensions and jars."""


def spark_session(
    pipeline: Pipeline,
    *,
    memory: str | None = None,
    app_name: str | None = None,
    short: bool = False,
    verbose: bool = False,
    tell: Callable[[str], object] = lambda _: None,
) -> SparkSession:
    """Return a session on this machine whose catalog ``lake`` is the pipeline's.

    A session that already runs in this process is reused; if it has another lake, the result is a new session beside
    it. Under ``spark-submit`` the submitted settings stay, and only the lake is added.

    Args:
        pipeline: gives the catalog, the warehouse and the jars.
        memory: heap of the driver, such as ``2g``. Left out: ``$FRAZIL_DRIVER_MEMORY``, else a quarter of the
            memory, 1 to 4 GiB. It counts, like ``short`` and ``verbose``, where this call starts Java.
        app_name: Spark's name of the application; ``frazil <pipeline>`` by default.
        short: compile fast and collect garbage in one thread, for runs of less than about a minute.
        verbose: write Spark's warnings to the terminal, not to ``logs/spark.log`` in the cache folder.
        tell: called with a line of text before a slow one-time step, such as a download.

    Raises:
        JavaError, JarError: no Java is found, or a jar cannot be fetched.
        StorageError: the warehouse's folder cannot be created.
        SessionError: Java does not start, for a reason it names, Java of this process has ended, or the running session
            lacks Iceberg.
        DeclarationError: the catalog refers to a secret that is not there.
    """
    refuse_connect()
    lake = _opened(pipeline)
    _require_java()
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - the only way to see it from every thread
        return _pointed_at(SparkSession.builder.getOrCreate(), pipeline, lake)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        wanted = [
            name for name in SparkConf().get("spark.sql.extensions", "").split(",") if name and name != EXTENSIONS
        ]
        builder = SparkSession.builder.config("spark.sql.extensions", ",".join([*wanted, EXTENSIONS]))
        return adopt(builder.getOrCreate(), pipeline)

    # Other settings are passed inside the process, since every user of the machine can read a command line.
    with (
        environment(
            JAVA_HOME=f"{spark_java_home(find_java())}", PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1"
        ),
        own_interrupts(),
    ):
        if SparkContext._gateway is None:  # noqa: SLF001 - Java outlives a stopped session
            gateway = start_java(pipeline, memory=memory, short=short, verbose=verbose, tell=tell)
            SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001
        settings = _local_conf(app_name or f"frazil {pipeline.pipeline}") | lake
        context = SparkContext(conf=SparkConf().setAll(list(settings.items())))
    spark = SparkSession(context)
    # Otherwise Hadoop writes a second file of checksums for every local file, and runs chmod for both.
    files = java_class(spark, "org.apache.hadoop.fs.FileSystem")
    files.getLocal(context._jsc.hadoopConfiguration()).setWriteChecksum(False)  # noqa: SLF001
    return spark


def adopt(spark: SparkSession, pipeline: Pipeline) -> SparkSession:
    """Verify a user's session, which must have Iceberg, and add the catalog if it has none.

    Settings made at run time do not reach sessions from ``newSession()``: see :func:`siblings`.

    Raises:
        SessionError: it is a session of Spark Connect or of another Spark, its Java has ended, Iceberg's extensions are
            missing or do not load, or the session's ``lake`` is not the pipeline's.
        DeclarationError: the catalog refers to a secret that is not there.
    """
    refuse_connect(spark)
    _require_java()
    _require_iceberg(spark, pipeline)
    wanted, present = _opened(pipeline), _lake_settings(spark)
    if not present:
        return _set(spark, wanted)
    for name in ("type", "uri", "warehouse"):
        key = f"{PREFIX}.{name}"
        if key in present and key in wanted and _same_place(present[key]) != _same_place(wanted[key]):
            raise SessionError(
                f"this session's {CATALOG!r} is not the lake of {pipeline.pipeline}: {key} differs",
                hint=f"declare what the session has, or leave {PREFIX} out of it: Frazil sets it",
            )
    return spark


def lake_session(spark: SparkSession | None, pipeline: Pipeline, *, short: bool = False) -> SparkSession:
    """Return the user's session after verifying its lake, or a new session.

    Every function that takes a user's session must call this. Table names come from the declaration and the catalog
    from the session, so a session on another lake would change that lake's tables of the same names.

    Args:
        spark: the user's session; None to start one.
        pipeline: the pipeline whose lake the session must have.
        short: as for :func:`spark_session`.

    Raises:
        FrazilError: as :func:`adopt` and :func:`spark_session` raise it.
    """
    return spark_session(pipeline, short=short) if spark is None else adopt(spark, pipeline)


def _require_java() -> None:
    """Refuse to work on in a process whose Java has ended: no session of it answers, and Spark starts no second one."""
    java = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - the only place that has it
    if java is not None and java.poll() is not None:
        raise SessionError(
            "Java has ended, and with it every session of this process",
            hint="start the process again; logs/spark.log in the cache folder may say why; what was published stays",
        )


def refuse_connect(spark: object | None = None) -> None:
    """Refuse Spark Connect, with which tables would be wrong.

    Raises:
        SessionError: the session is one of Spark Connect, or a new one would be. Nothing was sent or written.
    """
    if is_remote() if spark is None else not isinstance(spark, SparkSession):
        raise SessionError(
            "this is a session of Spark Connect, which gives wrong tables",
            hint="hand over a session of Spark itself, or run the script with spark-submit; nothing was written",
        )


@contextlib.contextmanager
def siblings(spark: SparkSession, count: int) -> Iterator[list[SparkSession]]:
    """Lend sessions on the same lake, each with its own settings and views.

    Sessions are reused afterwards: Spark never closes a session's catalog, so new sessions for every run would leave
        more and more connections open. They use the given session's current settings for shuffles and adaptive plans.
    """
    tuned = {name: spark.conf.get(name) or "" for name in TUNED}
    lake, idle = _lake_settings(spark), _idle.setdefault(spark, [])
    lent: list[SparkSession] = []
    while len(lent) < count:
        settings, session = idle.pop() if idle else (lake, _beside(spark, lake))
        if settings == lake:
            lent.append(_set(session, tuned))
    try:
        yield lent
    finally:
        idle.extend((lake, session) for session in lent)


def _opened(pipeline: Pipeline) -> dict[str, str]:
    """Return the catalog's settings, and create the folder of SQLite's file."""
    settings = catalog_conf(pipeline)
    if isinstance(pipeline.lake.catalog, EmbeddedCatalog):
        folder = embedded_catalog(pipeline).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"the warehouse cannot be made: {folder}: {error.strerror}") from error
    return settings


def _local_conf(app_name: str) -> dict[str, str]:
    cores = usable_cores()
    # Java's temporary folder, which is removed when Java has ended.
    scratch_folder = SparkContext._jvm.java.lang.System.getProperty("java.io.tmpdir")  # type: ignore[union-attr] # noqa: SLF001
    return {
        "spark.app.name": app_name,
        "spark.master": f"local[{cores}]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        # Spark would keep the full plans of a thousand queries for its web page, which is off.
        "spark.sql.ui.retainedExecutions": "10",
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.broadcastExchange.maxThreadThreshold": "8",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": scratch_folder,
        "spark.redaction.regex": SECRET_SETTINGS,
        # Not used, but Spark creates the folder, by default in the working folder.
        "spark.sql.warehouse.dir": f"{scratch_folder}/spark-warehouse",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.extensions": EXTENSIONS,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": f"{min(2 * cores, 8)}",
        "spark.sql.adaptive.enabled": "true",
        # Every sort takes at least one page. Pages of 64 MB, Spark's default, slowly fill the old generation.
        "spark.buffer.pageSize": "16m",
        # One run needs more entries than the default of 100, and evicted code must be compiled again.
        "spark.sql.codegen.cache.maxEntries": "5000",
        # A view over a column with "${…}" in its name could not be read.
        "spark.sql.variable.substitute": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Idle Python workers keep their memory for a minute, while later steps need it.
        "spark.python.factory.idleWorkerMaxPoolSize": "1",
        # Recording the Python line of every column expression takes a tenth of a small batch.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }


def _require_iceberg(spark: SparkSession, pipeline: Pipeline) -> None:
    if spark in _fit:
        return
    try:
        packages = ",".join(f"{jar.group}:{jar.name}:{jar.version}" for jar in jars_for(pipeline, spark.version))
    except JarError as error:
        raise SessionError(
            f"{error.message}, which this session is", hint=f"{error.hint}; nothing was written"
        ) from error
    settings = (
        "start it with\n"
        f"    spark.jars.packages    {packages}\n"
        f"    spark.sql.extensions   {EXTENSIONS}\n"
        "or spark-submit --packages with the same; nothing was written"
    )
    if EXTENSIONS not in (spark.conf.get("spark.sql.extensions", "") or ""):
        raise SessionError(
            "this Spark session has no Iceberg extensions, and they can only be set where a session starts",
            hint=settings,
        )
    java = java_class(spark, "org.apache.spark.util.Utils")
    needed = [EXTENSIONS, "org.apache.iceberg.spark.SparkCatalog"]
    if isinstance(pipeline.lake.catalog, EmbeddedCatalog):
        needed.append("org.sqlite.JDBC")
    for name in needed:
        if not java.classIsLoadable(name):
            raise SessionError(f"this Spark session cannot load {name}: a jar is missing", hint=settings)
    _fit.add(spark)


def _pointed_at(spark: SparkSession, pipeline: Pipeline, lake: Mapping[str, str]) -> SparkSession:
    _require_iceberg(spark, pipeline)
    present = _lake_settings(spark)
    if present == lake:
        return spark
    return _beside(spark, lake) if present else _set(spark, lake)


def _lake_settings(spark: SparkSession) -> dict[str, str]:
    if getattr(spark, "_jvm", None) is None:
        present: Mapping[str, str] = spark.conf.getAll
    else:
        # Read as one text: a Java collection costs a round trip for each item.
        mapper = java_class(spark, "com.fasterxml.jackson.databind.ObjectMapper")()
        present = json.loads(mapper.writeValueAsString(settings_in_java(spark)))
    return {key: text for key, text in present.items() if key == PREFIX or key.startswith(f"{PREFIX}.")}


def _set(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    for key, text in settings.items():
        spark.conf.set(key, text)
    return spark


def _beside(spark: SparkSession, lake: Mapping[str, str]) -> SparkSession:
    """Return a new session on a lake, without the settings of the lake that Spark was started with."""
    session = spark.newSession()
    for key in _lake_settings(session).keys() - lake.keys():
        session.conf.unset(key)
    return _set(session, lake)


def _same_place(address: str) -> str:
    return address.removeprefix("file:").lstrip("/").rstrip("/")
