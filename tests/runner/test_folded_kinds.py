"""Folds of dumps, handovers, shards and events: a lake with a retention and one without have the same marts."""

from __future__ import annotations

from datetime import date
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.clock import set_today
from tests.runner.folders import rows, run
from tests.runner.kinds import ALL, BEGIN, DAYS, HARD, Dumps, Events, Handover, Shards, declare, held

from frazil import api

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

STEPS = 6


@pytest.mark.laws
@pytest.mark.parametrize(
    "drawn",
    [
        (Handover, ALL, 1),
        *(
            pytest.param((kind, names, seed), marks=pytest.mark.laws)
            for kind in (Dumps, Handover, Shards, Events)
            for names in (HARD, ALL)
            for seed in (1, 2, 3)
            if (kind, names, seed) != (Handover, ALL, 1)
        ),
    ],
    ids=lambda drawn: f"{drawn[0].__name__}-{len(drawn[1])}-{drawn[2]}",
)
def test_folds_change_no_mart(
    drawn: tuple[type[Dumps], Sequence[str], int],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del spark  # only there so that Java runs
    kind, names, seed = drawn
    days = {"today": BEGIN.date()}
    set_today(monkeypatch, lambda: days["today"])
    source, folded, whole = kind(Random(seed)), tmp_path / "folded", tmp_path / "whole"
    declare(folded, kind, names, "retention: {changes_days: 30}")
    declare(whole, kind, names, "")
    for step in range(STEPS):
        days["today"] = date.fromordinal(BEGIN.toordinal() + DAYS * step + 2)
        state = source.draw.getstate(), dict(source.rows)
        source.deliver(folded, step)
        source.draw.setstate(state[0])
        source.rows = state[1]
        source.deliver(whole, step)
        for folder in (folded, whole):
            run(folder)
        assert held(folded, names) == held(whole, names), step

    living = rows(folded, "select * from marts.things order by all")
    assert len(living) == len(source.rows)
    assert rows(folded, "select count(*) > 0 from bronze.things where _cdc_kind = 'folded'") == [(True,)]
    [[few]], [[many]] = (rows(folder, "select count(*) from silver.things_changes") for folder in (folded, whole))
    assert few < many if names == HARD else few <= many  # of dumps each change is a version of a row
    run(folded, rebuild=True)
    assert held(folded, names) == held(whole, names)
    assert [finding for finding in api.check(folded) if finding.ok is False] == []

    name, text = source.late
    (folded / name).write_text(text)
    run(folded)
    assert held(folded, names) == held(whole, names)
    late = rows(folded, "select count(*) > 0 from silver.things_quarantine where rule = 'before_horizon'")
    assert late == [(True,)]
    assert [finding for finding in api.check(folded) if finding.ok is False] == []
