"""The fold in DuckDB's SQL says what the oracle says, for any stream of changes."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.serve.in_memory import BATCHES, MARTS, database, layer, layers, oracle, shown

from frazil.serve.check.fold import ties, wanted, with_values
from frazil.serve.layers import Layers
from frazil.serve.query.query import result_of
from frazil.silver.contract import settle
from frazil.spec import Current, History
from frazil.testing import COLUMNS, as_files, oracle_changes, random_history


def folded(here: Layers, mart: Current | History) -> str:
    tracked = here.tracked(mart) if isinstance(mart, History) else ()
    return wanted(with_values(here, BATCHES, here.columns), mart, tracked)


@pytest.mark.parametrize("name", MARTS)
@pytest.mark.parametrize("narrow", [0.0, 0.4])
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.laws) for seed in range(2, 24))])
def test_it_holds_what_the_oracle_holds(seed: int, narrow: float, name: str) -> None:
    files = as_files(random_history(seed, size=40, keys=4, ties=0.4), seed, narrow=narrow)
    changes = oracle_changes(files)

    with database(changes) as connection:
        here = layers(partial=narrow > 0)
        found = result_of(connection.sql(folded(here, MARTS[name]))).rows
        tied = connection.sql(ties(here)).fetchall()

    assert tied == []
    assert Counter(found) == Counter(tuple(row[column] for column in shown(name)) for row in oracle(name, changes))


def test_changes_that_only_their_content_orders_are_found() -> None:
    changes = oracle_changes({"1.csv": [{"op": "I", "id": "1", "ts": "2026-01-01", "name": "a"}]})
    other = oracle_changes({"1.csv": [{"op": "I", "id": "1", "ts": "2026-01-01", "name": "b"}]})

    with database(changes + other) as connection:
        assert connection.sql(ties(layers(partial=True))).fetchall() == [(1,)]


def test_a_column_that_came_later_is_filled_from_nothing_before() -> None:
    """Before batch 2 ``note`` did not exist, so its NULL is not a value; afterwards it is."""
    rows = [
        {"op": "I", "id": "1", "ts": f"2026-01-0{day}", "name": "a", "qty": None, "note": note}
        for day, note in ((1, "old"), (2, None), (3, None))
    ]
    with database([]) as connection:
        for batch, change in zip((2, 1, 2), oracle_changes({"1.csv": rows[:2], "2.csv": rows[2:]}), strict=True):
            connection.execute(
                "INSERT INTO changes VALUES (?, ?, ?, ?, ?, 'upsert', ?, ?, ?, NULL, NULL)",
                [*change.values.values(), change.position, change.row, batch],
            )
        changes = layer("changes", COLUMNS | {"_cdc_source_time": "timestamp"}, since={"note": 2})
        here = layers(partial=False)
        late = Layers(
            table=here.table,
            bronze=changes,
            changes=changes,
            quarantine=changes,
            marts=(),
            columns=here.columns,
            contract=settle(here.table, {}),
            event_times=("ts",),
            fields={},
        )
        found = result_of(connection.sql(folded(late, History()))).rows

    assert [(row[4], row[5].day) for row in sorted(found, key=lambda row: row[5])] == [("old", 1), (None, 3)]
