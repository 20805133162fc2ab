"""The whole stack as ``make up`` starts it: from a change in PostgreSQL to a report of dbt in Trino."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import trino

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SECONDS = 900


class Stack:
    """The stack in a folder and on ports of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {name: free_port() for name in ("POSTGRES_PORT", "TRINO_PORT", "AIRFLOW_PORT")}
        self.ports["S3_PORT"] = free_port_of_s3()

    def make(self, verb: str) -> str:
        settings = {**self.ports, "STACK_FOLDER": self.folder}
        words = ["make", verb, *(f"{name}={value}" for name, value in settings.items())]
        ended = subprocess.run(words, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def ask(self, sql: str) -> list[Any]:
        place = {"host": "127.0.0.1", "port": self.ports["TRINO_PORT"], "user": "me", "catalog": "lake"}
        with contextlib.closing(trino.dbapi.connect(**place)) as asked:
            cursor = asked.cursor()
            cursor.execute(sql)
            return [*cursor.fetchone()]

    def trigger(self, dag: str) -> None:
        place = f"http://127.0.0.1:{self.ports['AIRFLOW_PORT']}"
        with urllib.request.urlopen(f"{place}/auth/token", timeout=60) as answer:  # noqa: S310
            token = json.load(answer)["access_token"]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        body = json.dumps({"logical_date": None}).encode()
        request = urllib.request.Request(f"{place}/api/v2/dags/{dag}/dagRuns", body, headers)  # noqa: S310
        ends = time.monotonic() + SECONDS
        while True:
            try:
                urllib.request.urlopen(request, timeout=60).close()  # noqa: S310
            except urllib.error.HTTPError as error:
                # Airflow's SQLite has one writer: the scheduler may hold it for longer than a request waits.
                if error.code != HTTPStatus.INTERNAL_SERVER_ERROR or time.monotonic() > ends:
                    raise
                time.sleep(1)
            else:
                return

    def processes(self) -> list[psutil.Process]:
        """All that was started, and what they have started."""
        known = json.loads((self.folder / "pids.json").read_text(encoding="utf-8"))
        family: list[psutil.Process] = []
        for pid, _ in known.values():
            family += [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        return family

    def listens_at(self) -> set[str]:
        """The addresses at which any of it listens."""
        found = set()
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):  # it ended since it was listed
                connections = process.net_connections(kind="tcp")
                found |= {one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN}
        return {address.removeprefix("::ffff:") for address in found}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def free_port_of_s3() -> int:
    """Find a free port whose next four, and the same ports plus 10,000, are free too."""
    for port in range(20_000, 30_000, 5):
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for other in (*range(port, port + 5), *range(port + 10_000, port + 10_005)):
                held.enter_context(socket.socket()).bind(("127.0.0.1", other))
            return port
    raise OSError("no port is free")


@pytest.fixture
def stack() -> Iterator[Stack]:
    folder = Path(tempfile.mkdtemp(prefix="frazil-stack-"))
    folder.chmod(0o755)  # the server's own user goes through it
    made = Stack(folder)
    yield made
    made.make("down")
    shutil.rmtree(folder)


@pytest.mark.server
@pytest.mark.parametrize("is_emptied", [False, pytest.param(True, marks=pytest.mark.laws)])
def test_a_change_in_the_database_is_in_the_report_of_dbt_and_all_of_it_stops(
    stack: Stack, *, is_emptied: bool
) -> None:
    said = stack.make("up")
    assert all(f"127.0.0.1:{port}" in said for port in stack.ports.values())
    assert stack.ask("SELECT sum(orders), (SELECT count(*) FROM reports.busy_orders) FROM gold.revenue_by_day") == [
        2000,
        0,
    ]
    assert "runs already" in stack.make("up")
    assert stack.listens_at() == {"127.0.0.1"}

    assert "2,100 orders" in stack.make("generate-data")
    stack.trigger("shop")

    ends = time.monotonic() + SECONDS
    while stack.ask("SELECT count(*) FROM reports.busy_orders")[0] == 0 and time.monotonic() < ends:
        time.sleep(1)
    busy, versions = stack.ask(
        "SELECT (SELECT sum(updates) FROM reports.busy_orders), count(*) - count(DISTINCT order_id) "
        "FROM marts.orders_history_scd2"
    )
    assert busy == versions > 0

    if is_emptied:
        # A rule keeps the tables from being emptied; what is written after the truncate lets the next run pass.
        assert "0 orders" in stack.make("truncate")
        assert "2,000 orders" in stack.make("generate-data")
        stack.trigger("shop")
        ends = time.monotonic() + SECONDS
        while stack.ask("SELECT count(*) FROM marts.orders")[0] != 2_000 and time.monotonic() < ends:
            time.sleep(1)
        assert stack.ask("SELECT count(*), max(order_id) FROM marts.orders") == [2_000, 2_000]
    at_work = stack.processes()
    stack.make("down")
    _, left = psutil.wait_procs(at_work, timeout=120)
    assert left == []
    assert "nothing runs" in stack.make("down")
