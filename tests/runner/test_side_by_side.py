"""A small batch goes into all marts of a table at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from tests.failing import run_fails_with

import frazil
from frazil.api import RunOptions
from frazil.failpoints import FailpointReached
from frazil.runner.report import TableReport
from frazil.runner.steps.marts import update_mart

if TYPE_CHECKING:
    from tests.shop import Shop

    from frazil.runner.batch.batch_stats import Normalized
    from frazil.runner.limits.rules import TableRules
    from frazil.runner.report import GoldReport, MartReport
    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.steps import UpdateMart


@dataclass
class Told:
    """A listener that keeps the reports of tables."""

    reports: list[TableReport] = field(default_factory=list)

    def planned(self, steps: object) -> None:
        """Take no notice."""

    def began(self, table: str, what: str) -> None:
        """Take no notice."""

    def progressed(self, table: str, how_far: str) -> None:
        """Take no notice."""

    def ended(self, report: TableReport | GoldReport) -> None:
        """Keep the report of a table."""
        if isinstance(report, TableReport):
            self.reports.append(report)


def test_a_mart_that_fails_holds_no_other_up(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.land("LOAD001.csv", "I,1,2026-01-01 00:00:00,new", "I,2,2026-01-01 00:00:00,new")
    shop.run()
    shop.land("20260102-000000.csv", "U,1,2026-01-02 00:00:00,again")

    def fail_in_current(
        context: TableRun, step: UpdateMart, contract: Contract, rules: TableRules, normalized: Normalized | None
    ) -> MartReport:
        if step.mart == "orders":
            raise FailpointReached(step.mart)
        return update_mart(context, step, contract, rules, normalized)

    monkeypatch.setattr("frazil.runner.run.update_mart", fail_in_current)
    listener = Told()
    with run_fails_with(FailpointReached, match="orders"):
        frazil.run(shop.pipeline, spark=shop.session, options=RunOptions(listener=listener))

    [report] = listener.reports
    assert [(failure.name, failure.code) for failure in report.errors] == [("marts.orders", "FZ000")]
    assert [(mart.mart, mart.updated) for mart in report.marts] == [("orders_history", 1)]
    assert shop.session.table("lake.marts.orders").where("note = 'again'").count() == 0
    assert shop.session.table("lake.marts.orders_history").where("note = 'again'").count() == 1

    monkeypatch.undo()
    again = shop.run()

    assert [mart.mart for mart in again.marts] == ["orders"]
    assert shop.session.table("lake.marts.orders").where("note = 'again'").count() == 1


@pytest.mark.long
def test_the_report_names_marts_in_their_order_and_counts_the_jobs_of_all(shop: Shop) -> None:
    jobs = []
    shop = shop.by(strategy="delete_append")

    for number in range(1, 4):
        shop.land(f"2026010{number}-000000.csv", f"U,1,2026-01-0{number} 00:00:00,new")
        report = shop.run()
        jobs.append(report.jobs)
        assert [mart.mart for mart in report.marts] == ["orders", "orders_history"]
        assert report.batch == number

    assert jobs[1] == jobs[2] > 8
