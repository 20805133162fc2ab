"""Erasures of dumps, handovers, shards and events: other keys are as in a lake without the erased ones."""

from __future__ import annotations

import json
from datetime import date
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.clock import set_today
from tests.runner.folders import rows, run
from tests.runner.kinds import ALL, BEGIN, DAYS, Dumps, Events, Handover, Shards, declare

import frazil
from frazil import api
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

STEPS = 4
LAYERS = ("bronze.things", "silver.things_changes", "silver.things_quarantine", *(f"marts.{name}" for name in ALL))


def of_others(folder: Path, kind: type[Dumps], gone: Collection[tuple[str, int]]) -> list[list[tuple[object, ...]]]:
    """The rows of the marts, but for those of some keys."""
    shard = "shard" if kind.shard else "''"
    keys = ", ".join(map(str, gone))
    told = f"where ({shard}, id) not in ({keys})" if gone else ""
    return [rows(folder, f"select * from marts.{name} {told} order by all") for name in ALL]


def erase(folder: Path, keys: Sequence[tuple[str, int]]) -> None:
    """Erase some keys, and look for them in every layer."""
    pipeline = frazil.load(folder)
    asked = [json.dumps({"shard": shard, "id": key} if shard else {"id": key}) for shard, key in keys]
    done = api.erase(pipeline, "things", keys=asked, spark=spark_session(pipeline))
    assert done.proof is not None
    assert done.proof.is_clean
    for layer in LAYERS:
        for shard, key in keys:
            assert rows(folder, f"select * from {layer} t where t::varchar like '%{shard}#{key}%'") == [], layer


@pytest.mark.laws
@pytest.mark.parametrize(
    "drawn",
    [(kind, seed) for kind in (Dumps, Handover, Shards, Events) for seed in (1, 2, 3)],
    ids=lambda drawn: f"{drawn[0].__name__}-{drawn[1]}",
)
def test_erasures_change_only_their_keys(
    drawn: tuple[type[Dumps], int], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs
    kind, seed = drawn
    days, lot = {"today": BEGIN.date()}, Random(seed)
    set_today(monkeypatch, lambda: days["today"])
    one, other = kind(Random(seed)), kind(Random(seed))
    erased, whole, gone = tmp_path / "erased", tmp_path / "whole", set[tuple[str, int]]()
    declare(erased, kind, ALL, "retention: {changes_days: 30}" if seed % 2 else "")
    declare(whole, kind, ALL, "")
    for step in range(STEPS):
        days["today"] = date.fromordinal(BEGIN.toordinal() + DAYS * step + 2)
        for folder, source in ((erased, one), (whole, other)):
            source.deliver(folder, step)
            run(folder)
        assert of_others(erased, kind, ()) == of_others(whole, kind, gone), step
        keys = sorted(key for key in one.rows if lot.random() < 0.15 + 0.3 * (step == 1))
        if keys:
            gone |= {*keys}
            erase(erased, keys)
            assert of_others(erased, kind, ()) == of_others(whole, kind, gone), step
    assert gone
    assert of_others(whole, kind, ()) != of_others(whole, kind, gone)
    run(erased, rebuild=True)
    assert of_others(erased, kind, ()) == of_others(whole, kind, gone)
    assert [finding for finding in api.check(erased) if finding.ok is False] == []
