"""The whole of Airflow, as ``airflow standalone`` starts it: from a file that lands to who waits for gold."""

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
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from conftest import EXAMPLES, HOME, current_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

START, SECONDS = 300, 240
ITS_HOME = HOME / "standalone"  # with a database of its own: other tests leave runs in theirs
AIRBNB, TWO = ITS_HOME / "dags" / "airbnb", ITS_HOME / "dags" / "two"
TWO_DAG = """
from airflow.sdk import DAG
from frazil_airflow.group import frazil_group
from frazil_airflow.operators import FrazilRunOperator

with DAG("two", schedule=None):
    frazil_group("tables", project=__file__.replace("dag.py", "frazil.yml"))

with DAG("again", schedule=None):
    FrazilRunOperator(task_id="run", project=__file__.replace("dag.py", "frazil.yml"), full_refresh=True)
"""


def two_tables() -> dict[str, Any]:
    """Two tables over the same files, and an aggregate over both."""
    source = {"kind": "dms", "path": "landing/airbnb_db/public/hosts_demo", "header": True, "op": "op"}
    columns = [{"name": "id", "type": "int"}, {"name": "last_updated_ts", "type": "timestamp"}]
    tables = [
        {"name": name, "source": source, "keys": ["id"], "sequence_by": ["last_updated_ts"], "columns": columns}
        for name in ("hosts", "guests")
    ]
    both = {"name": "both", "sql": "select count(*) as n from {{ hosts }} join {{ guests }} using (id)"}
    return {"pipeline": "two", "lake": {"warehouse": "./lake"}, "tables": tables, "gold": [both]}


class Airflow:
    """A running Airflow and its API."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path: str) -> dict[str, Any]:
        """Return what the API tells."""
        return self.ask("GET", path)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer of the API, as its only user."""
        with urllib.request.urlopen(f"{self.url}/auth/token", timeout=10) as answer:
            token = json.load(answer)["access_token"]
        request = urllib.request.Request(
            f"{self.url}/api/v2{path}",
            json.dumps(body).encode() if body is not None else None,
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return dict(json.load(answer))

    def runs(self, dag: str, kind: str = "") -> list[dict[str, Any]]:
        """Return the runs of a DAG that succeeded, oldest first; one that failed fails the test."""
        found = self.get(f"/dags/{dag}/dagRuns?order_by=id")["dag_runs"]
        assert not [run for run in found if run["state"] == "failed"], found
        return [run for run in found if run["state"] == "success" and kind in run["run_type"]]


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


@pytest.fixture(scope="module")
def airflow() -> Iterator[Airflow]:
    """A real Airflow over the example and a pipeline of two tables, until the tests end."""
    shutil.copytree(EXAMPLES / "airbnb", AIRBNB, ignore=shutil.ignore_patterns("lake"))
    shutil.copytree(AIRBNB / "landing", TWO / "landing")
    (TWO / "frazil.yml").write_text(json.dumps(two_tables()))
    (TWO / "dag.py").write_text(TWO_DAG)
    port, worker_logs, trigger_logs = free_port(), free_port(), free_port()
    env = {
        **os.environ,
        "PATH": os.pathsep.join([os.environ["PATH"], str(Path(sys.executable).parent)]),  # it starts its parts by name
        "AIRFLOW_HOME": str(ITS_HOME),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ITS_HOME / "dags"),
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
        stop(server)


def stop(server: subprocess.Popen[bytes]) -> None:
    """End all of Airflow: its parts are of its group, and outlive it when only it is told to end."""
    os.killpg(server.pid, signal.SIGTERM)
    server.wait(30)
    with suppress(ProcessLookupError):
        for _ in range(100):
            os.killpg(server.pid, 0)
            time.sleep(0.2)
        os.killpg(server.pid, signal.SIGKILL)


def tell_hops(landed: datetime, *moments: dict[str, Any]) -> None:
    """Print how long each part of the way took."""
    seen, run, gold, behind = moments
    ends = {
        "the trigger sees that the folder stands still": seen["timestamp"],
        "Airflow starts the run": run["start_date"],
        "Frazil: bronze, silver, marts, gold": gold["timestamp"],
        "Airflow starts who waits for gold": behind["start_date"],
        "that run": behind["end_date"],
    }
    last = landed
    for hop, end in ends.items():
        now = datetime.fromisoformat(end)
        print(f"{(now - last).total_seconds():6.1f} s  {hop}")
        last = now
    print(f"{(last - landed).total_seconds():6.1f} s  from a file that lands to the end of the run behind gold")


def test_a_file_that_lands_becomes_gold_and_starts_who_waits_for_it(airflow: Airflow) -> None:
    wait_for("the first run", lambda: airflow.runs("airbnb"))
    first = wait_for("the dashboards' run", lambda: airflow.runs("airbnb_dashboards"))
    landed = datetime.now(UTC)
    for file in (AIRBNB / "late").iterdir():
        shutil.copy(file, AIRBNB / "landing/airbnb_db/public/hosts_demo" / file.name)
    second = wait_for("their second", lambda: airflow.runs("airbnb_dashboards")[len(first) :])
    events = airflow.get("/assets/events?order_by=timestamp&limit=100")["asset_events"]
    arrivals = [one for one in events if one["name"] == "airbnb_landing"]
    late = len(list((AIRBNB / "late").iterdir()))
    assert [one["extra"]["payload"]["files"] for one in arrivals] == [3, 3 + late]
    gold = [one for one in events if one["name"] == "airbnb.gold.hosts_by_country"]
    by_event = wait_for("the end of the second run", lambda: airflow.runs("airbnb", "asset_triggered")[1:])
    tell_hops(landed, arrivals[-1], by_event[0], gold[-1], second[0])
    shown = airflow.get(
        f"/dags/airbnb_dashboards/dagRuns/{second[0]['dag_run_id']}/taskInstances/refresh/xcomEntries/return_value"
    )
    assert current_snapshot(AIRBNB / "lake", "gold/hosts_by_country") in str(shown["value"])


def test_tasks_of_one_pipeline_take_turns_and_each_does_its_table(airflow: Airflow) -> None:
    # Not "@once": the scheduler is there before the API, and a task that it starts until then fails.
    wait_for("the DAG of two tables", lambda: airflow.get("/dags/two"))
    airflow.ask("POST", "/dags/two/dagRuns", {"logical_date": None})
    run = wait_for("the run of two tables", lambda: airflow.runs("two"))[0]
    tasks = airflow.get(f"/dags/two/dagRuns/{run['dag_run_id']}/taskInstances")["task_instances"]
    assert {task["task_id"]: task["try_number"] for task in tasks} == {
        "tables.hosts": 1,
        "tables.guests": 1,
        "tables.gold": 1,
    }
    ended = {task["task_id"]: task["end_date"] for task in tasks}
    assert max(ended, key=lambda name: ended[name]) == "tables.gold"
    asked = ["frazil", "query", "select n from gold.both", str(TWO), "--json"]
    assert json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout) == [{"n": 9}]


def commands(of: Path) -> list[psutil.Process]:
    """The processes of Frazil that work on a project, with their Java."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            if "--full-refresh" in words and f"{of / 'frazil.yml'}" in words:
                found += [process, *process.children(recursive=True)]
    return found


def has_java(processes: list[psutil.Process]) -> bool:
    """Whether Java is among them; those that have ended since they were listed are none."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.name() == "java":
                return True
    return False


def test_a_task_that_is_ended_by_hand_ends_its_command_and_its_java(airflow: Airflow) -> None:
    wait_for("the run of two tables", lambda: airflow.runs("two"))
    run = airflow.ask("POST", "/dags/again/dagRuns", {"logical_date": None})["dag_run_id"]
    wait_for("Java", lambda: has_java(commands(TWO)))
    at_work = commands(TWO)

    airflow.ask("PATCH", f"/dags/again/dagRuns/{run}/taskInstances/run", {"new_state": "failed"})

    _, alive = psutil.wait_procs(at_work, timeout=60)
    assert alive == []
    subprocess.run(["frazil", "run", f"{TWO}"], check=True, capture_output=True)
    subprocess.run(["frazil", "check", f"{TWO}"], check=True, capture_output=True)
