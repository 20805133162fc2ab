"""A lake in a bucket that a `watch` on one host follows while files arrive, and commands of another host beside it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
import pyarrow.parquet as pq

from frazil import api
from frazil.catalog.conf import lake_access
from frazil.errors import FrazilError
from frazil.host import cache_folder
from frazil.storage.store_client import get, keys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from frazil.testing.s3 import S3Server

PATIENCE_SECONDS = 600
CHANGES = 40
KEYS = 60
HEADER = "op,id,at,name"


@dataclass(kw_only=True)
class BusyLake:
    """What arrives, what the mart must hold, and what each command said.

    Attributes:
        name: of the bucket, and of the database with the catalog.
        landing: where files arrive, for both hosts.
        hosts: the project of each; each has its own home and cache.
        living: key -> the newest value that was landed.
        erased: keys that were erased, and stay so.
    """

    name: str
    lot: Random
    landing: Path
    hosts: tuple[Path, Path]
    living: dict[int, str] = field(default_factory=dict)
    erased: set[int] = field(default_factory=set)
    files: int = 0
    _lock: Lock = field(default_factory=Lock)

    def land(self) -> None:
        """Write one file with changes of random keys, erased ones too."""
        with self._lock:
            self.files += 1
            lines = [HEADER]
            for record in range(CHANGES):
                key, at = self.lot.randint(1, KEYS), f"2026-01-01 {self.files // 60:02}:{self.files % 60:02}:00"
                op, value = self.lot.choice("IUUUD"), f"v{key}x{self.files}y{record}z"
                lines.append(f"{op},{key},{at},{value}")
                self.living.pop(key, None)
                if op != "D":
                    self.living[key] = value
            hidden = self.landing / ".new"
            hidden.write_text("\n".join([*lines, ""]))
            hidden.rename(self.landing / f"20260101-{self.files:09}.csv")

    @contextmanager
    def fed(self, every_seconds: float) -> Iterator[None]:
        """Land a file again and again while the block runs."""
        stop = Event()

        def feed() -> None:
            while not stop.wait(every_seconds):
                self.land()

        thread = Thread(target=feed)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def erase(self, key: int) -> float:
        """Erase a key by the command on the second host; return its seconds."""
        began = time.monotonic()
        command = [sys.executable, "-m", "frazil", "erase", "--select", "things", "--key", f"{key}", "--yes"]
        done = subprocess.run(
            command, cwd=self.hosts[1], env=environment(self.hosts[1]), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        self.erased.add(key)
        return time.monotonic() - began

    def occurrences(self) -> list[str]:
        """Return the files of the bucket that have a value of an erased key, in their bytes or their Parquet values."""
        wanted = [f"v{key}x" for key in self.erased]
        access = lake_access(api.load(self.hosts[0]), f"s3://{self.name}")
        found = []
        for path in (one["path"] for some in keys(access, "") for one in some):
            with suppress(FileNotFoundError):  # the watch's own runs remove files too
                content = bytes(get(access, path).bytes())
                text = content.decode("latin-1")
                if path.endswith(".parquet"):
                    text += f"{pq.read_table(io.BytesIO(content)).to_pydict()}"
                found += [f"{value} is in {path}" for value in wanted if value in text]
        return found

    def expected(self) -> dict[int, str]:
        """Return the rows that the mart must have when everything is applied."""
        with self._lock:
            return {key: value for key, value in self.living.items() if key not in self.erased}

    def rows(self) -> dict[int, str] | None:
        """Return the mart's rows; None while they can't be read."""
        with suppress(FrazilError):
            return dict(api.query(self.hosts[0], "SELECT id, name FROM marts.things").rows)
        return None

    def caught_up(self, watch: Watch) -> float:
        """Wait until the mart has all rows; return the seconds."""
        began = time.monotonic()
        while (have := self.rows()) != self.expected():
            assert watch.process.poll() is None, f"the watch has ended: {watch.said()}"
            assert time.monotonic() < began + PATIENCE_SECONDS, f"{have} and not {self.expected()}: {watch.said()}"
            time.sleep(0.5)
        return time.monotonic() - began


@dataclass
class Watch:
    """A `frazil watch` of the first host."""

    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def failed_runs(self) -> list[dict[str, Any]]:
        """Return the reports of its runs that failed."""
        runs = [json.loads(line) for line in (self.folder / "runs").read_text().splitlines()]
        assert runs
        return [run for run in runs if run["exit_code"]]

    def said(self) -> str:
        """Return what it wrote to standard error."""
        return (self.folder / "said").read_text()

    def end(self) -> int:
        """Tell it to end, and return its exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE_SECONDS)


@contextmanager
def followed(lake: BusyLake) -> Iterator[Watch]:
    """Follow the lake while the block runs."""
    folder = lake.hosts[0]
    with (folder / "runs").open("w") as runs, (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "frazil", "watch", "--json"],
            cwd=folder,
            env=environment(folder),
            stdout=runs,
            stderr=said,
        )
    try:
        yield Watch(folder, process)
    finally:
        process.kill()
        process.wait(PATIENCE_SECONDS)


def environment(host: Path) -> dict[str, str]:
    """Return the environment of a host's processes."""
    return {**os.environ, "HOME": f"{host}", "FRAZIL_CACHE": f"{host / 'cache'}", "FRAZIL_DRIVER_MEMORY": "1g"}


def new_lake(name: str, s3: S3Server, server_url: str, folder: Path) -> BusyLake:
    """Make an empty lake in a bucket of its own, with its catalog in a database of its own."""
    s3.make_bucket(name)
    with psycopg.connect(server_url, autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name}")
    landing = folder / "landing"
    landing.mkdir()
    hosts = (folder / "first", folder / "second")
    address = urlsplit(server_url)
    for host in hosts:
        (host / "cache").mkdir(parents=True)
        for kept in ("jars", "java", "start-up"):
            (host / "cache" / kept).symlink_to(cache_folder() / kept)
        (host / "secret").write_text(s3.secret_access_key)
        (host / "password").write_text(f"{address.password}")
        declared = _declaration(f"s3://{name}", s3.endpoint, f"{address.hostname}:{address.port}/{name}", landing)
        declared["lake"]["catalog"]["user"] = address.username
        declared["stores"][f"s3://{name}"]["access_key_id"] = s3.access_key_id
        (host / "frazil.yml").write_text(json.dumps(declared))
    return BusyLake(name=name, lot=Random(name), landing=landing, hosts=hosts)


def _declaration(bucket: str, endpoint: str, catalog: str, landing: Path) -> dict[str, Any]:
    table = {
        "name": "things",
        "source": {"kind": "dms", "path": f"{landing}", "header": True, "settle_seconds": 0},
        "keys": ["id"],
        "sequence_by": ["at"],
        "columns": [{"name": "id", "type": "int"}, {"name": "at", "type": "timestamp"}, {"name": "name"}],
        "marts": [{"kind": "current"}, {"kind": "history"}],
    }
    return {
        "pipeline": "shop",
        "lake": {
            "warehouse": f"{bucket}/lake",
            "catalog": {"type": "jdbc", "uri": f"jdbc:postgresql://{catalog}", "password": "${file:password}"},
        },
        "stores": {bucket: {"endpoint": endpoint, "region": "us-east-1", "secret_access_key": "${file:secret}"}},
        "upkeep": {"retain_last": 3, "orphans_after_days": 1},
        "tables": [table],
    }
