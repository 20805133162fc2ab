"""The whole of Airflow, as ``airflow standalone`` starts it: from a file that lands to gold and to who waits for gold."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import HOME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

START, SECONDS = 180, 120


class Airflow:
    """A running Airflow and its API."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path: str) -> dict[str, Any]:
        """Return the answer of the API, as its only user."""
        with urllib.request.urlopen(f"{self.url}/auth/token", timeout=10) as answer:
            token = json.load(answer)["access_token"]
        request = urllib.request.Request(f"{self.url}/api/v2{path}", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return dict(json.load(answer))

    def runs(self, dag: str) -> list[dict[str, Any]]:
        """Return the runs of a DAG that succeeded, oldest first; one that failed fails the test."""
        found = self.get(f"/dags/{dag}/dagRuns?order_by=id")["dag_runs"]
        assert not [run for run in found if run["state"] == "failed"], found
        return [run for run in found if run["state"] == "success"]


def wait_for(what: str, found: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """Ask again and again until there is something; fail loudly if there never is."""
    end, last = time.monotonic() + seconds, None
    while time.monotonic() < end:
        try:
            if value := found():
                return value
        except OSError as error:
            last = error
        time.sleep(0.5)
    log = (HOME / "standalone.log").read_text(errors="replace")[-4000:]
    pytest.fail(f"{what}: not within {seconds} seconds ({last})\n{log}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def airflow(example: Path) -> Iterator[Airflow]:
    """A real Airflow over a folder with one example, until the test ends."""
    port, worker_logs, trigger_logs = free_port(), free_port(), free_port()
    env = {
        **os.environ,
        "PATH": os.pathsep.join([os.environ["PATH"], str(Path(sys.executable).parent)]),  # it starts its parts by name
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(worker_logs),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger_logs),
    }
    with (HOME / "standalone.log").open("w", encoding="utf-8") as log:
        words = [sys.executable, "-m", "airflow", "standalone"]
        server = subprocess.Popen(words, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        running = Airflow(port)
        wait_for("Airflow's API", lambda: running.get("/dags/airbnb"), START)
        yield running
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(30)
        finally:
            os.killpg(server.pid, signal.SIGKILL) if server.poll() is None else None


@pytest.mark.parametrize("example", ["airbnb"], indirect=True)
def test_a_file_that_lands_becomes_gold_and_starts_who_waits_for_it(airflow: Airflow, example: Path) -> None:
    wait_for("the first run", lambda: airflow.runs("airbnb"))
    first = wait_for("the dashboards' run", lambda: airflow.runs("airbnb_dashboards"))
    landed = time.monotonic()
    for file in (example / "late").iterdir():
        shutil.copy(file, example / "landing/airbnb_db/public/hosts_demo" / file.name)
    second = wait_for("their second", lambda: airflow.runs("airbnb_dashboards")[len(first) :])
    print(f"from a file that lands to the end of the run behind gold: {time.monotonic() - landed:.1f} s")
    shown = airflow.get(f"/dags/airbnb_dashboards/dagRuns/{second[0]['dag_run_id']}/taskInstances/refresh/xcomEntries/return_value")
    newest = max((example / "lake/gold/hosts_by_country/metadata").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    assert json.loads(shown["value"] if isinstance(shown["value"], str) else json.dumps(shown["value"])) == [
        str(json.loads(newest.read_text())["current-snapshot-id"])
    ]
    events = airflow.get("/assets/events?order_by=id&limit=100")["asset_events"]
    arrivals = [one["extra"]["payload"]["files"] for one in events if one["name"] == "airbnb_landing"]
    assert arrivals == [3, 3 + len(list((example / "late").iterdir()))]
