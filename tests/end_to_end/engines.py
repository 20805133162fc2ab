"""Three engines that alter the tables of a lake as their users do: Trino, Spark and PyIceberg."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import trino
from pyiceberg.catalog import load_catalog

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

AT_ONCE = (
    "SET SESSION lake.expire_snapshots_min_retention = '0s'",
    "SET SESSION lake.remove_orphan_files_min_retention = '1d'",
)
"""Settings of Trino, so that it removes what is younger than a week."""


@dataclass(frozen=True, kw_only=True)
class Engines:
    """What is told to the engines of one lake.

    Attributes:
        port: of Trino.
        spark: a session with the lake.
        lake: folder of the warehouse.
    """

    port: int
    spark: SparkSession
    lake: Path

    def trino(self, *statements: str) -> list[tuple[Any, ...]]:
        """Do statements in a session of Trino; the rows of the last one."""
        place = {"host": "127.0.0.1", "port": self.port, "user": "other", "catalog": "lake"}
        with closing(trino.dbapi.connect(**place)) as asked:
            cursor = asked.cursor()
            rows: list[Any] = []
            for statement in (*AT_ONCE, *statements):
                cursor.execute(statement)
                rows = cursor.fetchall()
        return [tuple(row) for row in rows]

    def by_spark(self, *statements: str) -> list[tuple[Any, ...]]:
        """Do statements in Spark; the rows of the last one."""
        rows: list[Any] = []
        for statement in statements:
            rows = self.spark.sql(statement).collect()
        return [tuple(row) for row in rows]

    def catalog(self) -> Catalog:
        """Open the catalog with PyIceberg."""
        at = {"uri": f"sqlite:///{self.lake}/catalog.db", "warehouse": f"file://{self.lake}"}
        return load_catalog("lake", type="sql", **at)

    def table(self, name: str) -> Table:
        """Load a table with PyIceberg: ``name`` is ``namespace.table``."""
        return self.catalog().load_table(name)
