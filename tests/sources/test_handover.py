"""HANDOVER: whole snapshots and changes of another kind meet in one table, in any order of arrival."""

from __future__ import annotations

import shutil
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.sources.handovers import FORMS, Drawn, declared, dump, write_copy

import frazil
from frazil import api
from frazil.runner.report import RunFailedError
from frazil.serve.check.check import check
from frazil.serve.query.query import query
from frazil.spark.session import spark_session
from frazil.testing.changes import COLUMNS, deliveries
from frazil.testing.oracle import current, history, soft

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline
    from frazil.testing.oracle import Change

_FAILPOINTS = ("bronze.after_publish", "silver.before_publish", "silver.after_publish", "mart.before_publish")


def marts(pipeline: Pipeline, changes: Sequence[Change]) -> list[str]:
    """Return what differs from the oracle, and what the lake's own proofs find."""
    found = []
    tracked = ["ts", "name", "qty", "note"]
    for mart, rows, extra in (
        ("things", current(changes, [*COLUMNS]), []),
        ("soft", soft(changes, [*COLUMNS]), ["is_deleted", "deleted_at"]),
        ("things_history", history(changes, [*COLUMNS], tracked), ["valid_from", "valid_to", "is_current"]),
    ):
        names = [*COLUMNS, *extra]
        have = query(pipeline, f"SELECT {', '.join(names)} FROM marts.{mart}")
        one = sorted(repr(list(row)) for row in have.rows)
        other = sorted(repr([row[name] for name in names]) for row in rows)
        if one != other:
            found.append(f"{mart} has {[r for r in one if r not in other]}, lacks {[r for r in other if r not in one]}")
    return found + [f"{finding}" for finding in check(pipeline) if finding.ok is False]


def differences(folder: Path, form: str, seed: int, patch: pytest.MonkeyPatch) -> list[str]:
    """Let copies and changes arrive in a drawn order, some twice, with runs that die."""
    drawn, chance = Drawn(seed), Random(seed)
    pipeline = declared(folder, form)
    # As when the copies were named by a person: the exact times are declared.
    at = {f"{snapshot.name}{ending}": snapshot.at for snapshot in drawn.snapshots for ending in ("", ".jsonl")}
    [table] = pipeline.tables
    pipeline = pipeline.model_copy(
        update={"tables": (table.model_copy(update={"source": table.source.model_copy(update={"at": at})}),)}
    ).at(folder)
    # Each file is of another time, and a form that numbers its records must not number them again.
    staged = {
        f"c{number}": FORMS[form][2].write(_made(folder / f"c{number}"), number, part)
        for number, part in drawn.told.items()
    }
    copies = {snapshot.name: snapshot for snapshot in drawn.snapshots}
    arrived: set[str] = set()
    for names in deliveries([*staged, *copies], seed):
        for name in names:
            if name in copies and name not in arrived:
                write_copy(folder, form, copies[name], chance)
            for file in staged.get(name, ()):
                again = "again-" if name in arrived else ""
                shutil.copy(file, folder / "landing" / f"{again}{file.name}")
            arrived.add(name)
        if chance.random() < 0.4:
            patch.setenv("FRAZIL_FAILPOINT", f"{chance.choice(_FAILPOINTS)}:raise")
            with suppress(RunFailedError):
                frazil.run(pipeline, spark=spark_session(pipeline))
            patch.delenv("FRAZIL_FAILPOINT")
        frazil.run(pipeline, spark=spark_session(pipeline))
    found = marts(pipeline, drawn.expected())
    have = sorted(map(repr, query(pipeline, f"SELECT {', '.join(COLUMNS)} FROM marts.things").rows))
    if have != sorted(repr(tuple(row[name] for name in COLUMNS)) for row in drawn.truth()):
        found.append(f"{seed}: the table is not what it was at the source")
    return found


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize(
    ("form", "seed"), [("dumps and debezium", 1), pytest.param("loads and dms", 2, marks=pytest.mark.laws)]
)
def test_snapshots_and_changes_meet(
    form: str, seed: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs

    assert differences(tmp_path, form, seed, monkeypatch) == []


@pytest.mark.spark
@pytest.mark.laws
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(100, 108))
def test_handovers_converge(
    form: str, seed: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs

    assert differences(tmp_path, form, seed, monkeypatch) == []


def change(folder: Path, number: int, lines: Sequence[str]) -> None:
    (folder / "landing").mkdir(parents=True, exist_ok=True)
    text = "op,id,ts,name,qty,note\n" + "".join(f"{line}\n" for line in lines)
    (folder / "landing" / f"20260101-{number:09}.csv").write_text(text, encoding="utf-8")


def run(pipeline: Pipeline) -> None:
    frazil.run(pipeline, spark=spark_session(pipeline))


def ids(pipeline: Pipeline) -> list[int]:
    return [key for (key,) in query(pipeline, "SELECT id FROM marts.things ORDER BY id").rows]


@pytest.mark.spark
@pytest.mark.laws
def test_a_snapshot_that_would_delete_too_much_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    usual = declared(tmp_path, "dumps and dms", "max_delete_fraction: 0.2")
    dump(tmp_path, "2026-01-01", range(20))
    # Ten more came, and ten of the first went: half of what the first snapshot had is not missed.
    change(tmp_path, 1, [f"I,{key},2026-01-02 00:00:00,n,1," for key in range(20, 30)])
    change(tmp_path, 2, [f"D,{key},2026-01-02 00:00:00,,," for key in range(10)])
    run(usual)
    dump(tmp_path, "2026-01-03", range(10, 28))
    run(usual)
    assert ids(usual) == [*range(10, 28)]

    dump(tmp_path, "2026-01-04", range(10, 14))
    with pytest.raises(RunFailedError) as refused:
        run(usual)

    assert [error.code for error in refused.value.report.errors] == ["FZ402"]
    assert "lacks 14 of 18 rows" in f"{refused.value}"
    assert ids(usual) == [*range(10, 28)]

    without = declared(tmp_path, "dumps and dms", "max_delete_fraction: 0.2, leave_out: [2026-01-04.jsonl]")
    run(without)
    assert ids(without) == [*range(10, 28)]
    assert [row[0] for row in query(without, "SELECT DISTINCT rule FROM silver.things_quarantine").rows] == ["record"]

    run(declared(tmp_path, "dumps and dms", "max_delete_fraction: 0.8"))
    assert ids(usual) == [*range(10, 14)]
    run(usual)
    api.rebuild(usual, spark=spark_session(usual))
    assert ids(usual) == [*range(10, 14)]
    assert [f"{finding}" for finding in check(usual) if finding.ok is False] == []


@pytest.mark.long
@pytest.mark.spark
def test_a_change_needs_a_time(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    pipeline = declared(tmp_path, "dumps and dms", "max_delete_fraction: 1, overlap_seconds: 3600")
    dump(tmp_path, "2026-01-02T0000", [1, 2, 3])
    change(
        tmp_path,
        1,
        [
            "U,1,2026-01-01 23:30:00,within the overlap,1,",
            "U,2,2026-01-01 22:30:00,before,1,",
            "U,3,2026-01-02T01:00:00+02:00,in another zone,1,",
            "U,3,soon,no time,1,",
            "D,3,,,,",
        ],
    )

    run(pipeline)

    assert query(pipeline, "SELECT id, name FROM marts.things ORDER BY id").rows == [
        (1, "within the overlap"),
        (2, "n"),
        (3, "in another zone"),
    ]
    found = query(pipeline, "SELECT reason FROM silver.things_quarantine").rows
    assert found == [("no time in ts",), ("no time in ts",)]
