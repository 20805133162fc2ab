"""Which tables are compared with their sources, and up to when they were found equal."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from frazil import api
from frazil.errors import DifferenceError
from frazil.runner.report import RunReport, VerifyReport
from frazil.serve.check.compare import due, verify
from frazil.serve.check.finding import Finding, Look
from frazil.serve.checks import LastChecks, Verified, after_look, is_behind, keep_looks, keep_try, last_checks
from frazil.spec import DmsFiles, Lake, Pipeline, Postgres, Table, Verify

if TYPE_CHECKING:
    from pathlib import Path

NOON = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
NAMES = ("hosts", "items", "orders")


def at(hour: float) -> dt.datetime:
    """A time, in hours after noon."""
    return NOON + dt.timedelta(hours=hour)


def look(hour: float, *differing: str, table: str = "orders", ok: bool | None = None) -> Look:
    ok = True if not differing and ok is None else ok
    finding = Finding(source_table=table, law="SOURCE", table=f"marts.{table}", ok=ok, detail="a secret")
    return Look(finding=finding, began_at=at(hour), source=f"place {hour}", differing=frozenset(differing))


def untold(hour: float) -> Look:
    finding = Finding(source_table="orders", law="SOURCE", table="orders", ok=None, detail="its key has pii")
    return Look(finding=finding, began_at=at(hour))


def marks(*looks: Look) -> list[float | None]:
    """Return the mark after each comparison, in hours after noon."""
    known, left, found = None, None, []
    for one in looks:
        known, left = after_look(known, left, one)
        found.append(None if known.at is None else (known.at - NOON).total_seconds() / 3600)
    return found


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    tables = tuple(
        Table(
            name=name,
            keys=("id",),
            source=Postgres(url="${env:SHOP_DB}", table=name, landing="./landing", slot="shop", publication="shop"),
        )
        for name in NAMES
    )
    files = Table(name="files", keys=("id",), source=DmsFiles(path=("in",), header=True))
    every = Verify(every="1d")
    return Pipeline(pipeline="shop", lake=Lake(warehouse="lake"), tables=(*tables, files), verify=every).at(tmp_path)


def verified(tried: float, equal: float | None = None, since: float = 0) -> LastChecks:
    mark = None if equal is None else at(equal)
    return LastChecks(verified=Verified(tried_at=at(tried), since=at(since), at=mark))


def names_due(pipeline: Pipeline, checks: dict[str, LastChecks], hour: float) -> list[str]:
    return [table.name for table in due(pipeline, {*NAMES, "files"}, checks, at(hour))]


def test_tables_are_due_by_their_last_equal_comparison_and_take_turns(
    pipeline: Pipeline,
) -> None:
    checks = {"hosts": verified(3, 3), "items": verified(0, 0)}

    assert names_due(pipeline, checks, 4) == ["orders"]
    assert names_due(pipeline, checks, 24) == ["orders", "items"]
    assert names_due(pipeline, checks, 27) == ["orders", "items", "hosts"]


def test_what_is_not_found_equal_is_compared_again_after_a_quarter_of_the_time(pipeline: Pipeline) -> None:
    checks = {"hosts": verified(0), "items": verified(0, -30), "orders": verified(0, 0)}

    assert names_due(pipeline, checks, 5.9) == []
    assert names_due(pipeline, checks, 6) == ["hosts", "items"]


def test_the_setting_makes_tables_due(pipeline: Pipeline) -> None:
    assert names_due(pipeline.model_copy(update={"verify": None}), {}, 99) == []


def test_a_mark_moves_to_the_comparison_that_found_all_equal() -> None:
    assert marks(look(1), look(2), untold(3), look(4)) == [1, 2, 2, 4]


def test_a_table_that_changes_all_the_time_is_verified_when_each_bucket_was_equal_once() -> None:
    assert marks(look(1, "a", "b"), look(2, "b", "c"), look(3, "c", "d"), look(4, "a"), look(5, "b")) == [
        *(None, None, 1),
        *(1, 4),
    ]


def test_a_bucket_that_never_is_equal_keeps_the_mark_where_it_was() -> None:
    assert marks(look(1), look(2, "a", ok=False), look(3, "a", "b"), untold(4), look(5, "a", "c")) == [1, 1, 1, 1, 1]
    assert marks(look(2, "a", ok=False), look(3, "b")) == [None, 2]


def test_a_table_falls_behind_when_it_was_not_equal_for_twice_the_time(pipeline: Pipeline) -> None:
    equal, never = verified(47, 0).verified, verified(47, since=0).verified

    for known in (equal, never):
        assert not is_behind(pipeline.verify, known, at(48))
        assert is_behind(pipeline.verify, known, at(48.1))
        assert not is_behind(None, known, at(99))
    assert not is_behind(pipeline.verify, None, at(99))


def test_marks_and_open_rounds_are_kept_without_evidence(pipeline: Pipeline, tmp_path: Path) -> None:
    keep_looks(pipeline, [look(1, table="hosts"), look(2, "a", "b")])
    keep_try(pipeline, "orders", at(3))
    first = last_checks(pipeline)["orders"]
    keep_looks(pipeline, [look(4, "c")])
    kept = last_checks(pipeline)

    assert first.verified == Verified(tried_at=at(3), since=at(2))
    assert first.source is not None
    assert first.source.undecided == 1
    assert kept["orders"].verified == Verified(tried_at=at(4), since=at(2), at=at(2), source="place 2")
    assert kept["hosts"].verified == Verified(tried_at=at(1), since=at(1), at=at(1), source="place 1")
    assert "secret" not in (tmp_path / "lake" / ".frazil" / "checks" / "latest.json").read_text(encoding="utf-8")


def test_a_damaged_round_starts_over(pipeline: Pipeline, tmp_path: Path) -> None:
    keep_looks(pipeline, [look(1, "a", "b")])
    file = tmp_path / "lake" / ".frazil" / "checks" / "latest.json"
    file.write_text(file.read_text(encoding="utf-8").replace('"open"', '"opened"'), encoding="utf-8")

    keep_looks(pipeline, [look(2, "c"), look(3, "d")])

    mark = last_checks(pipeline)["orders"].verified
    assert mark is not None
    assert mark.at == at(2)


def test_a_comparison_that_fails_is_reported_and_repeated_after_a_pause(pipeline: Pipeline) -> None:
    found = verify(pipeline, {*NAMES})

    assert [(one.table, one.ok, one.code) for one in found] == [(name, None, "FZ304") for name in NAMES]
    assert verify(pipeline, {*NAMES}) == []


def test_a_run_begins_no_other_comparison_after_a_minute(pipeline: Pipeline) -> None:
    seconds = iter([0.0, 59.0, 60.0])

    found = verify(pipeline, {*NAMES}, clock=lambda: next(seconds))

    assert [one.table for one in found] == ["hosts", "items"]


def test_a_difference_is_the_exit_code_of_a_run_and_no_failure_of_a_table() -> None:
    report = RunReport(pipeline="shop", verified=[VerifyReport(table="orders", ok=False), VerifyReport(table="items")])

    assert report.exit_code == DifferenceError.exit_code == 9
    assert report.errors == []
    report.verified[0].ok = None
    assert report.exit_code == 0


def test_validation_names_the_tables_that_are_never_compared(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "LOAD00000001.csv").write_text("Op,id\nI,1\n")
    table = Table(name="files", keys=("id",), source=DmsFiles(path=("in",), header=True))
    plain = Pipeline(pipeline="shop", lake=Lake(warehouse="lake"), tables=(table,)).at(tmp_path)

    [warning] = api.validate(plain.model_copy(update={"verify": Verify(every="1d")})).warnings

    assert warning.startswith("verify: 1 table is not compared, because the source has no rows to read: files;")
    assert api.validate(plain).warnings == ()
