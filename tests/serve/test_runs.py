"""Past runs, from their records alone: states, failures, and what is no record of this pipeline."""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
from typing import TYPE_CHECKING

import pytest
from tests.hostile.situation import command

from frazil import api
from frazil.audit import run_files
from frazil.catalog.lock import lock
from frazil.errors import SourceError
from frazil.plan.plan import Plan
from frazil.plan.state import State
from frazil.runner.record import Record, fill_report, report_of, run_id
from frazil.serve.query.plain import document
from frazil.serve.runs import RunCommit, UnknownRunError
from frazil.spec import DmsFiles, Gold, Lake, Pipeline, Table
from frazil.spec.sql.select import selected

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.errors import FrazilError

NOW = dt.datetime(2026, 1, 1, 12, 30, tzinfo=dt.UTC)


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    orders = Table(name="orders", source=DmsFiles(path=("orders",)), keys=("id",))
    gold = Gold(name="sums", sql="select count(*) as n from {{ orders }}")
    return Pipeline(pipeline="shop", lake=Lake(warehouse="lake"), tables=(orders,), gold=(gold,)).at(tmp_path)


def ran(pipeline: Pipeline, minute: int, ends: str = "end", **failed: FrazilError) -> str:
    """Record a run, and return its id; ``orders`` failed if it is given, and is done otherwise."""
    now = NOW.replace(minute=minute)
    selection = selected(pipeline, ())
    report = report_of(pipeline, selection, run_id=run_id(now))
    fill_report(report, Plan(pipeline=pipeline, selection=selection, state=State(tables={}, failed=failed)))
    if not failed:
        report.tables[0].outcome, report.tables[0].batch, report.tables[0].changes = "done", 1, 7
    record = Record(pipeline, report, now)
    record._is_wanted = True
    record._write("start", "START", now, {"frazil_run": {"processId": 1, "host": "elsewhere"}}, [])
    if ends:
        getattr(record, ends)()
    return report.run_id


def test_runs_are_listed_newest_first_with_their_states(pipeline: Pipeline) -> None:
    killed = ran(pipeline, 1, ends="")
    failed = ran(pipeline, 2, orders=SourceError("no folder", hint="make it"))
    broken_off = ran(pipeline, 3, ends="abort")
    done = ran(pipeline, 4)

    found = api.runs(pipeline)

    states = [(one.run_id, one.state) for one in found]
    assert states == [(done, "done"), (broken_off, "interrupted"), (failed, "failed"), (killed, "killed")]
    assert [part.changes for part in found[0].parts] == [7, 0]
    [failure] = found[2].failures
    assert (failure.name, failure.code, failure.message, failure.hint) == ("orders", "FZ200", "no folder", "make it")
    assert found[2].exit_code == 3
    assert found[3].began_at == NOW.replace(minute=1)
    assert [one.run_id for one in api.runs(pipeline, limit=2)] == [done, broken_off]


def test_only_the_newest_run_can_be_running(pipeline: Pipeline) -> None:
    before = ran(pipeline, 1, ends="")
    ran(pipeline, 2, ends="")
    folder = run_files.runs_folder(pipeline)
    assert folder is not None
    newest = max(folder.iterdir())
    event = json.loads(newest.read_text(encoding="utf-8"))
    event["run"]["facets"]["frazil_run"] = {"processId": os.getpid(), "host": socket.gethostname()}
    newest.write_text(json.dumps(event), encoding="utf-8")

    with lock(pipeline):
        states = [one.state for one in api.runs(pipeline)]

    assert states == ["running", "killed"]
    assert api.past_run(pipeline, before).state == "killed"


def test_records_that_are_not_runs_of_this_pipeline_are_left_out(pipeline: Pipeline) -> None:
    mine = ran(pipeline, 1)
    ran(pipeline.model_copy(update={"pipeline": "other"}), 2)
    folder = run_files.runs_folder(pipeline)
    assert folder is not None
    (folder / "20270101T000000.000000Z-x.end.json").write_text('{"job": {"name": "shop"}, "run": 7}', encoding="utf-8")
    (folder / "20270102T000000.000000Z-y.end.json").write_text("[", encoding="utf-8")

    assert [one.run_id for one in api.runs(pipeline)] == [mine]


def test_a_run_is_found_by_its_id_or_the_end_of_it(pipeline: Pipeline) -> None:
    first, last = ran(pipeline, 1), ran(pipeline, 2)

    assert api.past_run(pipeline, first).run_id == api.past_run(pipeline, first[-12:]).run_id == first
    assert api.past_run(pipeline).run_id == api.past_run(pipeline, "latest").run_id == last
    for word in ("", "zzz"):
        with pytest.raises(UnknownRunError, match="no record of a run"):
            api.past_run(pipeline, word)


def test_the_overview_reads_the_end_of_a_run_once(pipeline: Pipeline) -> None:
    """With many tables it is large, and it never changes."""
    run = ran(pipeline, 1)
    folder = run_files.runs_folder(pipeline)
    assert folder is not None
    before = api.overview(pipeline).tables[0].results

    next(folder.glob("*.end.json")).write_text("[", encoding="utf-8")

    assert [one.run_id for one in before] == [run]
    assert api.overview(pipeline).tables[0].results == before


def test_without_a_record_there_is_no_run(pipeline: Pipeline) -> None:
    assert api.runs(pipeline) == ()
    with pytest.raises(UnknownRunError, match="no record"):
        api.past_run(pipeline)


def test_ids_of_snapshots_are_text_in_json() -> None:
    commit = RunCommit(table="marts.t", snapshot_id=2**62 + 1, committed_at=NOW, rows=1, notes={})

    assert document(commit) == {
        "schema_version": 1,
        "table": "marts.t",
        "snapshot_id": "4611686018427387905",
        "committed_at": "2026-01-01T12:30:00.000000Z",
        "rows": 1,
        "notes": {},
    }


def test_the_command_shows_a_failure_with_its_way_out(tmp_path: Path) -> None:
    declaration = "pipeline: shop\nlake: {warehouse: ./lake}\ntables:\n  - {name: orders, keys: [id], source: SOURCE}\n"
    (tmp_path / "frazil.yml").write_text(
        declaration.replace("SOURCE", "{kind: dms, path: ./in, header: true}"), encoding="utf-8"
    )
    run = ran(api.load(tmp_path), 1, orders=SourceError("no folder", hint="make it"))

    listed = command("runs", "--project", f"{tmp_path}")
    shown = command("runs", run[-8:], "--project", f"{tmp_path}")
    values = json.loads(command("runs", "--project", f"{tmp_path}", "--json").stdout)

    assert (listed.code, shown.code) == (0, 0)
    assert run in listed.stdout
    assert "[FZ200] no folder" in shown.stdout
    assert "hint: make it" in shown.stdout
    assert values["schema_version"] == 1
    assert values["runs"][0]["state"] == "failed"
