"""Uncommitted files of a writer are not removed as orphans, or the writer's commit is refused."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.properties.world import World

from frazil.errors import BusyError
from frazil.lake.commit import TableTransaction
from frazil.lake.orphans import fence, remove_unnamed, unnamed_files
from frazil.lake.refs import head
from frazil.lake.tables import ensure
from frazil.plan.layout import TableLayout

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PATH, NAME = ("lake", "marts", "fenced"), "`lake`.`marts`.`fenced`"
LATER = dt.datetime.now(dt.UTC) + dt.timedelta(days=3650)


def rows(session: SparkSession) -> list[int]:
    return sorted(row.n for row in session.table(NAME).collect())


def test_listed_files_stay_if_they_were_committed_before_the_fence_and_no_commit_comes_through_after_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = World.at(tmp_path / "world", "hard").session(spark)
    ensure(session, TableLayout(path=PATH, columns={"n": "int"}))
    with TableTransaction(session, PATH, head(session, NAME), {"batch": 1}) as first:
        first.row_delta(pa.table({"n": [1]}))
        first.publish()

    with TableTransaction(session, PATH, head(session, NAME), {"batch": 2}) as quick:
        quick.row_delta(pa.table({"n": [2]}))
        listed = unnamed_files(session, PATH, LATER)
        quick.publish()
    fence(session, PATH)
    assert any(file.endswith(".parquet") for file in listed)
    assert remove_unnamed(session, PATH, listed, LATER) == 0
    assert rows(session) == [1, 2]

    with TableTransaction(session, PATH, head(session, NAME), {"batch": 3}) as slow:
        slow.row_delta(pa.table({"n": [3]}))
        listed = unnamed_files(session, PATH, LATER)
        fence(session, PATH)
        assert remove_unnamed(session, PATH, listed, LATER) == len(listed) > 0
        with pytest.raises(BusyError, match="another run published first"):
            slow.publish()
    assert rows(session) == [1, 2]
    assert head(session, NAME).batch == 2
