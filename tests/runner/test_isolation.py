"""A table that fails, in any stage from listing to gold, stops no other, and what failed is shown until it is right."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import frazil
from frazil.cli.main import app
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLES = [f"t{number:02}" for number in range(1, 19)]
LOAD = "op,id,ts,note\nI,1,2026-01-01 00:00:00,ada\nI,2,2026-01-01 00:00:00,bob\n"
CHANGE = "op,id,ts,note\nU,1,2026-01-02 00:00:00,eve\n"
ONE_BAD = "op,id,ts,note\nU,one,2026-01-02 00:00:00,eve\n"
GOLD = {"sound": "t03", "broken": "t02", "of_failed": "t11", "of_unreadable": "t16"}


@dataclass(frozen=True)
class Project:
    """A pipeline of some tables, each with a folder of its own, run by the command."""

    folder: Path

    def declare(self, tables: list[str], **settings: str) -> None:
        """Write the declaration; ``settings`` are more of a table, as YAML."""
        text = ["pipeline: many", "lake: {warehouse: ./lake}", "tables:"]
        for name in tables:
            columns = "{name: id, type: int}, {name: ts, type: timestamp}, {name: note}"
            more = settings.get(name, "")
            text += [
                f"  - name: {name}",
                f"    source: {{kind: dms, path: ./landing/{name}, header: true, settle_seconds: 0}}",
                "    keys: [id]",
                "    sequence_by: [ts]",
                f"    columns: [{columns}{', ' + more if more.startswith('{') else ''}]",
                *([f"    {more}"] if more and not more.startswith("{") else []),
            ]
        text += ["gold:"] if {*GOLD.values()} & {*tables} else []
        text += [
            f"  - {{name: {name}, sql: 'select count(*) as n from {{{{ {table} }}}}'}}"
            for name, table in GOLD.items()
            if table in tables
        ]
        self.folder.mkdir(exist_ok=True)
        (self.folder / "frazil.yml").write_text("\n".join(text) + "\n", encoding="utf-8")

    def land(self, table: str, name: str, text: str) -> Path:
        """Put a file into a table's folder."""
        path = self.folder / "landing" / table / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def metadata(self, table: str) -> list[Path]:
        """Paths of the metadata files of a table of the lake."""
        return [*(self.folder / "lake" / table / "metadata").glob("*.metadata.json")]

    def runs(self) -> list[Path]:
        """Paths of the records of runs, in order."""
        return sorted((self.folder / "lake" / ".frazil" / "runs").glob("*"))

    def command(self, name: str, *options: str) -> Any:
        """Run a command; what it writes as JSON, which has the exit code it ends with."""
        result = CliRunner().invoke(app, [name, f"{self.folder}", "--json", *options], catch_exceptions=False)
        found = json.loads(result.stdout)
        assert result.exit_code == found.get("exit_code", 0), result.output
        return found

    def text(self, name: str, *options: str) -> str:
        """Run a command, and return its output for people."""
        return CliRunner().invoke(app, [name, f"{self.folder}", *options], catch_exceptions=False).output

    def rows(self, table: str) -> list[tuple[int, str]]:
        """Rows of a mart."""
        session = spark_session(frazil.load(self.folder))
        return sorted((row["id"], row["note"]) for row in session.table(f"lake.marts.{table}").collect())


@pytest.fixture
def project(spark: SparkSession, tmp_path: Path) -> Project:
    del spark  # only there so that Java runs
    return Project(tmp_path / "project")


def codes(found: Any) -> dict[str, str]:
    """Code of each error, by what failed."""
    return {error["name"]: error["code"] for error in found["errors"]}


@pytest.mark.laws
def test_of_eighteen_tables_seven_fail_each_in_its_own_way(project: Project) -> None:
    project.declare(TABLES, t14="{name: missing}", t15="max_bad_rows: 0")
    for table in TABLES:
        project.land(table, "LOAD001.csv", LOAD)
    project.command("run", "--select", "t02", "--select", "t13", "--select", "t16")
    # What fails while it is listed, looked into or compared, while it is typed, and where it is written to.
    twice = project.land("t10", "20260102.csv", "op,id,ts,note,NOTE\nU,1,2026-01-02 00:00:00,eve,eve\n")
    loop = project.folder / "landing" / "t11" / "loop.csv"
    loop.symlink_to(loop)
    shutil.move(project.folder / "landing" / "t12", project.folder / "t12")
    project.land("t13", "LOAD001.csv", LOAD.replace("ada", "bea"))
    project.land("t15", "20260102.csv", ONE_BAD)
    gone = [*project.metadata("marts/t16"), *project.metadata("gold/broken")]
    for path in gone:
        path.rename(f"{path}.away")
    project.land("t02", "20260102.csv", CHANGE)
    project.land("t16", "20260102.csv", CHANGE)
    listed = {"t10": "FZ501", "t11": "FZ201", "t12": "FZ201", "t13": "FZ701", "t14": "FZ502"}
    failed = {*listed, "t15", "t16"}

    plan = project.command("plan")

    assert listed.items() <= codes(plan).items()
    assert codes(plan).keys() - listed.keys() == {"t16"}
    assert plan["gold_left"] == {"of_failed": "t11 failed", "of_unreadable": "t16 failed"}
    planned = {step["table"] for step in plan["steps"] if step["step"] == "Ingest"}
    assert planned == {*TABLES} - {*listed, "t16"}

    report = project.command("run")

    outcomes = {table["table"]: table["outcome"] for table in report["tables"]}
    assert outcomes == {table: "failed" if table in failed else "done" for table in TABLES}
    assert (listed | {"t15": "FZ401", "t16": "FZ306", "gold.broken": "FZ306"}).items() <= codes(report).items()
    assert codes(report).keys() == {*failed, "gold.broken"}
    assert {made["name"]: (made["outcome"], made["because"]) for made in report["gold"]} == {
        "sound": ("done", ""),
        "broken": ("failed", ""),
        "of_failed": ("not started", "t11 failed"),
        "of_unreadable": ("not started", "t16 failed"),
    }
    assert report["exit_code"] == 8
    assert project.rows("t18") == [(1, "ada"), (2, "bob")]
    assert project.rows("t02") == [(1, "eve"), (2, "bob")]

    status = project.command("status")

    standing = {table["table"]: [failure["code"] for failure in table["failures"]] for table in status["tables"]}
    assert {table for table, found in standing.items() if found} == failed
    assert standing["t15"] == ["FZ401"]
    assert {made["name"] for made in status["gold"] if made["failures"]} == {"gold.broken"}
    assert "t15 failed at 20" in project.text("status")

    twice.unlink()
    loop.unlink()
    shutil.move(project.folder / "t12", project.folder / "landing" / "t12")
    project.land("t13", "LOAD001.csv", LOAD)
    for path in gone:
        Path(f"{path}.away").rename(path)
    project.declare(TABLES)
    repaired = project.command("run")

    assert repaired["errors"] == []
    assert {table["table"] for table in repaired["tables"] if table["outcome"] == "done"} == failed - {"t13"}
    assert {made["outcome"] for made in repaired["gold"]} == {"done", "nothing new"}
    assert project.rows("t16") == [(1, "eve"), (2, "bob")]
    status = project.command("status")
    assert not any(part["failures"] for part in (*status["tables"], *status["gold"]))
    assert not any(mart["lag"] for table in status["tables"] for mart in table["marts"])


@pytest.mark.long
def test_fail_fast_starts_no_further_table(project: Project) -> None:
    tables = ["t01", "t02", "t03"]
    project.declare(tables)
    for table in tables:
        project.land(table, "LOAD001.csv", LOAD)
    twice = project.land("t01", "20260102.csv", "op,id,ts,note,NOTE\n")

    report = project.command("run", "--fail-fast")

    assert [table["outcome"] for table in report["tables"]] == ["failed", "not started", "not started"]
    assert {made["outcome"] for made in report["gold"]} == {"not started"}
    assert report["exit_code"] == 6
    assert not (project.folder / "lake" / "bronze").exists()
    with pytest.raises(frazil.RunFailedError, match=r"1 of 3 tables failed\nt01: \[FZ501\]") as caught:
        frazil.run(frazil.load(project.folder))
    assert caught.value.report.exit_code == caught.value.exit_code == 6
    assert [error.code for error in caught.value.errors] == ["FZ501"]
    assert caught.value.__cause__ is caught.value.errors[0]
    assert not caught.value.retryable
    assert project.rows("t03") == [(1, "ada"), (2, "bob")]

    twice.unlink()
    report = project.command("run", "--fail-fast")

    assert [table["outcome"] for table in report["tables"]] == ["done", "nothing new", "nothing new"]


def test_records_of_runs_are_written_where_something_happened_and_nothing_depends_on_them(project: Project) -> None:
    project.declare(["t01"])
    project.land("t01", "LOAD001.csv", LOAD)
    report = project.command("run")
    start, end = ([json.loads(path.read_bytes()) for path in project.runs()][number] for number in (1, 0))
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == end["run"]["runId"] == report["run_id"]
    outputs = {output["name"]: output["outputFacets"]["frazil_commit"] for output in end["outputs"]}
    assert outputs["marts.t01"]["inserted"] == 2
    assert outputs["marts.t01"]["strategy"] == "load"

    session = spark_session(frazil.load(project.folder))
    found = {
        name: session.sql(f"SELECT * FROM lake.{name}.snapshots ORDER BY committed_at DESC").first()
        for name in ("bronze.t01", "silver.t01_changes", "marts.t01")
    }
    for name, snapshot in found.items():
        assert snapshot is not None
        assert snapshot["summary"]["frazil.run-id"] == report["run_id"]
        assert snapshot["snapshot_id"] == outputs[name]["snapshotId"]
        assert "frazil.bookmark" in snapshot["summary"]

    assert project.command("run")["steps"] == 0
    assert len(project.runs()) == 2

    project.land("t01", "20260102.csv", CHANGE)
    report = project.command("run")
    newest = session.sql("SELECT * FROM lake.marts.t01.snapshots ORDER BY committed_at DESC").first()
    assert newest is not None
    noted = {name.removeprefix("frazil."): value for name, value in newest["summary"].items() if name[:7] == "frazil."}
    [mart] = report["tables"][0]["marts"]
    assert noted.pop("bookmark")
    assert noted == {
        "run-id": report["run_id"],
        **{name: f"{mart[name]}" for name in ("strategy", "inserted", "updated", "deleted", "late")},
    }
    assert mart["updated"] == 1

    shutil.rmtree(project.folder / "lake" / ".frazil")
    assert project.command("run")["steps"] == 0
    assert project.rows("t01") == [(1, "eve"), (2, "bob")]

    (project.folder / "lake" / ".frazil").write_text("no folder can be here")
    project.land("t01", "20260103.csv", CHANGE.replace("01-02", "01-03").replace("eve", "zoe"))
    report = project.command("run")

    assert (report["exit_code"], report["tables"][0]["outcome"]) == (0, "done")
    assert ["record of this run cannot be written" in warning for warning in report["warnings"]] == [True]
    assert project.rows("t01") == [(1, "zoe"), (2, "bob")]


def test_plan_and_run_show_warnings(project: Project) -> None:
    project.declare(["t01"])
    late = [f"U,{number},2025-01-01 00:00:00,old" for number in range(1, 102)]
    first = [f"I,{number},2026-01-01 00:00:00,ada" for number in range(1, 102)]
    project.land("t01", "LOAD001.csv", "\n".join(["op,id,ts,note", *first, ""]))
    project.land("t01", "notes.zip", "no file of DMS")
    project.command("run")
    late += [f"I,{number},2026-01-01 00:00:00,new" for number in range(102, 204)]
    project.land("t01", "20260102.csv", "\n".join(["op,id,ts,note,price", *(f"{line},1" for line in late), ""]))

    plan = project.text("plan")
    done = project.text("run")
    asked = project.text("run", "--full-refresh")

    passed = "t01: 1 file passed over: landing/t01/notes.zip (packed as zip; of packed files only .csv.gz is read)"
    field = "t01: 1 field of the source is in no column: 'price'"
    assert passed in plan
    assert field in plan
    assert "t01: alter bronze.t01: add column price string" in plan
    assert plan.rstrip().endswith(f"4 steps; do them: frazil run -p {project.folder}")
    assert passed in done
    assert field in done
    assert "t01: 101 of 203 changes (50%) are older than what their key already had" in done
    assert "many: 1 table done in" in done
    assert field not in project.text("plan")
    assert passed.removeprefix("t01: ") in project.text("status")
    assert "t01: silver and marts.t01 (203 rows), from 2 batches\nthe lake is at " in asked
    assert "\nRebuild 1 table from bronze?" in asked
