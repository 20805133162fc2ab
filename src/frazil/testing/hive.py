"""Throw-away Hive metastores on 127.0.0.1, for tests and demonstrations: the one of Spark's own jars, on Derby."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import escape

from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError

from frazil.errors import SetupError
from frazil.testing.machine import answers, free_ports, java_program, spark_jars

if TYPE_CHECKING:
    from collections.abc import Iterator

_START_SECONDS: Final = 240
_OPTIONS: Final = (
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "net", "util")),
)
_SETTINGS: Final = {
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
    "datanucleus.schema.autoCreateAll": "true",
    "datanucleus.connectionPoolingType": "NONE",
    "hive.metastore.schema.verification": "false",
    "hive.async.log.enabled": "false",  # it needs a library that Spark does not have
}


@contextmanager
def hive_metastore() -> Iterator[str]:
    """Run a metastore while the block runs; gives its address. Its database goes with it.

    Raises:
        SetupError: Java or PySpark's jars are missing, or the metastore does not start.
    """
    folder = Path(tempfile.mkdtemp(prefix="frazil-hive-"))
    gateway, port = free_ports(2)
    java = _java(folder, gateway)
    try:
        _wait(gateway, java, folder)
        _start(JavaGateway(gateway_parameters=GatewayParameters(port=gateway)).jvm, port)
        _wait(port, java, folder)
        yield f"thrift://127.0.0.1:{port}"
    finally:
        java.kill()
        java.communicate()
        shutil.rmtree(folder, ignore_errors=True)


def _java(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """Start a Java with Hive's classes that is spoken to at the port; its settings and its log are in the folder."""
    jars = spark_jars("hive-metastore")[0].parent
    settings = _SETTINGS | {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'metastore'};create=true",
        "hive.metastore.warehouse.dir": f"{folder / 'warehouse'}",
    }
    lines = (
        f"<property><name>{name}</name><value>{escape(text)}</value></property>" for name, text in settings.items()
    )
    (folder / "hive-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>", encoding="utf-8")
    files = [f"-Dderby.stream.error.file={folder / 'derby.log'}", f"-Djava.io.tmpdir={folder}"]
    server = ["py4j.GatewayServer", "--die-on-broken-pipe", f"{port}"]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [java_program(), *_OPTIONS, *files, "-cp", f"{folder}:{jars}/*", *server],
            stdin=subprocess.PIPE,  # it ends with this process
            stdout=log,
            stderr=log,
            cwd=folder,
        )


def _start(jvm: Any, port: int) -> None:
    metastore = jvm.org.apache.hadoop.hive.metastore
    # The tables of locks are not created with the others, but writing Iceberg tables needs them.
    metastore.txn.TxnDbUtil.prepDb(jvm.org.apache.hadoop.hive.conf.HiveConf())
    bridge = jvm.org.apache.hadoop.hive.shims.ShimLoader.getHadoopThriftAuthBridge()
    Thread(target=_serve, args=(metastore, port, bridge), daemon=True).start()


def _serve(metastore: Any, port: int, bridge: Any) -> None:
    with suppress(Py4JError):  # it ends when its Java does
        metastore.HiveMetaStore.startMetaStore(port, bridge)


def _wait(port: int, java: subprocess.Popen[bytes], folder: Path) -> None:
    until = monotonic() + _START_SECONDS
    while java.poll() is None and monotonic() < until:
        if answers(port):
            return
        sleep(0.1)
    said = (folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:]
    raise SetupError(f"the metastore does not start: {said}")
