"""A whole table in one commit, by SQL and by the writer that Spark 3.5 needs: rows, partitions and bookmark at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.properties.world import World

from frazil.lake import replace
from frazil.lake.gateway import java_table
from frazil.lake.heads import head
from frazil.lake.tables import ensure
from frazil.older_spark import is_older
from frazil.plan.table_layout import TableLayout

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:Deprecated in 4.0:FutureWarning")]

PATH, NAME = ("lake", "marts", "t"), "`lake`.`marts`.`t`"
COLUMNS = {"id": "bigint", "odd `name`": "string", "a.t": "timestamp", "day": "date", "o.d`d": "date"}
TRANSFORMS = (
    *("bucket(4, `id`)", "`odd ``name```", "hour(`a.t`)", "year(`day`)"),
    *("truncate(2, `id`)", "month(`o.d``d`)"),  # a writer cannot make these
)
ROWS = """
SELECT CAST(n AS int) AS id, concat('x', n) AS `odd ``name```, TIMESTAMP '2026-01-01 00:00:01' AS `a.t`,
    DATE '2026-01-01' AS day, DATE '2026-01-01' AS `o.d``d`
FROM (VALUES (1), (2), (3)) AS t (n)
"""


@pytest.mark.parametrize("older", [pytest.param(False, marks=pytest.mark.skipif(is_older(), reason="Spark 4")), True])
def test_columns_partitions_properties_rows_and_bookmark_come_with_one_commit(
    older: bool,  # noqa: FBT001 - pytest gives it by name
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replace, "is_older", lambda: older)
    session = World.at(tmp_path / "world", "hard").session(spark)
    ensure(session, TableLayout(path=PATH, columns={"id": "string"}))
    base = head(session, NAME)
    layout = TableLayout(
        path=PATH, columns=COLUMNS, partition_by=TRANSFORMS, sort_by=("id",), properties={"team": "it's"}
    )

    stands = replace.replace_table(session, layout, base, {"batch": 7}, session.sql(ROWS), run_id="run 1")

    assert (stands.batch, stands.summary["frazil.run-id"], stands.summary["frazil.strategy"]) == (
        7,
        "run 1",
        "recompute",
    )
    assert session.table(NAME).dtypes == [*COLUMNS.items()]
    rows = session.sql(f"SELECT id, `odd ``name```, string(`a.t`), string(day), string(`o.d``d`) FROM {NAME}").collect()
    day = "2026-01-01"
    assert sorted(tuple(row) for row in rows) == [(n, f"x{n}", f"{day} 00:00:01", day, day) for n in (1, 2, 3)]
    table = java_table(session, NAME)
    assert table is not None
    assert [field.transform().toString() for field in table.spec().fields()] == [
        *("bucket[4]", "identity", "hour", "year", "truncate[2]", "month")
    ]
    assert table.properties()["team"] == "it's"
    assert not table.sortOrder().isUnsorted()
    assert session.sql(f"SELECT count(*) FROM {NAME}.snapshots WHERE committed_at IS NOT NULL").collect()[0][0] == 1
