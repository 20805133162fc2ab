"""What a run leaves to be read: whole, in the standard's shape, without secrets, and no more than is kept."""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from frazil import api
from frazil.audit import run_files
from frazil.catalog.lock import lock
from frazil.catalog.trouble import as_frazil_error
from frazil.errors import FrazilError, SourceError, StorageError
from frazil.plan.plan import Plan
from frazil.plan.state import State, TableState
from frazil.runner.past_runs import standing
from frazil.runner.record import Record, fill_report, record_idle, report_of, run_id
from frazil.runner.report import RunFailedError
from frazil.serve.check.compare import not_compared
from frazil.spec import DmsFiles, Gold, Lake, Pipeline, Postgres, Table
from frazil.spec.sql.select import Selection, selected
from frazil.storage.base import MissingFolderError

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.runner.report import RunReport

NOW = dt.datetime(2026, 1, 1, 12, 30, tzinfo=dt.UTC)
NAMES = ("orders", "items", "gold.sums")


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    orders = Table(name="orders", source=DmsFiles(path=("s3://key:word@bucket/in?token=word",)), keys=("id",))
    items = Table(name="items", source=DmsFiles(path=("items", "more/*.csv")), keys=("id",))
    gold = Gold(name="sums", sql="select count(*) from {{ orders }}")
    return Pipeline(pipeline="shop", lake=Lake(warehouse="lake"), tables=(orders, items), gold=(gold,)).at(tmp_path)


def ran(pipeline: Pipeline, minute: int, ends: bool = True, **failed: FrazilError) -> RunReport:  # noqa: FBT001, FBT002
    """Record a run of all tables; some failed."""
    now = NOW.replace(minute=minute)
    selection = selected(pipeline, ())
    report = report_of(pipeline, selection, run_id=run_id(now))
    tables = {table.name: TableState() for table in pipeline.tables if table.name not in failed}
    fill_report(report, Plan(pipeline=pipeline, selection=selection, state=State(tables=tables, failed=failed)))
    record = Record(pipeline, report, now)
    record.start(())
    if ends:
        record.end()
    return report


def written(pipeline: Pipeline) -> list[dict[str, Any]]:
    folder = run_files.runs_folder(pipeline)
    assert folder is not None
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.iterdir())]


def test_ids_of_runs_are_uuids_that_sort_by_time() -> None:
    ids = [run_id(NOW + dt.timedelta(milliseconds=number)) for number in range(100)]

    assert {(uuid.UUID(one).version, uuid.UUID(one).variant) for one in ids} == {(7, uuid.RFC_4122)}
    assert ids == sorted(ids)
    assert len({run_id(NOW) for _ in range(100)}) == 100


def test_events_have_what_open_lineage_asks_for(pipeline: Pipeline) -> None:
    ran(pipeline, 1, orders=SourceError("no folder"))

    for event in written(pipeline):
        assert {"eventType", "eventTime", "run", "job", "inputs", "outputs", "producer", "schemaURL"} == event.keys()
        assert dt.datetime.fromisoformat(event["eventTime"]).tzinfo is not None
        assert uuid.UUID(event["run"]["runId"])
        assert (event["job"]["namespace"], event["job"]["name"]) == ("frazil", "shop")
        for facet in (*event["run"]["facets"].values(), *event["job"]["facets"].values()):
            assert {"_producer", "_schemaURL"} <= facet.keys()
    end, start = written(pipeline)
    assert (start["eventType"], end["eventType"]) == ("START", "FAIL")
    assert end["run"]["facets"]["errorMessage"]["message"] == "[FZ200] orders: no folder"
    assert end["run"]["facets"]["errorMessage"]["programmingLanguage"] == "python"


def test_no_secret_gets_into_a_record_and_no_value_of_a_row(pipeline: Pipeline) -> None:
    path = pipeline.tables[0].source.path[0]
    bug = as_frazil_error(ValueError("cannot cast 4711 to a date"))

    ran(pipeline, 1, orders=MissingFolderError(path, path, "only local folders can be read"), items=bug)

    folder = run_files.runs_folder(pipeline)
    assert folder is not None
    text = "".join(path.read_text(encoding="utf-8") for path in folder.iterdir())
    assert "s3://***@bucket/in?token=***" in text
    assert "word" not in text
    assert "a bug in Frazil: ValueError" in text
    assert "4711" not in text


def test_a_failure_stands_until_a_later_run_has_done_the_table(pipeline: Pipeline) -> None:
    first = ran(pipeline, 1, orders=SourceError("gone", hint="look"), items=SourceError("gone too"))
    ran(pipeline, 2, orders=SourceError("still gone"))

    found = standing(pipeline, NAMES)

    assert {name: [one.message for one in ones] for name, ones in found.failures.items()} == {"orders": ["still gone"]}
    assert found.open_run is None
    [behind] = [one for one in not_compared(pipeline) if "newest run failed" in one.detail]
    assert (behind.source_table, behind.ok) == ("orders", None), "check says so too"
    assert behind.detail.endswith("([FZ200] still gone)")
    [failure] = standing(pipeline, ["orders"]).failures["orders"]
    assert failure.run_id != first.run_id
    assert failure.at.tzinfo is not None


def test_a_run_with_nothing_to_do_is_recorded_only_where_it_shows_a_failure_to_be_over(pipeline: Pipeline) -> None:
    ran(pipeline, 1)
    assert run_files.runs_folder(pipeline) is not None
    assert not (pipeline.folder / "lake").exists()

    ran(pipeline, 2, items=SourceError("gone"))
    ran(pipeline, 3)
    ran(pipeline, 4)

    assert [event["eventType"] for event in written(pipeline)] == ["FAIL", "START", "COMPLETE", "START"]
    assert not standing(pipeline, NAMES)


@pytest.mark.process
def test_a_run_that_was_killed_is_known_until_the_next_one(pipeline: Pipeline) -> None:
    report = ran(pipeline, 1, ends=False, orders=SourceError("gone"))

    with lock(pipeline):
        running = standing(pipeline, NAMES).open_run
    [start] = run_files.runs_folder(pipeline).iterdir()  # type: ignore[union-attr]
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    start.write_text(start.read_text().replace(f"{os.getpid()}", dead.stdout.decode().strip()))
    killed = standing(pipeline, NAMES).open_run

    assert running is not None
    assert killed is not None
    assert running.run_id == killed.run_id == report.run_id
    assert (running.is_running, killed.is_running) == (True, False)
    state = State(tables={"orders": TableState(), "items": TableState()})
    record_idle(Plan(pipeline=pipeline, selection=selected(pipeline, ()), state=state))
    assert standing(pipeline, NAMES).open_run is None


def test_a_run_whose_sources_all_fail_starts_no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr("frazil.runner.run.spark_session", started)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"postgresql://someone@127.0.0.1:{closed.getsockname()[1]}/shop"
        source = Postgres(url=url, table="public.orders", landing=f"{tmp_path}/landing")
        table = Table(name="orders", source=source, keys=("id",))
        declared = Pipeline(pipeline="p", lake=Lake(warehouse="lake"), tables=(table,)).at(tmp_path)
        with pytest.raises(RunFailedError) as failure:
            api.run(declared)

    assert [error.code for error in failure.value.errors] == ["FZ210"]
    assert [event["eventType"] for event in written(declared)] == ["FAIL", "START"]


def test_an_interrupted_run_says_so(pipeline: Pipeline) -> None:
    selection = Selection(("orders",))
    report = report_of(pipeline, selection, run_id=run_id(NOW))
    state = State(failed={"orders": SourceError("gone")})
    fill_report(report, Plan(pipeline=pipeline, selection=selection, state=state))
    record = Record(pipeline, report, NOW)
    record.start(())
    record.abort()

    assert [event["eventType"] for event in written(pipeline)] == ["ABORT", "START"]


def test_only_so_many_runs_are_kept(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_files, "KEPT_RUNS", 3)
    monkeypatch.setattr(run_files, "RUNS_LET_GO", 2)
    kept, reports = [], []

    for minute in range(9):
        reports.append(ran(pipeline, minute, orders=SourceError("gone")).run_id)
        kept.append({event["run"]["runId"] for event in written(pipeline)})

    assert [len(runs) for runs in kept] == [1, 2, 3, 4, 5, 3, 4, 5, 3]
    assert all(runs == {*reports[: number + 1][-len(runs) :]} for number, runs in enumerate(kept))


def test_records_of_others_and_broken_ones_are_passed_over(pipeline: Pipeline) -> None:
    ran(pipeline, 1, orders=SourceError("gone"))
    folder = run_files.runs_folder(pipeline)
    assert folder is not None
    (folder / "20270101T000000.000000Z-1.end.json").write_text("{")
    (folder / "20270101T000000.000000Z-2.end.json").write_text("[]")
    (folder / "20270101T000000.000000Z-3.end.json").write_text('{"job": {"name": "shop"}, "run": {}}')
    (folder / "20270101T000000.000000Z-4.start.json").write_text('{"job": {"name": "other"}}')

    found = standing(pipeline, NAMES)

    assert [*found.failures] == ["orders"]
    assert found.open_run is None


def test_a_run_on_a_lake_in_a_store_goes_on_where_its_client_is_not_installed(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark reads and writes the tables by itself."""
    monkeypatch.setitem(sys.modules, "obstore", None)
    there = pipeline.model_copy(update={"lake": Lake(warehouse="s3://lake-of-nobody/warehouse")})

    report = ran(there, 1, items=SourceError("gone"))

    assert not report.warnings
    assert beside(there) == [f"{report.run_id}.end.json", f"{report.run_id}.start.json"]
    assert [*standing(there, NAMES).failures] == ["items"]


class Refusing:
    """A warehouse that accepts only its catalog's tables, or a store that does not always answer.

    Attributes:
        files: what it took.
        refuses: endings of the files that it does not take.
    """

    def __init__(self, *refuses: str) -> None:
        self.files, self.refuses = dict[str, bytes](), refuses

    def write(self, name: str, content: bytes) -> None:
        if name.endswith(self.refuses):
            raise StorageError(f"{name}: denied")
        self.files[name] = content

    def read(self, name: str) -> bytes:
        return self.files[name]

    def names(self) -> list[str]:
        return [*self.files]


@pytest.mark.parametrize("refused", [("",), (".start.json",), (".end.json",)])
def test_what_the_warehouse_does_not_take_is_beside_the_declaration(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, refused: tuple[str, ...]
) -> None:
    below = Refusing(*refused)
    monkeypatch.setattr(run_files, "files_place", lambda *_, **__: below)

    report = ran(pipeline, 1, items=SourceError("gone"))

    assert not report.warnings
    assert len(beside(pipeline)) + len(below.files) == 2
    assert all(name.endswith(refused) for name in beside(pipeline))
    found = standing(pipeline, NAMES)
    assert [*found.failures] == ["items"]
    assert found.open_run is None
    assert not (pipeline.folder / "lake").exists()


def beside(pipeline: Pipeline) -> list[str]:
    """List the records beside the declaration, without their times."""
    folder = pipeline.folder / ".frazil" / "runs"
    return sorted(path.name.partition("-")[2] for path in folder.iterdir()) if folder.exists() else []
