"""Files that the driver merges hold the rows that they held, to everybody who reads the table."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest
from tests.properties.world import World

from frazil.lake.commit import TableTransaction
from frazil.lake.merge_files import choose_merge, merge_files
from frazil.lake.refs import head
from frazil.lake.table_files import TableFile, TableFiles, table_files
from frazil.lake.tables import ensure
from frazil.plan.layout import TableLayout
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.lake.merge_files import Merge

PATH = ("lake", "marts", "merged")
NAME = "`lake`.`marts`.`merged`"
COLUMNS = {
    "id": "int",
    "a.b": "string",
    'it\'s "quoted"': "decimal(12,2)",
    "day": "date",
    "at": "timestamp",
    "yes": "boolean",
    "near": "float",
    "is_current": "boolean",
    "note": "string",
}
MANY = 1 << 40


class Table:
    """A table that many commits change."""

    def __init__(self, spark: SparkSession, folder: Path, *, is_parted: bool, **more: str) -> None:
        self.session, self.next = World.at(folder, "hard").session(spark), 0
        layout = TableLayout(path=PATH, columns=COLUMNS | more, partition_by=["is_current"] if is_parted else ())
        ensure(self.session, layout)

    def change(self, new: int, gone: int = 0) -> None:
        """Add rows and delete others by their places."""
        numbers = range(self.next, self.next + new)
        self.next += new
        rows = pa.table(
            {
                "id": pa.array(numbers, pa.int32()),
                "a.b": [None if number % 5 == 0 else f"é {number % 7}" for number in numbers],
                "is_current": [number % 3 > 0 for number in numbers],
            }
        )
        chosen = f"SELECT _file AS file_path, _pos AS pos, is_current FROM {NAME} ORDER BY hash(id, {new}) LIMIT {gone}"
        places = self.session.sql(chosen).toArrow()
        base = head(self.session, NAME)
        with TableTransaction(self.session, PATH, base, {"batch": base.batch + 1}) as batch:
            batch.row_delta(rows, places)
            batch.publish()

    def merge(self, *, smaller: int = MANY, dead_share: float = 1.0, most_bytes: int = MANY) -> tuple[Merge, bool]:
        at = head(self.session, NAME)
        files = table_files(self.session, NAME, at, str)
        assert not isinstance(files, NeedsSpark)
        merge = choose_merge(files, smaller=smaller, dead_share=dead_share, most_bytes=most_bytes)
        return merge, merge_files(self.session, NAME, at, files, merge, file_bytes=MANY)

    def rows(self, at: int | None = None) -> list[Any]:
        version = "" if at is None else f" VERSION AS OF {at}"
        return sorted(map(repr, self.session.sql(f"SELECT * FROM {NAME}{version}").collect()))

    def files(self) -> list[tuple[int, int]]:
        """Content and number of records of each file."""
        found = self.session.sql(f"SELECT content, record_count FROM {NAME}.files")
        return sorted((row.content, row.record_count) for row in found.collect())


@pytest.fixture(params=[False, True], ids=["whole", "parted"])
def table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Table:
    return Table(spark, tmp_path / "world", is_parted=request.param)


def test_small_files_become_one_and_what_is_deleted_is_gone(table: Table) -> None:
    table.change(50)
    for _ in range(4):
        table.change(10, gone=7)
    before, rows, was = head(table.session, NAME), table.rows(), table.files()

    _, is_done = table.merge()

    after = head(table.session, NAME)
    assert is_done
    assert table.rows() == rows
    assert len(was) > len(table.files())
    assert sum(count for content, count in table.files() if content == 0) == len(rows) == 62
    assert not [content for content, _ in table.files() if content]
    assert after.bookmark == before.bookmark
    assert after.snapshot_id != before.snapshot_id
    assert (after.records, after.position_deletes, after.delete_files) == (62, 0, 0)
    assert after.data_files == len(table.files())
    assert table.rows(before.snapshot_id) == rows
    table.change(5, gone=30)
    assert len(table.rows()) == 37


def test_a_large_file_stays_and_the_places_of_its_rows_become_one_file(table: Table) -> None:
    table.change(3000)
    loaded = table.files()
    for _ in range(4):
        table.change(10, gone=20)
    rows = table.rows()
    large = max(size for (size,) in table.session.sql(f"SELECT file_size_in_bytes FROM {NAME}.files").collect())

    merge, is_done = table.merge(smaller=large // 3)

    counts = table.files()
    assert is_done
    assert table.rows() == rows
    assert not merge.is_left
    assert [one for one in counts if one[1] >= loaded[0][1]] == loaded
    assert len(counts) == 3 * len(loaded)  # beside each, one of new rows and one of places
    at = head(table.session, NAME)
    assert at.records - at.position_deletes == len(rows) == 2960


def test_a_file_with_many_deleted_rows_is_rewritten_up_to_a_size(table: Table) -> None:
    table.change(300)
    table.change(0, gone=150)
    rows = table.rows()

    left, _ = table.merge(smaller=0, dead_share=0.1, most_bytes=10)
    merge, is_done = table.merge(smaller=0, dead_share=0.1)

    assert left.is_left
    assert not left.rows
    assert is_done
    assert not merge.is_left
    assert table.rows() == rows
    assert sum(count for content, count in table.files() if content == 0) == 150


@pytest.mark.parametrize(
    ("sizes", "chosen"),
    [
        ([10, 10, 10, 250], 3),  # the large one stays until newer ones have an eighth of its size
        ([10, 10, 10, 240], 4),
        ([10, 100, 990], 0),
        ([10, 80, 700], 3),
        ([10, 10, 1000], 2),  # no small one
        ([10], 0),
        ([], 0),
    ],
)
def test_a_file_is_merged_once_newer_ones_are_an_eighth_of_it(sizes: list[int], chosen: int) -> None:
    rows = {
        f"{at}": TableFile(address=f"{at}", size_bytes=size, rows=1, partition={}, highest={})
        for at, size in enumerate(sizes)
    }
    files = TableFiles(fields={}, nested={}, rows=rows, deleted={}, places={}, address=str)

    merge = choose_merge(files, smaller=1000, dead_share=0.1, most_bytes=MANY)

    assert sorted(merge.rows) == [*rows][:chosen]


def test_a_concurrent_change_is_kept_and_the_merge_abandoned(table: Table) -> None:
    table.change(30)
    table.change(30, gone=5)
    at = head(table.session, NAME)
    files = table_files(table.session, NAME, at, str)
    assert not isinstance(files, NeedsSpark)
    merge = choose_merge(files, smaller=MANY, dead_share=1.0, most_bytes=MANY)
    table.session.sql(f"DELETE FROM {NAME} WHERE id < 20")
    rows = table.rows()

    assert not merge_files(table.session, NAME, at, files, merge, file_bytes=MANY)

    assert table.rows() == rows


def test_files_are_kept_when_others_of_their_manifest_were_removed(spark: SparkSession, tmp_path: Path) -> None:
    """Iceberg writes a list of files again where some of them go; one of none but these has nothing to read."""
    table = Table(spark, tmp_path / "world", is_parted=True)
    table.change(30)
    table.change(30)
    table.session.sql(f"DELETE FROM {NAME} WHERE is_current")
    rows = table.rows()

    merge, is_done = table.merge()

    assert len(merge.rows) == 2
    assert is_done
    assert table.rows() == rows
    assert len(rows) == 20


def test_maps_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, tmp_path / "world", is_parted=False, parts="map<string, int>")
    for _ in range(3):
        table.change(10)

    merge, is_done = table.merge()

    assert len(merge.rows) == 3
    assert not is_done
    assert len(table.files()) == 3


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.laws) for seed in range(2, 6))])
def test_after_anything_that_happens_to_a_table_it_has_the_same_rows(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    lot = Random(seed)
    table = Table(spark, tmp_path / "world", is_parted=seed % 2 == 1, parts="array<string>", said="struct<a: int>")
    table.change(40)
    sql = table.session.sql

    def note() -> str:
        return next(name for name in table.session.table(NAME).columns if name.startswith("note"))

    happens: dict[str, Callable[[], object]] = {
        "delta": lambda: table.change(lot.randrange(30), gone=lot.randrange(20)),
        "delete": lambda: sql(f"DELETE FROM {NAME} WHERE id % 11 = {lot.randrange(11)}"),
        "append": lambda: sql(
            f"INSERT INTO {NAME} (id, day, is_current, parts) "
            "SELECT id, DATE '2026-01-01', id % 2 = 0, array('é', NULL, CAST(id AS string)) FROM range(900, 920)"
        ),
        "nest": lambda: sql(f"ALTER TABLE {NAME} ADD COLUMN said.c{uuid4().hex} int"),
        "widen": lambda: sql(f"ALTER TABLE {NAME} ALTER COLUMN near TYPE double"),
        "add": lambda: sql(f"ALTER TABLE {NAME} ADD COLUMN c{uuid4().hex} int"),
        "rename": lambda: sql(f"ALTER TABLE {NAME} RENAME COLUMN {note()} TO note_{uuid4().hex}"),
        "drop": lambda: sql(f"ALTER TABLE {NAME} DROP COLUMN IF EXISTS `at`"),
    }
    merged = 0
    for _ in range(12):
        happens[lot.choice([*happens, "delta", "delta"])]()
        if lot.random() < 0.4:
            rows = table.rows()
            with suppress(ValueError):  # where a file has a struct from before
                merged += table.merge(smaller=lot.choice([1500, 3000, MANY]), dead_share=lot.choice([0.05, 0.5]))[1]
            assert table.rows() == rows

    at = head(table.session, NAME)
    assert merged
    assert at.data_files + at.delete_files == len(table.files())
