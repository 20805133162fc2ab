"""A session belongs to a lake: every function that takes one looks, before it touches anything."""

from __future__ import annotations

import datetime as dt
import inspect
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from frazil import api
from frazil.errors import SessionError
from frazil.iceberg.snapshot import TableSnapshot
from frazil.plan.policy import Policy
from frazil.runner.report import TableReport
from frazil.runner.sessions import working_sessions
from frazil.runner.table_run import TableRun
from frazil.serve.cuts import Cut, Rollback
from frazil.spark.session import spark_session
from frazil.spec import DmsFiles, Lake, Pipeline, Table

if TYPE_CHECKING:
    from collections.abc import Callable


ARGUMENTS: dict[str, dict[str, Any]] = {
    "cut": {"name": "monday"},
    "drop": {"tables": []},
    "drop_cut": {"name": "monday"},
    "erase": {"table": "t", "keys": ["1"]},
    "erase_preview": {"table": "t", "keys": ["1"]},
    "replay": {"table": "t", "corrected": Path("t.csv")},
    "rollback": {"plan": Rollback(table="t", to="monday", moves=(), stays=(), stale=())},
    "treat": {"table": "t"},
    "treat_preview": {"table": "t"},
    "unblock": {"table": "t", "keys": ["1"]},
    "watch": {"stop": threading.Event()},
}
"""What a function is called with besides the declaration and the session."""


def takes_a_session(function: Callable[..., object]) -> bool:
    found = inspect.signature(function).parameters.get("spark")
    return found is not None and "SparkSession" in str(found.annotation)


def pipeline(folder: Path, lake: str) -> Pipeline:
    table = Table(name="t", source=DmsFiles(path=("landing",), fields=("id",)), keys=("id",))
    return Pipeline(pipeline="shop", lake=Lake(warehouse=lake), tables=(table,)).at(folder)


FUNCTIONS = [name for name in api.__all__ if inspect.isfunction(getattr(api, name))]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if takes_a_session(getattr(api, name))])
@pytest.mark.usefixtures("spark")
def test_a_session_on_another_lake_is_refused(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Cut(name="monday", tables={"marts.t": 1}, newest=None, missing=())
    monkeypatch.setattr("frazil.serve.cuts.find_cut", lambda *_: found)
    ours = spark_session(pipeline(tmp_path, "prod"))

    with pytest.raises(SessionError, match="is not the lake of shop"):
        getattr(api, name)(pipeline(tmp_path, "dev"), spark=ours, **ARGUMENTS.get(name, {}))


@pytest.mark.usefixtures("spark")
def test_a_run_works_with_the_settings_of_the_session_beside_it(tmp_path: Path) -> None:
    """Small batches set them aside; a step that reads a large table, though little came, gets them back."""
    ours = spark_session(pipeline(tmp_path, "prod"))
    ours.conf.set("spark.sql.shuffle.partitions", "4")
    bronze = ("lake", "bronze", "t")

    with working_sessions(ours, 1) as (session,):
        context = TableRun(
            spark=session,
            pipeline=pipeline(tmp_path, "prod"),
            table=pipeline(tmp_path, "prod").tables[0],
            now=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
            report=TableReport(table="t"),
            policy=Policy(small_run_bytes=9),
        )
        seen = [session.conf.get("spark.sql.shuffle.partitions")]
        context.work_small()
        for size in ("9", "10"):
            context.heads[bronze] = TableSnapshot(summary={"total-files-size": size})
            context.read_whole(bronze)
            seen.append(session.conf.get("spark.sql.shuffle.partitions"))
    ours.conf.unset("spark.sql.shuffle.partitions")

    assert seen == ["4", "2", "4"]
