"""All laws, over what sources of every kind send.

Keys shift, are swapped and go in cycles, servers move, deletes have no time or an old one, values are unavailable or
out of range, and a topic has its last messages again.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.properties.drawn_database import COLUMNS
from tests.properties.drawn_lake import DrawnLake, changes_of
from tests.properties.drawn_tables import KINDS, DrawnTable
from tests.properties.test_mutations import sequences_stay_incomplete

from frazil.runner import sessions
from frazil.runner.key_changes import departures, moves
from frazil.sources import eras
from frazil.sources.debezium import record
from frazil.testing.oracle import current

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def without_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows and many tables: to compile code for each of them costs more than it gains."""
    for name, value in {"wholeStage": "false", "factoryMode": "NO_CODEGEN"}.items():
        monkeypatch.setitem(sessions.SETTINGS, f"spark.sql.codegen.{name}", value)


@pytest.mark.parametrize("kind", KINDS)
def test_the_oracle_says_what_the_database_holds(kind: str) -> None:
    """Where places are the order, all has come, and nothing is wrong: the draw and the oracle judge each other."""
    compared = 0
    for seed in range(60):
        table = DrawnTable(kind, seed, Random(f"{kind} {seed}"), 4, 3)
        if table.order == "sequenced":
            continue
        table.arrived = [*table.parts]
        found = {(row["h"], row["id"]): row["v"] for row in current(changes_of(table), ("h", "id", *COLUMNS))}
        assert found == {key: row["v"] for key, row in table.database.rows.items()}
        compared += 1
    assert compared > 20


@pytest.mark.long
def test_tables_of_drawn_sources_are_what_the_oracle_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs
    lake = DrawnLake(tmp_path, 1, ("audit", "mysql"), monkeypatch, groups=3, steps=2)

    lake.live(rebuild=False)

    assert lake.found == []


@pytest.mark.laws
@pytest.mark.parametrize("seed", range(100, 109))
def test_three_hundred_histories_of_drawn_sources_converge(
    seed: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table holds twelve histories, so 324 in all."""
    del spark
    kinds = Random(seed).sample(KINDS, 3)
    lake = DrawnLake(tmp_path, seed, kinds, monkeypatch, groups=12, steps=2)

    lake.live()

    assert lake.found == []


def deletes_of_moves_end_values(patch: pytest.MonkeyPatch) -> None:
    """MISSING-IS-NOT-NULL broken: the delete of a change of key ends the values of its row."""
    patch.setattr(moves, "without_moves_deletes", lambda _table, _contract, among, _moves: among)


def deletes_hit_who_came(patch: pytest.MonkeyPatch) -> None:
    """KEY-CHANGE broken: a delete removes any row of its key."""
    patch.setattr(departures, "without_departures", lambda _context, _contract, rows, _void: rows)


def servers_are_one(patch: pytest.MonkeyPatch) -> None:
    """ORDER broken: places of different servers are compared."""
    patch.setattr(record, "place_in_era", lambda _turns, *given: eras.place_in_era((), *given))


def placeholders_are_values(patch: pytest.MonkeyPatch) -> None:
    """MISSING-IS-NOT-NULL broken: a placeholder counts as a value."""
    patch.setattr(record, "is_unavailable", lambda *_: False)


@pytest.mark.laws
@pytest.mark.parametrize(
    ("broken", "drawn"),
    [
        (deletes_of_moves_end_values, ("mysql", 200)),
        (deletes_hit_who_came, ("audit", 200)),
        (servers_are_one, ("postgresql", 203)),
        (placeholders_are_values, ("sqlserver", 202)),
        (sequences_stay_incomplete, ("oracle", 201)),
    ],
)
def test_a_broken_law_is_seen(
    broken: Callable[[pytest.MonkeyPatch], None],
    drawn: tuple[str, int],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del spark
    kind, seed = drawn
    lake = DrawnLake(tmp_path, seed, (kind,), monkeypatch, groups=4, steps=2)
    broken(monkeypatch)

    lake.live(rebuild=False)

    assert lake.found != []
