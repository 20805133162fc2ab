"""Rows that the driver finds by itself are those that Spark finds, wherever a table has been."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.properties.world import World

from frazil.lake import row_lookup
from frazil.lake.commit import TableTransaction
from frazil.lake.refs import head
from frazil.lake.row_lookup import AT_FILE, AT_POS, count_matching_rows, find_rows
from frazil.lake.table_files import table_files
from frazil.lake.tables import ensure
from frazil.plan.layout import TableLayout
from frazil.spec.sql.names import quote
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.lake.table_files import TableFiles

PATH = ("lake", "marts", "found")
NAME = "`lake`.`marts`.`found`"
HOSTILE = ("a", "a.b", "a b", """it's "quoted`""", "line\nbreak", "é; --", "_x2E")
SMALL_GROUPS = {"write.parquet.row-group-size-bytes": "2048", "write.parquet.row-group-check-min-record-count": "50"}
"""So that a file of a few hundred rows has several row groups."""
COLUMNS = {
    "id": "int",
    "far": "bigint",
    "The name": "string",
    "day": "date",
    "at": "timestamp",
    "money": "decimal(12,2)",
    "yes": "boolean",
    "near": "double",
    "parts": "array<string>",
}
VALUES = """
    CAST(id AS int) AS id,
    CASE WHEN id % 7 > 0 THEN id * 4000000000 END AS far,
    CASE WHEN id % 11 > 0 THEN concat('é ', id % 50) END AS `The name`,
    date_add(DATE '2026-01-01', CAST(id % 40 AS int)) AS day,
    timestampadd(SECOND, CAST(id AS int), TIMESTAMP '2026-01-01 00:00:00') AS at,
    CAST(id / 4 AS decimal(12,2)) AS money, id % 3 = 0 AS yes, id / 3 AS near, array('a') AS parts"""


class Table:
    """A table that many commits have changed."""

    def __init__(
        self, spark: SparkSession, folder: Path, columns: Mapping[str, str] = COLUMNS, values: str = VALUES
    ) -> None:
        self.session, self.values = World.at(folder, "hard").session(spark), values
        ensure(self.session, TableLayout(path=PATH, columns=columns, partition_by=(), properties={}))

    def append(self, first: int, last: int) -> None:
        """Write rows, by Spark or as a row delta, whose files differ."""
        rows = self.session.sql(f"SELECT {self.values} FROM range({first}, {last})").coalesce(1)
        base = head(self.session, NAME)
        with TableTransaction(self.session, PATH, base, {"batch": base.batch + 1}) as batch:
            if first % 2:
                batch.append(rows)
            else:
                places = {"file_path": pa.array([], pa.string()), "pos": pa.array([], pa.int64())}
                batch.row_delta(rows.toArrow(), pa.table(places))
            batch.publish()

    def delete(self, condition: str) -> None:
        """Delete rows by Spark, or by their places."""
        self.session.sql(f"DELETE FROM {NAME} WHERE {condition}")

    def files(self) -> TableFiles:
        found = table_files(self.session, NAME, head(self.session, NAME), str)
        assert not isinstance(found, NeedsSpark)
        return found


def rows_of(table: pa.Table, names: list[str]) -> list[tuple[Any, ...]]:
    """Rows in the order of some columns, then sorted."""
    return sorted(zip(*(table[name].to_pylist() for name in names), strict=True), key=str)


def found(table: Table, values: pa.Table, also: list[str]) -> list[tuple[Any, ...]]:
    rows = find_rows(table.files(), values, also)
    assert not isinstance(rows, NeedsSpark)
    names = [*dict.fromkeys((*values.column_names, *also))]
    assert {*rows.column_names} == {*names, AT_FILE, AT_POS}
    return rows_of(rows, [*names, AT_FILE, AT_POS])


def found_by_spark(table: Table, values: pa.Table, also: list[str]) -> list[tuple[Any, ...]]:
    table.session.createDataFrame(values).createOrReplaceTempView("wanted")
    same = " AND ".join(f"t.{quote(name)} = w.{quote(name)}" for name in values.column_names)
    names = [*dict.fromkeys((*values.column_names, *also))]
    columns = ", ".join(f"t.{quote(name)}" for name in names)
    sql = f"SELECT {columns}, _file, _pos FROM {NAME} AS t LEFT SEMI JOIN wanted AS w ON {same}"
    rows = table.session.sql(sql).toArrow()
    return rows_of(rows, [*names, "_file", "_pos"])


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Table:
    """Files of Spark and of the driver, one of many row groups; deletes; columns that came and changed."""
    table = Table(spark, tmp_path / "world")
    for first, last in ((0, 300), (301, 600), (600, 601)):
        table.append(first, last)
    for name, value in SMALL_GROUPS.items():
        table.session.sql(f"ALTER TABLE {NAME} SET TBLPROPERTIES ('{name}' = '{value}')")
    table.append(701, 1400)
    table.delete("id % 5 = 0")
    table.session.sql(f"ALTER TABLE {NAME} RENAME COLUMN money TO price")
    table.session.sql(f"ALTER TABLE {NAME} ALTER COLUMN id TYPE bigint")
    table.session.sql(f"ALTER TABLE {NAME} ALTER COLUMN price TYPE decimal(20,2)")
    table.session.sql(f"ALTER TABLE {NAME} ADD COLUMN money int")
    table.delete("id BETWEEN 301 AND 320")
    table.delete("id = 600")
    files = table.files()
    assert len(files.deleted) > 2
    assert max(files.open(address).num_row_groups for address in files.rows) > 3
    return table


@pytest.mark.long
@pytest.mark.parametrize(("span", "portion"), [(row_lookup._SPAN, row_lookup._PORTION_BYTES), (0, 0)])
def test_rows_are_found_by_any_column_as_spark_finds_them(
    table: Table, span: int, portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renamed, widened and missing columns; one and several; NULL; none; values that no row has."""
    monkeypatch.setattr(row_lookup, "_SPAN", span)
    monkeypatch.setattr(row_lookup, "_PORTION_BYTES", portion)
    chance = Random(1)
    ids = [chance.randint(-50, 1500) for _ in range(200)]
    texts = [f"é {chance.randint(-5, 60)}" for _ in ids] + [None]
    everything = table.session.table(NAME).toArrow()
    some = everything.take([chance.randrange(everything.num_rows) for _ in range(40)])
    cases = [
        (pa.table({"id": pa.array(ids, pa.int32())}), ["far", "money", "price"]),
        (pa.table({"id": pa.array([*ids, 2**40, None], pa.int64())}), []),
        (pa.table({"id": pa.array([1399, 1399], pa.int64())}), ["The name"]),  # the last row of the last file
        (pa.table({"id": pa.array([701], pa.int64())}), ["far"]),  # the first one
        (pa.table({"far": pa.array([number * 4_000_000_000 for number in ids], pa.int64())}), ["id"]),
        (pa.table({"The name": pa.array(texts, pa.string())}), ["id", "near"]),
        (pa.table({"money": pa.array([1, 2], pa.int32())}), ["id"]),
        (pa.table({"id": pa.array([], pa.int64())}), ["far"]),
        (some.select(["day"]), ["id"]),
        (some.select(["at", "id"]), ["yes"]),
        (some.select(["price"]), ["id"]),
        (some.select(["yes"]), ["id"]),
        (pa.table({"day": some["day"], "The name": some["The name"].take(list(range(39, -1, -1)))}), ["id", "at"]),
    ]

    for values, also in cases:
        assert found(table, values, also) == found_by_spark(table, values, also), values.column_names


def test_of_rows_with_a_flag_those_are_found_that_have_it(table: Table) -> None:
    """A flag that is NULL, in files that are older than its column among others, is not true."""
    files, ids = table.files(), pa.table({"id": [*range(1500)]})
    flagged, those = find_rows(files, ids, ["far"], "yes"), table.session.table(NAME).where("yes").toArrow()
    table.session.sql(f"ALTER TABLE {NAME} ADD COLUMN new boolean")
    table.append(1501, 1510)
    table.session.sql(f"UPDATE {NAME} SET new = id % 2 = 0 WHERE id BETWEEN 1300 AND 1505")
    newer = find_rows(table.files(), pa.table({"id": [*range(1600)]}), [], "new")

    assert not isinstance(flagged, NeedsSpark)
    assert flagged.column_names == ["id", "far", AT_POS, AT_FILE]
    assert rows_of(flagged, ["id"]) == rows_of(those, ["id"])
    assert not isinstance(newer, NeedsSpark)
    assert rows_of(newer, ["id"]) == rows_of(table.session.sql(f"SELECT id FROM {NAME} WHERE new").toArrow(), ["id"])
    assert newer.num_rows > 40
    for no_flag in ("nobody", "id"):
        assert find_rows(files, ids, [], no_flag) == NeedsSpark("type")


def test_more_rows_than_may_be_found_are_left_to_spark(table: Table) -> None:
    """In one file and in several, with the number of matches for any other filter."""
    files, everything = table.files(), pa.table({"id": [*range(1500)]})
    every = find_rows(files, everything)
    assert not isinstance(every, NeedsSpark)

    assert isinstance(find_rows(files, everything, ["far"], most=every.num_rows), pa.Table)
    assert find_rows(files, everything, ["far"], most=every.num_rows - 1) == NeedsSpark("large")
    assert find_rows(files, everything, ["far"], most=0) == NeedsSpark("large")
    assert isinstance(find_rows(files, pa.table({"id": [5_000]}), most=0), pa.Table)


def test_columns_are_found_whatever_their_names_are(spark: SparkSession, tmp_path: Path) -> None:
    """Iceberg's writer changes names that Avro has not, and the driver's does not."""
    values = ", ".join(f"id + {number} AS {quote(name)}" for number, name in enumerate(HOSTILE))
    table = Table(spark, tmp_path / "world", dict.fromkeys(HOSTILE, "bigint"), values)
    for first, last in ((0, 20), (21, 40)):
        table.append(first, last)

    for name in HOSTILE:
        also = [other for other in HOSTILE if other != name]
        values = pa.table({name: [5, 9, 30, 99]})
        assert found(table, values, also) == found_by_spark(table, values, also)


def test_values_that_are_compared_otherwise_or_nested_are_left_to_spark(table: Table) -> None:
    files = table.files()

    assert find_rows(files, pa.table({"near": [1.5]})) == NeedsSpark("type")
    assert find_rows(files, pa.table({"id": ["1"]})) == NeedsSpark("type")
    assert find_rows(files, pa.table({"id": [1]}), ["parts"]) == NeedsSpark("type")
    assert find_rows(files, pa.table({"nobody": [1]})) == NeedsSpark("type")


def test_rows_are_counted_as_they_live(table: Table) -> None:
    rows = table.session.table(NAME)

    assert count_matching_rows(table.files(), {}) == rows.count()
    assert count_matching_rows(table.files(), {"yes": False}) == rows.where("NOT yes").count()


def test_tables_that_only_iceberg_can_read_are_left_to_it(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, tmp_path / "world")
    needs_spark = NeedsSpark("files")
    assert table_files(table.session, NAME, head(table.session, NAME), str) == needs_spark  # it has no snapshot
    table.append(1, 10)
    table.session.sql(f"ALTER TABLE {NAME} SET TBLPROPERTIES ('format-version' = '3')")
    table.delete("id = 3")

    assert table_files(table.session, NAME, head(table.session, NAME), str) == needs_spark  # places are kept otherwise
