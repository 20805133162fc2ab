"""A small lake of two batches, made by a run as a user's is."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import frazil
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline

DECLARATION = """\
pipeline: shop
lake: {warehouse: ./my lake}
tables:
  - name: items
    source: {kind: dms, path: ./landing, header: true, settle_seconds: 0}
    keys: [id]
    sequence_by: [ts]
    columns:
      - {name: id, type: int}
      - {name: ts, type: timestamp}
      - {name: name, type: string}
      - {name: price, type: "decimal(10,2)"}
    marts:
      - {kind: current}
      - {kind: current, name: items_all, deletes: soft}
      - {kind: history}
      - {kind: history, name: items_marked, deletes: mark}
gold:
  - {name: prices, sql: "select count(*) as items, sum(price) as total from {{ items }}"}
"""

FIRST = {
    "LOAD00000001.csv": """\
op,id,ts,name,price
I,1,2026-01-01 08:00:00,ice,1.10
I,2,2026-01-01 08:00:00,snow,2.20
I,3,2026-01-01 08:00:00,"sleet, wet",3.30
""",
    "20260102-000000001.csv": """\
op,id,ts,name,price
U,1,2026-01-02 08:00:00,ice,1.50
D,2,2026-01-02 09:00:00,NULL,NULL
I,4,2026-01-02 10:00:00,hail,four
I,5,2026-01-02 11:00:00,rime,5.00
""",
}
SECOND = {
    # Older than what key 1 has, and its newest change once more.
    "20260103-000000001.csv": """\
op,id,ts,name,price
U,1,2026-01-01 20:00:00,ice,1.30
U,1,2026-01-02 08:00:00,ice,1.50
""",
    "again.csv": FIRST["LOAD00000001.csv"],
}


@dataclass(frozen=True, kw_only=True)
class Shop:
    """Key 1 has a late and a repeated change, 2 is deleted, 4 in quarantine, and one file came twice."""

    folder: Path
    session: SparkSession

    @property
    def pipeline(self) -> Pipeline:
        """The declaration, read again."""
        return frazil.load(self.folder)

    def deliver(self, files: dict[str, str]) -> None:
        """Put files into the landing folder."""
        for name, text in files.items():
            (self.folder / "landing" / name).write_text(text, encoding="utf-8")

    @contextmanager
    def changed(self, name: str, content: bytes | None) -> Iterator[None]:
        """Give a landed file other content, or take it away, and put it back afterwards, times and all."""
        file, aside = self.folder / "landing" / name, self.folder / name
        file.rename(aside)
        try:
            if content is not None:
                file.write_bytes(content)
            yield
        finally:
            aside.replace(file)

    @contextmanager
    def damaged(self, table: str, *statements: str) -> Iterator[None]:
        """Change a table behind Frazil's back, and put it back afterwards."""
        (before,) = self.session.sql(f"SELECT snapshot_id FROM lake.{table}.refs WHERE name = 'main'").collect()
        try:
            for statement in statements:
                self.session.sql(statement)
            yield
        finally:
            self.session.sql(f"CALL lake.system.rollback_to_snapshot('{table}', {before['snapshot_id']})")


@pytest.fixture(scope="session")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    del spark  # only there so that Java runs, with the settings of the tests
    return new_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def undamaged_shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A shop whose past no other test has added to."""
    del spark
    return new_shop(tmp_path_factory.mktemp("shop"))


def new_shop(folder: Path) -> Shop:
    """Make the lake in an empty folder."""
    (folder / "landing").mkdir()
    (folder / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    shop = Shop(folder=folder, session=spark_session(frazil.load(folder)))
    for files in (FIRST, SECOND):
        shop.deliver(files)
        frazil.run(shop.pipeline)
    return shop
