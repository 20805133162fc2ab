"""A whole table in one commit, rows, partitions and bookmark at once; and none where another commit came between."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from tests.properties.world import World

from frazil.errors import BusyError
from frazil.lake.commit import TableTransaction
from frazil.lake.refs import head
from frazil.lake.tables import ensure, replace_table
from frazil.plan.layout import TableLayout
from frazil.spark.gateway import java_table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PATH, NAME = ("lake", "marts", "t"), "`lake`.`marts`.`t`"
COLUMNS = {"id": "bigint", "odd `name`": "string", "a.t": "timestamp", "day": "date", "o.d`d": "date"}
TRANSFORMS = (
    *("bucket(4, `id`)", "`odd ``name```", "hour(`a.t`)", "year(`day`)"),
    *("truncate(2, `id`)", "month(`o.d``d`)"),
)
ROWS = """
SELECT CAST(n AS int) AS id, concat('x', n) AS `odd ``name```, TIMESTAMP '2026-01-01 00:00:01' AS `a.t`,
    DATE '2026-01-01' AS day, DATE '2026-01-01' AS `o.d``d`
FROM (VALUES (1), (2), (3)) AS t (n)
"""


def test_columns_partitions_properties_rows_and_bookmark_come_with_one_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = World.at(tmp_path / "world", "hard").session(spark)
    ensure(session, TableLayout(path=PATH, columns={"id": "string"}))
    base = head(session, NAME)
    layout = TableLayout(
        path=PATH, columns=COLUMNS, partition_by=TRANSFORMS, sort_by=("id",), properties={"team": "it's"}
    )

    stands = replace_table(session, layout, base, {"batch": 7}, session.sql(ROWS), run_id="run 1")

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


def test_a_commit_between_base_and_replacement_makes_it_refuse(spark: SparkSession, tmp_path: Path) -> None:
    session = World.at(tmp_path / "world", "hard").session(spark)
    ensure(session, TableLayout(path=PATH, columns={"id": "string"}))
    base = head(session, NAME)
    rows = Mock()

    def selected(*columns: str) -> DataFrame:
        with TableTransaction(session, PATH, base, {"batch": 9}) as other:
            other.append(session.sql("SELECT 'theirs' AS id"))
            other.publish()
        return session.sql(ROWS).selectExpr(*columns)

    rows.selectExpr = selected

    with pytest.raises(BusyError, match="another run published first"):
        replace_table(session, TableLayout(path=PATH, columns=COLUMNS), base, {"batch": 7}, rows)

    assert [row.id for row in session.table(NAME).collect()] == ["theirs"]
    assert head(session, NAME).batch == 9
