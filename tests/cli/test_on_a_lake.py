"""The commands on one lake, from the first plan to the last drop: their JSON and exit codes."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest
from tests.hostile.situation import command

from frazil import api

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.hostile.situation import Said

pytestmark = pytest.mark.spark

DECLARATION = """\
pipeline: shop
lake: {warehouse: ./lake, namespaces: {marts: facts, gold: figures}}
tables:
  - name: orders
    source: {kind: dms, path: ./landing, header: true, settle_seconds: 0}
    keys: [id]
    sequence_by: [ts]
    columns: [{name: id, type: int}, {name: ts, type: timestamp}, {name: note}]
gold:
  - {name: notes, sql: "select count(*) as n from {{ orders }}"}
  - {name: ids, sql: "select max(id) as id from {{ orders }}"}
"""
RUN = {
    *("pipeline", "run_id", "tables", "gold", "steps", "seconds", "warnings", "maintained", "verified"),
    *("errors", "exit_code"),
}


@dataclass(frozen=True)
class Project:
    """A pipeline of one table and two aggregates, its namespaces renamed, run once."""

    folder: Path

    def land(self, day: int, *records: str) -> None:
        """Put a file of changes into the landing folder."""
        text = "".join(f"{line}\n" for line in ("op,id,ts,note", *records))
        (self.folder / "landing" / f"2026010{day}.csv").write_text(text, encoding="utf-8")

    def __call__(self, name: str, *options: str) -> Said:
        """Run a command on it."""
        return command(name, f"{self.folder}", *options)

    def values(self, name: str, *options: str) -> Any:
        """Run a command that succeeds; what it prints as JSON."""
        said = self(name, *options, "--json")
        assert said.code == 0, said.text
        return json.loads(said.stdout)


@pytest.fixture(scope="module")
def project(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Project:
    del spark  # only there so that Java runs, with the settings of the tests
    project = Project(tmp_path_factory.mktemp("shop"))
    (project.folder / "landing").mkdir()
    (project.folder / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    project.land(1, "I,1,2026-01-01 00:00:00,ice", "I,2,2026-01-01 00:00:00,snow")
    said = project("run")
    assert said.code == 0, said.text
    assert " facts.orders " in said.text
    assert "figures.notes refreshed: 1 row" in said.text
    assert "marts." not in said.text.replace("1 of 1 mart", "")
    return project


def test_looking_prints_values(project: Project) -> None:
    assert project.values("validate") == {"pipeline": "shop", "tables": ["orders"], "problems": [], "warnings": []}
    assert project.values("plan") == {
        "steps": [], "captures": {}, "waiting": {}, "passed": {}, "warnings": {}, "gold_left": {}, "errors": [],
        "exit_code": 0,
    }  # fmt: skip
    status = project.values("status")
    assert set(status) == {"tables", "gold", "open_run", "holder"}
    assert [made["name"] for made in status["gold"]] == ["figures.notes", "figures.ids"]
    assert [finding["law"] for finding in project.values("check") if not finding["ok"]] == ["SOURCE"]
    rows = command("query", "select id from facts.orders order by id", f"{project.folder}", "--json")
    assert json.loads(rows.stdout) == [{"id": 1}, {"id": 2}]
    story = json.loads(command("key", "orders", "1", "-p", f"{project.folder}", "--json").stdout)
    assert [change["marks"] for change in story["changes"]] == [["winner"]]
    assert {finding["what"] for finding in project.values("doctor")} >= {"java", "catalog", "source of orders"}


def test_nothing_new_commits_nothing(project: Project) -> None:
    report = project.values("run")

    assert set(report) == RUN
    assert (report["steps"], report["tables"][0]["outcome"]) == (0, "nothing new")
    assert "shop: nothing new, nothing committed" in project("run").text


def test_an_aggregate_is_planned_and_refreshed_alone(project: Project) -> None:
    project.land(2, "I,3,2026-01-02 00:00:00,hail")

    alone = project.values("plan", "--select", "gold.notes", "--full-refresh")
    both = project.values("run", "--select", "gold", "--full-refresh")
    later = project.values("plan")["steps"]

    assert [(step["step"], step["name"]) for step in alone["steps"]] == [("RefreshGold", "notes")]
    assert (both["tables"], [made["outcome"] for made in both["gold"]]) == ([], ["done", "done"])
    assert "2 aggregates done" in project("run", "--select", "figures", "--full-refresh").text
    assert project.values("plan", "--select", "gold")["steps"] == []
    assert [step["step"] for step in later] == ["Ingest", "Normalize", "UpdateMart", "RefreshGold", "RefreshGold"]
    assert project.values("run")["tables"][0]["rows"] == 1


@pytest.mark.long
def test_a_rebuild_and_maintenance_say_what_they_did(project: Project) -> None:
    assert project("run", "--full-refresh").code == 2
    rebuilt = project.values("run", "--full-refresh", "--yes")
    maintained = project.values("maintain", "--select", "gold.ids")

    assert [mart["strategy"] for mart in rebuilt["tables"][0]["marts"]] == ["recompute"]
    assert [made["outcome"] for made in rebuilt["gold"]] == ["done", "done"]
    assert [report["table"] for report in maintained] == ["figures.ids"]
    said = project("maintain", "--select", "gold.ids")
    assert "snapshots expired" in said.stdout
    assert said.text.splitlines()[:2] == ["start Spark", "maintain figures.ids"]


def test_a_watch_prints_a_line_a_run_and_ends_when_told(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    batch, pause = api.status(project.folder).tables[0].batch, Event()
    project.land(8, "U,1,2026-01-08 00:00:00,rime")

    @contextmanager
    def until_taken(stop: Callable[[], object], _says: str) -> Iterator[None]:
        def wait() -> None:
            while api.status(project.folder).tables[0].marts[0].batch == batch:
                pause.wait(0.5)
            stop()

        waiting = Thread(target=wait, daemon=True)
        waiting.start()
        yield
        waiting.join()

    monkeypatch.setattr("frazil.cli.commands.run.gently", until_taken)
    said = project("watch", "--json", "--every", "0.05")

    assert said.code == 0
    [line] = [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{")]
    assert set(line) == RUN | {"lag_seconds"}
    assert "watching 1 table" in said.text


def test_drop_removes_what_a_rename_left_behind(project: Project) -> None:
    assert project.values("drop") == []
    file = project.folder / "frazil.yml"
    file.write_text(DECLARATION.replace("name: ids,", "name: newest,"), encoding="utf-8")

    assert project("drop").code == 2
    assert [(table["namespace"], table["name"]) for table in project.values("drop", "--yes")] == [("figures", "ids")]
    assert project.values("drop") == []
