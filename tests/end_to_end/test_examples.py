"""The examples end as their pages say, row by row."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import frazil
from frazil.spark.session import spark_session
from frazil.testing import draw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.runner.report import RunReport

EXAMPLES = Path(__file__).parents[2] / "examples"


class Example:
    """An example in a folder of its own, and its lake."""

    def __init__(self, name: str, folder: Path, spark: SparkSession) -> None:
        del spark  # its Java runs the session of this lake
        self.folder = folder / name
        shutil.copytree(EXAMPLES / name, self.folder, ignore=shutil.ignore_patterns("lake"))
        self.pipeline = frazil.load(self.folder)
        self.session = spark_session(self.pipeline)

    def run(self) -> RunReport:
        """Run it as a user does."""
        return frazil.run(self.pipeline, spark=self.session)

    def table(self, name: str, *columns: str) -> list[str]:
        """Draw a table's columns, in order of what they hold, blanks as one."""
        rows: list[dict[str, Any]] = self.session.table(f"lake.{name}").select(*columns).toArrow().to_pylist()
        drawn = draw(rows, columns).replace("+00:00", "")
        return sorted(" ".join(line.split()) for line in drawn.splitlines())


def lines(drawing: str) -> list[str]:
    return sorted(" ".join(line.split()) for line in drawing.strip().splitlines())


@pytest.fixture(scope="module")
def products(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Example:
    example = Example("products", tmp_path_factory.mktemp("examples"), spark)
    example.run()
    return example


@pytest.fixture(scope="module")
def airbnb(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Example:
    example = Example("airbnb", tmp_path_factory.mktemp("examples"), spark)
    example.run()
    return example


def test_products_end_as_five_changes_after_a_load_say(products: Example) -> None:
    """ORDER, DELETES (hard)."""
    assert products.table("marts.products", "product_id", "category", "product_name", "quantity_available") == lines(
        """
        100 | Furniture   | Product 1 | 25
        101 | Cosmetic    | Product 2 | 20
        102 | Furniture   | Product 3 | 28
        104 | Electronics | Product 5 | 50
        105 | Furniture   | Product 5 | 45
        106 | Electronics | Product 6 | 10
        """
    )


def test_a_deleted_product_stays_in_the_soft_table_and_not_in_its_live_view(products: Example) -> None:
    """DELETES (soft), AGREE."""
    assert products.table("marts.products_all", "product_id", "is_deleted", "deleted_at") == lines(
        """
        100 | false | -
        101 | false | -
        102 | false | -
        103 | true  | 2022-03-02 11:56:40.519832
        104 | false | -
        105 | false | -
        106 | false | -
        """
    )
    shown = products.session.table("lake.marts.products_live").toArrow()
    assert sorted(shown.column("product_id").to_pylist()) == [100, 101, 102, 104, 105, 106]
    assert not {"is_deleted", "deleted_at"} & set(shown.column_names)


def test_a_product_has_a_version_for_every_quantity(products: Example) -> None:
    """HISTORY: every change of a batch counts, not just the last."""
    history = products.table(
        "marts.products_history", "product_id", "quantity_available", "valid_from", "valid_to", "is_deleted"
    )
    assert [line for line in history if line.startswith(("102", "103"))] == lines(
        """
        102 | 30 | 2022-03-01 11:51:40.417052 | 2022-03-02 11:53:40.417052 | false
        102 | 29 | 2022-03-02 11:53:40.417052 | 2022-03-02 11:55:40.417052 | false
        102 | 28 | 2022-03-02 11:55:40.417052 | - | false
        103 | 10 | 2022-03-01 11:51:40.519832 | 2022-03-02 11:56:40.519832 | true
        """
    )


def test_products_are_partitioned_by_month_and_summed_by_category(products: Example) -> None:
    partitions = products.session.table("lake.marts.products.partitions").toArrow().to_pylist()
    assert {tuple(row["partition"]) for row in partitions} == {("last_update_time_month",)}
    assert products.table("gold.stock_by_category", "category", "products", "quantity") == lines(
        """
        Furniture   | 3 | 98
        Cosmetic    | 1 | 20
        Electronics | 2 | 60
        """
    )


def test_the_one_bad_host_is_in_quarantine_with_its_reason(airbnb: Example) -> None:
    """NOTHING-LOST."""
    assert airbnb.table("silver.hosts_quarantine", "_cdc_file", "_cdc_row", "rule", "column", "reason") == [
        "landing/airbnb_db/public/hosts_demo/20240203-093000118.csv | 3 | cast | since | not exactly a date: not a date"
    ]


HOSTS = """
1001 | Amélie Durand           | Paris   | France
1002 | O'Neil, Sean            | Cork    | Ireland
1003 | Casa "La Luna" & patio  | Sevilla | Spain
1004 | "Yuki\\nTanaka"         | Kyoto   | Japan
1005 | Lars Holm               | Malmö   | Sweden
1007 | ""                      | Lisboa  | Portugal
1008 | João Sá                 | Porto   | Portugal
1009 | Zoë Müller              | Wien    | Austria
"""

COUNTRIES = ["Austria | 1", "France | 1", "Ireland | 1", "Japan | 1", "Portugal | 2", "Spain | 1", "Sweden | 1"]


def test_hosts_late_changes_go_into_history_and_not_into_the_current_table(airbnb: Example) -> None:
    """LATE, NO-RESURRECTION, HISTORY, ONCE: also names with quotes, line ends, commas, and empty ones."""

    def host(key: int) -> list[str]:
        columns = ("id", "location_city", "location_country", "valid_from", "valid_to", "is_deleted")
        return [line for line in airbnb.table("marts.hosts_history", *columns) if line.startswith(f"{key}")]

    assert airbnb.table("marts.hosts", "id", "name", "location_city", "location_country") == lines(HOSTS)
    assert airbnb.table("gold.hosts_by_country", "location_country", "hosts") == COUNTRIES
    before = "1005 | Malmö | - | 2024-02-01 08:00:00 |"
    assert host(1005)[0] == f"{before} 2024-02-03 09:29:30 | false"
    assert host(1006) == [
        "1006 | Milano | Italy | 2024-02-02 10:14:20.450000 | 2024-02-02 10:14:40.900000 | true",
        "1006 | Roma | Italy | 2024-02-01 08:00:00 | 2024-02-02 10:14:20.450000 | false",
    ]

    landing = airbnb.folder / "landing" / "airbnb_db" / "public" / "hosts_demo"
    shutil.copy(airbnb.folder / "late" / "20240202-235900004.csv", landing)
    report = airbnb.run()

    assert {mart.mart: mart.late for mart in report.tables[0].marts} == {"hosts": 2, "hosts_history": 2}
    assert airbnb.table("marts.hosts", "id", "name", "location_city", "location_country") == lines(HOSTS)
    assert airbnb.table("gold.hosts_by_country", "location_country", "hosts") == COUNTRIES
    assert host(1005) == [
        f"{before} 2024-02-02 23:58:00 | false",
        "1005 | Malmö | Sweden | 2024-02-02 23:58:00 | 2024-02-03 09:29:30 | false",
        "1005 | Malmö | Sweden | 2024-02-03 09:29:30 | - | false",
    ]
    assert host(1006) == [
        "1006 | Milano | Italy | 2024-02-02 10:14:20.450000 | 2024-02-02 10:14:40.900000 | true",
        "1006 | Napoli | Italy | 2024-02-02 09:00:00 | 2024-02-02 10:14:20.450000 | false",
        "1006 | Roma | Italy | 2024-02-01 08:00:00 | 2024-02-02 09:00:00 | false",
    ]
    assert airbnb.run().steps == 0


def test_a_host_without_a_country_is_counted_under_none(spark: SparkSession, tmp_path: Path) -> None:
    """UNSEEN: after the load alone, host 1005 has a city and no country; gold follows the batches."""
    example = Example("airbnb", tmp_path, spark)
    landing = example.folder / "landing" / "airbnb_db" / "public" / "hosts_demo"
    for change in landing.glob("2*.csv"):
        change.rename(example.folder / change.name)

    example.run()

    countries = example.table("gold.hosts_by_country", "location_country", "hosts")
    assert countries == ["- | 1", "France | 1", "Ireland | 1", "Italy | 1", "Japan | 1", "Portugal | 2", "Spain | 1"]
