"""Comparisons with sources beside a watch, and how messages and metrics report them."""

from __future__ import annotations

import datetime as dt
from threading import Event
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.interop.receivers import webhook

from frazil.interop.live import LoopProgress, verifying
from frazil.interop.metrics import metrics_text
from frazil.interop.notify.notify import tell_verified
from frazil.runner.options import WatchOptions
from frazil.runner.report import RunReport, TableReport, VerifyReport
from frazil.serve.check.finding import Finding, Look
from frazil.serve.checks import keep_looks, keep_try, last_checks
from frazil.spec import Lake, Notify, Pipeline, Postgres, Table, Verify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.interop.receivers import Webhook

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    with webhook() as one:
        monkeypatch.setenv("HOOK", one.address)
        yield one


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    tables = tuple(
        Table(
            name=name,
            keys=("id",),
            source=Postgres(url="${env:SHOP_DB}", table=name, landing="./landing", slot="shop", publication="shop"),
        )
        for name in ("orders", "items")
    )
    shop = Pipeline(
        pipeline="shop",
        lake=Lake(warehouse="lake"),
        tables=tables,
        verify=Verify(every="1d"),
        notify=(Notify(webhook="${env:HOOK}"),),
    )
    return shop.at(tmp_path)


def equal(days_ago: float) -> Look:
    finding = Finding(source_table="orders", law="SOURCE", table="marts.orders", ok=True, detail="all are the same")
    began_at = NOW - dt.timedelta(days=days_ago)
    return Look(finding=finding, began_at=began_at, source="public.orders at 0/1", differing=frozenset())


def test_a_difference_and_a_table_that_falls_behind_are_one_message_each_and_one_when_over(
    pipeline: Pipeline, hook: Webhook
) -> None:
    differs, agrees = VerifyReport(table="orders", ok=False), VerifyReport(table="orders", ok=True)
    keep_looks(pipeline, [equal(2.1)])
    for reports in ([differs], [], [differs], [VerifyReport(table="orders")]):
        assert tell_verified(pipeline, reports) == []
    keep_looks(pipeline, [equal(0)])
    for _ in range(2):
        tell_verified(pipeline, [agrees])

    more, behind = "more: frazil check --source", "was not found equal to its source for twice as long as verify says"
    assert hook.texts == [
        f"shop: orders differs: SOURCE\nshop: orders {behind}\n{more}",
        f"shop: orders equal again (SOURCE is over)\nshop: orders found equal to its source again\n{more}",
    ]


def test_metrics_have_the_last_checks_and_marks(pipeline: Pipeline) -> None:
    keep_looks(pipeline, [equal(3)])
    keep_try(pipeline, "items", NOW)
    progress = LoopProgress("shop")
    progress.checked(last_checks(pipeline))

    text, _ = metrics_text(progress)
    found = {
        (one.name, *sorted(one.labels.values())): one.value
        for family in text_string_to_metric_families(text.decode())
        for one in family.samples
    }

    assert found["frazil_verified_timestamp_seconds", "orders", "shop"] == equal(3).began_at.timestamp()
    assert ("frazil_verified_timestamp_seconds", "items", "shop") not in found
    assert found["frazil_verify_behind", "orders", "shop"] == 1
    assert found["frazil_verify_behind", "items", "shop"] == 0
    assert found["frazil_check_results", "held", "orders", "shop", "source"] == 1


def test_a_watch_compares_beside_its_turns_and_reports_a_cause_once(pipeline: Pipeline, hook: Webhook) -> None:
    """There is no lake yet, so the comparison fails; the table that failed in the run is left out."""
    said: list[str] = []
    told = Event()

    def tell(text: str) -> None:
        said.append(text)
        told.set()

    failed = [TableReport(table="orders", outcome="done"), TableReport(table="items", outcome="failed")]
    with verifying(pipeline, {"orders", "items"}, WatchOptions(tell=tell)) as options:
        options.turned(RunReport(pipeline="shop", tables=failed))
        assert told.wait(30)

    assert len(said) == 1
    assert said[0].startswith("orders was not found equal to its source: [FZ304] ")
    assert {*last_checks(pipeline)} == {"orders"}
    assert hook.texts == []
