"""KEY-CHANGE: keys that shift, are swapped and go in cycles, split over files that arrive in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.properties.shifts import FIELDS, as_parts, random_shifts

import frazil
from frazil import api
from frazil.engine import departures
from frazil.lake.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DECLARATION = """\
pipeline: moves
lake: {warehouse: ./lake}
tables:
  - name: things
    source: {kind: dms, path: ./landing, header: true, before_image_prefix: BI_}
    keys: [h, id]
    columns: [{name: h, type: int}, {name: id, type: int}, {name: v}]
    marts: [{kind: current}, {kind: current, deletes: soft, name: soft}]
"""
Table = dict[tuple[int, int], str]


def live(folder: Path, seeds: range, arrivals: tuple[int, ...]) -> Table:
    """Let the parts of some histories arrive, one a run; return the table that the source has in the end."""
    landing, table = folder / "landing", Table()
    landing.mkdir()
    (folder / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    parts: dict[int, list[str]] = {number: [] for number in arrivals}
    for seed in seeds:
        records, rows = random_shifts(seed)
        table |= {(seed, key): value for key, value in rows.items()}
        for number, part in enumerate(as_parts(records, seed, len(arrivals))):
            parts[number] += [
                ",".join(f"{record[name]}" if record[name] is not None else "NULL" for name in FIELDS)
                + f",{seed},{seed}"
                for record in part
            ]
    for number in arrivals:
        text = "\n".join([",".join((*FIELDS, "h", "BI_h")), *parts[number], ""])
        (landing / f"2026010{number + 1}-000000001.csv").write_text(text, encoding="utf-8")
        pipeline = frazil.load(folder)
        frazil.run(pipeline, spark=spark_session(pipeline))
    return table


def rows_of(folder: Path) -> Table:
    return {(h, key): value for h, key, value in api.query(folder, "SELECT h, id, v FROM things").rows}


def test_rows_whose_keys_shift_are_where_the_source_has_them(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    table = live(tmp_path, range(20), (0, 2, 1))

    assert rows_of(tmp_path) == table
    assert [finding for finding in api.check(tmp_path) if finding.ok is False] == []


@pytest.mark.laws
def test_deletes_that_hit_the_row_that_came_are_seen(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark
    monkeypatch.setattr(departures, "without_departures", lambda _context, _contract, rows, _void: rows)

    assert live(tmp_path, range(4), (0,)) != rows_of(tmp_path)
