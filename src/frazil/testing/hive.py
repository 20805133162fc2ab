"""Throw-away Hive metastores on 127.0.0.1, for tests and demonstrations: the one of Spark's own jars, on Derby."""

from __future__ import annotations

import shutil
import socket
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import escape

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError

from frazil.errors import SetupError
from frazil.testing.java import java_program, spark_jars

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
        SetupError: there is no Java, PySpark comes without its jars, or it does not start.
    """
    folder = Path(tempfile.mkdtemp(prefix="frazil-hive-"))
    port = _free_port()
    with (folder / "log").open("wb") as log:
        gateway = _gateway(folder, log)
        try:
            _start(gateway.jvm, port)
            if not _answers_soon(port):
                raise SetupError(f"the metastore does not start: {(folder / 'log').read_text()[-2000:]}")
            yield f"thrift://127.0.0.1:{port}"
        finally:
            gateway.shutdown()
            gateway.java_process.kill()
            gateway.java_process.wait()
            shutil.rmtree(folder, ignore_errors=True)


def _gateway(folder: Path, log: Any) -> JavaGateway:
    """Start a Java with Hive's classes, which reads its settings from the folder."""
    jars = spark_jars("hive-metastore")[0].parent
    settings = _SETTINGS | {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'metastore'};create=true",
        "hive.metastore.warehouse.dir": f"{folder / 'warehouse'}",
    }
    lines = (
        f"<property><name>{name}</name><value>{escape(text)}</value></property>" for name, text in settings.items()
    )
    (folder / "hive-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>", encoding="utf-8")
    port, process = launch_gateway(
        classpath=f"{folder}:{jars}/*",
        jarpath=f"{spark_jars('py4j')[0]}",
        javaopts=[*_OPTIONS, f"-Dderby.stream.error.file={folder / 'derby.log'}", f"-Djava.io.tmpdir={folder}"],
        die_on_exit=True,
        java_path=java_program(),
        redirect_stdout=log,
        redirect_stderr=log,
        return_proc=True,
        cwd=f"{folder}",
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    gateway.java_process = process
    return gateway


def _start(jvm: Any, port: int) -> None:
    metastore = jvm.org.apache.hadoop.hive.metastore
    # The tables of its locks are not made with the others; without them no Iceberg table can be written.
    metastore.txn.TxnDbUtil.prepDb(jvm.org.apache.hadoop.hive.conf.HiveConf())
    bridge = jvm.org.apache.hadoop.hive.shims.ShimLoader.getHadoopThriftAuthBridge()
    Thread(target=_serve, args=(metastore, port, bridge), daemon=True).start()


def _serve(metastore: Any, port: int, bridge: Any) -> None:
    with suppress(Py4JError):  # it ends when its Java does
        metastore.HiveMetaStore.startMetaStore(port, bridge)


def _answers_soon(port: int) -> bool:
    until = monotonic() + _START_SECONDS
    while monotonic() < until:
        with socket.socket() as asking:
            asking.settimeout(1)
            if asking.connect_ex(("127.0.0.1", port)) == 0:
                return True
        sleep(0.1)
    return False


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
