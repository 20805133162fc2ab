"""One call of a command: what each end of it means to Airflow, and what is announced."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, AssetAlias
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowRescheduleException
from frazil_airflow.assets import table_asset
from frazil_airflow.operators import FrazilCheckOperator, FrazilMaintainOperator, FrazilRunOperator, FrazilTestOperator

if TYPE_CHECKING:
    from pathlib import Path

REPORT = {"pipeline": "shop", "run_id": "r1", "tables": [], "gold": []}


class Store(dict[str, Any]):
    """The state of an asset, as Airflow keeps it from one run to the next."""

    def set(self, key: str, value: Any) -> None:
        self[key] = json.loads(json.dumps(value))

    def delete(self, key: str) -> None:
        self.pop(key, None)


class Events:
    """What a task announces under its alias."""

    def __init__(self) -> None:
        self.added: dict[str, dict[str, str]] = {}

    def __getitem__(self, alias: AssetAlias) -> Events:
        assert alias.name.startswith("frazil:")
        return self

    def add(self, asset: Any, extra: dict[str, str]) -> None:
        self.added[asset.uri] = extra


class Instance:
    """A task instance that was put back some time ago, or never."""

    def __init__(self, since: datetime | None = None) -> None:
        self.since = since

    def get_first_reschedule_date(self, _: Any) -> datetime | None:
        return self.since


def context(store: Store | None = None, since: datetime | None = None) -> dict[str, Any]:
    class Stores:
        def __getitem__(self, _: Any) -> Store:
            return kept

    kept = Store() if store is None else store
    return {"asset_state_store": Stores(), "outlet_events": Events(), "ti": Instance(since)}


def says(report: Any, exit_code: int = 0, lines: str = "") -> list[str]:
    """A command that prints a report, writes lines for people and ends."""
    script = f"import sys; print({json.dumps(report)!r}); print({lines!r}, file=sys.stderr); sys.exit({exit_code})"
    return [sys.executable, "-c", script]


def run_operator(**settings: Any) -> FrazilRunOperator:
    with DAG("d", schedule=None):
        return FrazilRunOperator(task_id="t", project="p", **settings)


def failed(code: str, exit_code: int, *, retryable: bool) -> dict[str, Any]:
    error = {"code": code, "message": "no luck", "hint": "do better", "retryable": retryable}
    return {**REPORT, "tables": [{"table": "orders", "errors": [error], "commits": {}}], "exit_code": exit_code}


@pytest.mark.parametrize(
    ("exit_code", "retryable", "raised"),
    [
        (1, False, AirflowFailException),
        (2, False, AirflowFailException),
        (2, True, AirflowException),
        (3, True, AirflowException),
        (4, True, AirflowException),
        (5, False, AirflowFailException),
        (6, False, AirflowFailException),
        (8, False, AirflowFailException),
        (9, False, AirflowFailException),
        (143, False, AirflowException),
    ],
)
def test_only_what_may_succeed_later_is_retried(exit_code: int, *, retryable: bool, raised: type[Exception]) -> None:
    operator = run_operator(command=says(failed("FZ301", exit_code, retryable=retryable), exit_code))
    with pytest.raises(AirflowException, match=r"\[FZ301\] orders: no luck \(do better\)") as error:
        operator.execute(context())
    assert type(error.value) is raised


def test_a_command_that_a_signal_killed_is_retried() -> None:
    operator = run_operator(command=[sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
    with pytest.raises(AirflowException, match="exit code 137") as error:
        operator.execute(context())
    assert type(error.value) is AirflowException


def test_a_failure_before_any_table_and_one_without_json_are_told() -> None:
    told = {"error": {"code": "FZ102", "message": "no declaration at p", "hint": "", "exit_code": 2}}
    with pytest.raises(AirflowFailException, match=r"\[FZ102\] no declaration at p"):
        run_operator(command=says(told, 2)).execute(context())
    with pytest.raises(AirflowFailException, match="Java burns"):
        run_operator(command=[sys.executable, "-c", "import sys; sys.exit('Java burns')"]).execute(context())
    with pytest.raises(AirflowFailException, match="wrote no JSON"):
        run_operator(command=[sys.executable, "-c", "print('hello')"]).execute(context())
    with pytest.raises(AirflowFailException, match=r"'frazil-is-not-here' does not exist.*environment of its own"):
        run_operator(command=["frazil-is-not-here"]).execute(context())


def test_a_held_pipeline_is_waited_for_without_a_slot_and_not_for_ever() -> None:
    operator = run_operator(command=says(failed("FZ601", 7, retryable=True), 7), wait_for_lock=timedelta(minutes=5))
    with pytest.raises(AirflowRescheduleException) as first:
        operator.execute(context())
    assert timedelta() < first.value.reschedule_date - datetime.now(UTC) <= timedelta(seconds=10)
    with pytest.raises(AirflowRescheduleException):
        operator.execute(context(since=datetime.now(UTC) - timedelta(minutes=4)))
    with pytest.raises(AirflowException) as last:
        operator.execute(context(since=datetime.now(UTC) - timedelta(minutes=6)))
    assert type(last.value) is AirflowException


def test_what_was_committed_is_announced_once_with_its_snapshot() -> None:
    report = {
        **REPORT,
        "tables": [{"table": "orders", "errors": [], "commits": {"marts.orders": 2**62}}],
        "gold": [{"name": "days", "errors": [], "commits": {"gold.days": 7}}],
    }
    given, store = context(kept := Store()), kept
    assert run_operator(command=says(report)).execute(given) == report
    assert given["outlet_events"].added == {
        "iceberg://shop/marts/orders": {"snapshot_id": str(2**62), "run_id": "r1"},
        "iceberg://shop/gold/days": {"snapshot_id": "7", "run_id": "r1"},
    }
    assert store == {}
    assert table_asset("shop", "gold.days").uri == "iceberg://shop/gold/days"


def test_with_nothing_new_nothing_is_announced() -> None:
    given = context()
    run_operator(command=says(REPORT)).execute(given)
    assert given["outlet_events"].added == {}


def test_what_a_failed_task_committed_is_announced_by_the_next_that_succeeds() -> None:
    half = failed("FZ301", 3, retryable=True)
    half["tables"].append({"table": "hosts", "errors": [], "commits": {"marts.hosts": 1}})
    store = Store()
    first = context(store)
    with pytest.raises(AirflowException):
        run_operator(command=says(half, 3)).execute(first)
    assert first["outlet_events"].added == {}
    second = context(store)
    run_operator(command=says({**REPORT, "run_id": "r2"})).execute(second)
    assert second["outlet_events"].added == {"iceberg://shop/marts/hosts": {"snapshot_id": "1", "run_id": "r1"}}
    third = context(store)
    run_operator(command=says(REPORT)).execute(third)
    assert third["outlet_events"].added == {}


def test_settings_become_words_and_no_shell_sees_them(tmp_path: Path) -> None:
    script = tmp_path / "told.py"
    script.write_text("import json, os, sys\nprint(json.dumps({'words': sys.argv[1:], 'db': os.environ['SHOP_DB']}))\n")
    command, env = [sys.executable, str(script)], {"SHOP_DB": "x y"}
    with DAG("d2", schedule=None):
        check = FrazilCheckOperator(task_id="c", project="-p; ls", source=True, command=command, env=env)
        test = FrazilTestOperator(task_id="t", project="p", select="a, b", command=command, env=env)
        maintain = FrazilMaintainOperator(task_id="m", project="p", select=["a"], command=command, env=env)
    assert check.execute(context()) == {"words": ["check", "--json", "--source", "--", "-p; ls"], "db": "x y"}
    assert test.execute(context())["words"] == ["test", "--json", "--select", "a", "--select", "b", "--", "p"]
    assert maintain.execute(context())["words"] == ["maintain", "--json", "--select", "a", "--", "p"]


@pytest.mark.parametrize(
    ("given", "flags"), [("True", ["--full-refresh", "--yes"]), ("False", []), (True, ["--full-refresh", "--yes"])]
)
def test_full_refresh_is_a_flag_or_what_a_template_made_of_it(*, given: bool | str, flags: list[str]) -> None:
    assert run_operator(full_refresh=given).options() == flags


def test_a_proof_that_fails_is_told_by_its_law() -> None:
    proofs = [{"table": "marts.hosts", "law": "CURRENT", "ok": False, "detail": "2 rows differ", "code": "FZ801"}]
    with DAG("d3", schedule=None):
        check = FrazilCheckOperator(task_id="c", project="p", command=says(proofs, 9))
    with pytest.raises(AirflowFailException, match=r"\[FZ801\] marts.hosts, CURRENT: 2 rows differ"):
        check.execute(context())


def test_killing_a_task_ends_its_command(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    script = f"import os, time; open({str(alive)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    operator = run_operator(command=[sys.executable, "-c", script])
    ends: list[Exception] = []

    def call() -> None:
        try:
            operator.execute(context())
        except AirflowException as error:
            ends.append(error)

    task = threading.Thread(target=call)
    task.start()
    while not (alive.exists() and alive.read_text()):
        time.sleep(0.05)
    operator.on_kill()
    task.join(10)
    assert "exit code 143" in str(ends[0])
    with pytest.raises(ProcessLookupError):
        os.kill(int(alive.read_text()), signal.SIG_DFL)
