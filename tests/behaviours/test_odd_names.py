"""Columns may be called anything that a database lets them be called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import frazil
from frazil.lake.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

KEY, WHEN, VALUE = "the `{key}`.no 1", "sélect", "o'clock\\n; --"

DECLARATION = f"""
pipeline: odd
lake: {{warehouse: ./lake}}
tables:
  - name: things
    source: {{kind: dms, path: ./landing, header: true}}
    keys: ["{KEY}"]
    sequence_by: [{WHEN}]
    columns:
      - {{name: "{KEY}", type: int}}
      - {{name: {WHEN}, type: timestamp}}
      - {{name: "{VALUE.replace(chr(92), chr(92) * 2)}"}}
    marts:
      - {{kind: current, name: soft, deletes: soft, live_view: living, sort_by: ["{KEY}"]}}
      - {{kind: history, name: close}}
"""


@pytest.mark.usefixtures("spark")
def test_a_table_whose_columns_have_odd_names_goes_all_the_way(tmp_path: Path) -> None:
    """DELETES, LATE, HISTORY: with names that want quoting in SQL, in two runs."""
    (tmp_path / "landing").mkdir()
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    pipeline = frazil.load(tmp_path)
    session = spark_session(pipeline)
    runs = [["I,1,2026-01-01 00:00:01,a", "I,2,2026-01-01 00:00:01,x"], ["U,1,2026-01-01 00:00:03,c"]]
    runs[1] += ["U,1,2026-01-01 00:00:02,b", "D,2,2026-01-01 00:00:02,NULL"]
    for number, lines in enumerate(runs):
        text = "\n".join([f'op,{KEY},{WHEN},"{VALUE}"', *lines, ""])
        (tmp_path / "landing" / f"{number}.csv").write_text(text, encoding="utf-8")
        frazil.run(pipeline, spark=session)

    soft = session.table("lake.marts.soft").toArrow().to_pylist()
    assert sorted((row[KEY], row[VALUE], row["is_deleted"]) for row in soft) == [(1, "c", False), (2, "x", True)]
    assert session.table("lake.marts.living").toArrow().column(KEY).to_pylist() == [1]
    close = session.table("lake.marts.close").toArrow().to_pylist()
    assert sorted((row[KEY], row[VALUE]) for row in close) == [(1, "a"), (1, "b"), (1, "c"), (2, "x")]
