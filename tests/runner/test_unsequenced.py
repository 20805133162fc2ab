"""SEQUENCE-OF-DELETES: deletes that carry their key alone, in a table that its rows' own times order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import frazil
from frazil import api
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DECLARATION = """\
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: items
    source: {kind: dms, path: ./landing, header: true}
    keys: [id]
    sequence_by: [at]
    columns: [{name: id, type: int}, {name: name}, {name: at, type: timestamp}]
    marts: [{kind: current}]
"""


@pytest.mark.long
def test_deletes_by_key_alone_remove_their_rows_in_any_order_of_arrival(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    (tmp_path / "landing").mkdir()
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")

    def run(name: str, *records: str) -> list[tuple[int, str]]:
        (tmp_path / "landing" / name).write_text("\n".join(("op,id,name,at", *records, "")), encoding="utf-8")
        pipeline = frazil.load(tmp_path)
        [report] = frazil.run(pipeline, spark=spark_session(pipeline)).tables
        assert report.quarantined == 0
        assert all(finding.ok is not False for finding in api.check(tmp_path))
        return [(key, name) for key, name in api.query(tmp_path, "SELECT id, name FROM items ORDER BY id").rows]

    first = run("20260101-000000001.csv", "I,1,ada,2026-01-01 08:00:00", "I,2,bob,2026-01-01 09:00:00", "D,3,,")
    gone = run("20260103-000000001.csv", "D,1,,", "D,2,,", "I,2,back,2026-01-03 08:00:00")
    late = run("20260102-000000001.csv", "U,1,adah,2026-01-02 08:00:00", "U,3,cyd,2026-01-02 08:00:00")

    assert first == [(1, "ada"), (2, "bob")]
    assert gone == [(2, "back")]
    assert late == [(2, "back"), (3, "cyd")]
