"""A `watch` that is always busy lets an `erase` of another host do its work, and outlives its servers' restarts."""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.end_to_end.busy_lake import KEYS, followed, new_lake

from frazil import api

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.testing.postgres import PostgresServer
    from frazil.testing.s3 import S3Server

FILE_SECONDS = 1.5
ERASES = 30
RESTARTS = 20


def tell(what: str, seconds: list[float]) -> None:
    """Write how long something took, for `pytest -s`."""
    middle, longest = statistics.median(seconds), max(seconds)
    sys.stdout.write(f"\n{len(seconds)} x {what}: median {middle:.0f} s, longest {longest:.0f} s\n")


@pytest.mark.laws
def test_an_erase_has_its_turn_beside_a_watch_of_another_host(
    s3: S3Server, postgres: PostgresServer, tmp_path: Path
) -> None:
    lake = new_lake("erases", s3, postgres.url, tmp_path)
    lake.land()
    with followed(lake) as watch:
        lake.caught_up(watch)
        seconds = []
        with lake.fed(FILE_SECONDS):
            for number in range(ERASES):
                # Every third one is a key of which there is no record.
                key = KEYS + number + 1 if number % 3 == 1 else lake.lot.randint(1, KEYS)
                seconds.append(lake.erase(key))
                assert lake.occurrences() == []
        lake.caught_up(watch)
        assert watch.failed_runs == []
        assert watch.end() == 0
    tell("erase beside a busy watch", seconds)
    assert lake.occurrences() == []
    assert [f"{proof}" for proof in api.check(lake.hosts[0]) if proof.ok is False] == []


@pytest.mark.laws
def test_a_watch_outlives_restarts_of_its_catalog_and_of_its_store(
    s3: S3Server, postgres: PostgresServer, tmp_path: Path
) -> None:
    lake = new_lake("restarts", s3, postgres.url, tmp_path)
    lake.land()
    seconds: dict[str, list[float]] = {"catalog": [], "store": []}
    with followed(lake) as watch:
        lake.caught_up(watch)
        for number in range(RESTARTS):
            lake.land()
            time.sleep(lake.lot.uniform(0, 4))  # anywhere in the run
            what, server = ("store", s3) if number % 2 else ("catalog", postgres)
            server.kill()
            time.sleep(lake.lot.choice((0, 1, 10, 25)))
            lake.land()
            server.start()
            seconds[what].append(lake.caught_up(watch))
        assert watch.end() == 0, watch.said()
    for what, each in seconds.items():
        tell(f"restart of the {what}, until all rows are there", each)
    assert [f"{proof}" for proof in api.check(lake.hosts[0]) if proof.ok is False] == []
