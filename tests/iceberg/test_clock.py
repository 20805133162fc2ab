"""LOUD: a clock that is behind the commits of a lake stops what writes, with a code, and harms nothing."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import frazil
from frazil.iceberg import snapshot
from frazil.iceberg.snapshot import TableSnapshot
from frazil.recover.catalog import repair_catalog
from frazil.serve.check.check import check

if TYPE_CHECKING:
    from tests.shop import Shop


@pytest.mark.parametrize("how", ["next batch", "rebuild"])
def test_a_clock_that_is_behind_the_lake_s_commits_stops_a_run(
    how: str, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.land("LOAD001.csv", "I,1,2026-01-10 00:00:00,first")
    shop.run()
    shop.land("20260111-000000.csv", "U,1,2026-01-11 00:00:00,second")
    behind = [timedelta(minutes=5)]
    monkeypatch.setattr(snapshot, "time_here", lambda: datetime.now(UTC) - behind[0])

    with pytest.raises(frazil.RunFailedError) as refused:
        frazil.run(shop.pipeline, spark=shop.session, rebuild=how == "rebuild")
    behind[0] = timedelta(seconds=50)
    shop.run()

    [error] = refused.value.errors
    assert (type(error), error.code, error.retryable, refused.value.exit_code) == (
        snapshot.ClockError,
        "FZ311",
        True,
        4,
    )
    assert [row["note"] for row in shop.session.table("lake.marts.orders").select("note").collect()] == ["second"]


def test_what_a_clock_ahead_has_written_is_repaired_by_doctor(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """To this machine, an hour behind, the lake was written by one that was ahead."""
    shop.land("LOAD001.csv", "I,1,2026-01-10 00:00:00,first")
    shop.run()
    shop.land("20260111-000000.csv", "U,1,2026-01-11 00:00:00,second")
    now = datetime.now(UTC) - timedelta(hours=1)
    monkeypatch.setattr(snapshot, "time_here", lambda: now)
    [before] = [one for one in frazil.api.doctor(shop.pipeline) if one.what == "times of commits"]

    repaired = repair_catalog(shop.pipeline, now, spark=shop.session)

    assert (before.ok, "frazil doctor --repair" in (before.hint or "")) == (False, True)
    assert {"bronze.orders", "silver.orders_changes", "marts.orders"} <= {*repaired}
    assert [one for one in frazil.api.doctor(shop.pipeline) if one.what == "times of commits"] == []
    assert repair_catalog(shop.pipeline, now, spark=shop.session) == []
    monkeypatch.undo()
    shop.run()
    assert [row["note"] for row in shop.session.table("lake.marts.orders").select("note").collect()] == ["second"]
    assert [finding for finding in check(shop.pipeline) if finding.ok is False] == []


def test_a_clock_that_is_ahead_folds_nothing_too_early() -> None:
    base = TableSnapshot(snapshot_id=1, committed_at=datetime(2026, 3, 1, 23, 59, tzinfo=UTC))

    assert snapshot.day_of_horizon(date(2027, 4, 5), base) == date(2026, 3, 1)
    assert snapshot.day_of_horizon(date(2026, 2, 5), base) == date(2026, 2, 5)
    assert snapshot.day_of_horizon(date(2027, 4, 5), TableSnapshot()) == date(2027, 4, 5)
