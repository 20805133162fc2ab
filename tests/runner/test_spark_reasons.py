"""Why Spark computed a batch in place of the driver: in the report of a run, in snapshots, and in the docs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.cli.reporting import show_run
from frazil.iceberg.snapshot import metadata_snapshot
from frazil.runner.report import MartReport, RunReport, TableReport
from frazil.spec import Namespaces
from frazil.steps import SPARK_REASONS, SparkRuns

if TYPE_CHECKING:
    import pytest

DOCS = Path(__file__).parents[2] / "docs"


def test_the_docs_list_each_reason_with_its_words() -> None:
    page = (DOCS / "runs.md").read_text()
    section = page.split("## Why Spark computes a batch")[1].split("\n## ")[0]

    assert dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", section, re.MULTILINE)) == {
        reason: words.replace("ignore_null_updates", "`ignore_null_updates`") for reason, words in SPARK_REASONS.items()
    }


def test_a_run_prints_one_line_for_a_table_that_needed_spark(capsys: pytest.CaptureFixture[str]) -> None:
    marts = [MartReport(mart="orders", by_spark=["ties"]), MartReport(mart="orders_history", by_spark=["ties"])]
    orders = TableReport(table="orders", outcome="done", by_spark=["key_change"], marts=marts)
    hosts = TableReport(table="hosts", outcome="done", by_spark=["column"], marts=[MartReport(mart="hosts")])
    report = RunReport(pipeline="shop", tables=[orders, hosts], steps=2)

    show_run(report, Namespaces())

    said = " ".join(capsys.readouterr().out.split())
    assert "orders: by Spark, as a change of key is in the batch; and as two changes of a key differ only" in said
    assert "hosts: by Spark" not in said
    values = json.loads(json.dumps(report.as_values()))["tables"][0]
    assert (values["by_spark"], values["marts"][1]["by_spark"]) == (["key_change"], ["ties"])


def test_the_runs_that_needed_spark_are_counted_once_whatever_their_snapshots() -> None:
    """A batch may take several snapshots, and upkeep adds some without a run's id."""
    runs = [("1", ""), ("2", "late"), ("2", "late"), ("3", "late,key_change"), (None, "")]
    made = [
        {"frazil.run-id": run, "frazil.by-spark": reasons} if reasons else {"frazil.run-id": run} if run else {}
        for run, reasons in runs
    ]
    snapshots = [
        {"snapshot-id": number, "timestamp-ms": number, "summary": summary} for number, summary in enumerate(made, 1)
    ]

    found = metadata_snapshot({"current-snapshot-id": len(made), "snapshots": snapshots}).spark_runs

    assert found == SparkRuns(runs=3, by_spark=2, reasons={"late": 2, "key_change": 1})
    assert found.text == "2 of 3 runs by Spark, as many changes come late; and as a change of key is in the batch"
