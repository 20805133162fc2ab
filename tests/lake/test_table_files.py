"""Files of a table that the driver leaves out have no row that is looked for."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.lake.test_row_lookup import NAME, PATH, Table

from frazil.lake.commit import TableTransaction
from frazil.lake.refs import head
from frazil.lake.row_lookup import find_rows
from frazil.lake.table_files import table_files
from frazil.lake.tables import ensure
from frazil.plan.layout import TableLayout
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake.table_files import TableFiles

PARTED = (*PATH[:2], "parted")


def rows_of(files: TableFiles, column: str) -> pa.ChunkedArray:
    """Values of a column in all files, those of deleted rows among them."""
    at = [*files.fields].index(column)  # files may call it otherwise
    pieces = [files.open(address).read().column(at) for address in files.rows]
    return pa.chunked_array([chunk for piece in pieces for chunk in piece.chunks], files.fields[column][1])


@pytest.mark.long
@pytest.mark.parametrize("column", ["id", "far", "day", "at", "money", "The name", "near", "yes"])
def test_what_is_not_below_a_value_is_in_a_file_that_stays(column: str, spark: SparkSession, tmp_path: Path) -> None:
    """Numbers, dates, times, decimals and texts; of others no file is left out."""
    table, chance = Table(spark, tmp_path / "world"), Random(3)
    for first, last in ((0, 8), (9, 20), (20, 21), (31, 40), (1000, 1004)):
        table.append(first, last)
    table.session.sql(f"INSERT INTO {NAME} (id) VALUES (5000)")  # of its other columns nothing is known
    files = table.files()
    values = rows_of(files, column)
    left_out = set()

    for number in chance.sample(range(len(values)), 20):
        least = values[number]
        if not least.is_valid:
            continue
        staying = files.not_below({column: least})
        left_out.add(len(files.rows) - len(staying.rows))
        wanted = pc.greater_equal(values, least)
        kept = rows_of(staying, column)
        assert pc.sum(pc.greater_equal(kept, least)).as_py() == pc.sum(wanted).as_py()
        assert all(staying.rows[address] == files.rows[address] for address in staying.rows)

    assert max(left_out) >= (3 if column not in ("near", "yes", "The name") else 0)
    assert column not in ("near", "yes") or left_out == {0}


def test_the_largest_value_of_a_long_text_is_its_bound_or_above(spark: SparkSession, tmp_path: Path) -> None:
    """Iceberg keeps the first 16 letters of a text, and of the last of them the next."""
    table = Table(spark, tmp_path / "world", {"text": "string"}, "concat(repeat('é', 20), id) AS text")
    table.append(0, 3)
    files = table.files()

    assert files.not_below({"text": pa.scalar("é" * 20 + "2")}).rows == files.rows
    assert not files.not_below({"text": pa.scalar("ü")}).rows


def parted(spark: SparkSession, folder: Path, by: str, kind: str, value: str) -> TableFiles:
    """Files of a table of nine ids, partitioned by another column whose value is said in SQL."""
    table, name, path = Table(spark, folder / "world", {"id": "bigint"}, "id"), "`lake`.`marts`.`parted`", PARTED
    ensure(table.session, TableLayout(path=path, columns={"id": "bigint", by: kind}, partition_by=(by,), properties={}))
    with TableTransaction(table.session, path, head(table.session, name), {"batch": 1}) as batch:
        batch.append(table.session.sql(f"SELECT id, {value} AS {by} FROM range(9)"))
        batch.publish()
    files = table_files(table.session, name, head(table.session, name), str)
    assert not isinstance(files, NeedsSpark)
    return files


def test_files_of_other_partitions_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    files = parted(spark, tmp_path, "class", "string", "CASE WHEN id % 4 = 0 THEN 'delete' ELSE 'upsert' END")

    assert sorted(rows_of(files.of_partition("class", "delete"), "id").to_pylist()) == [0, 4, 8]
    assert len(rows_of(files.of_partition("id", "delete"), "id")) == 9  # which is no partition


def test_files_of_rows_without_the_flag_are_not_opened(spark: SparkSession, tmp_path: Path) -> None:
    """As a history is partitioned: the versions that ended are in files of their own."""
    files = parted(spark, tmp_path, "is_current", "boolean", "id % 2 = 0")
    for address in files.rows:
        if "is_current=false" in address:
            Path(address.removeprefix("file:")).unlink()

    rows = find_rows(files, pa.table({"id": [3, 4, 6]}), [], "is_current")

    assert not isinstance(rows, NeedsSpark)
    assert sorted(rows["id"].to_pylist()) == [4, 6]
    with pytest.raises(FileNotFoundError):
        find_rows(files, pa.table({"id": [3, 4, 6]}))
