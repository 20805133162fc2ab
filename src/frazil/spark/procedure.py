"""Call the procedures that Iceberg keeps a table in shape with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def call(spark: SparkSession, path: tuple[str, ...], procedure: str, *arguments: str) -> DataFrame:
    """Call a procedure of a table's catalog on the table; further arguments are SQL, ``name => value``."""
    table = literal(".".join(quote(part) for part in path[1:]))
    given = ", ".join([f"table => {table}", *arguments])
    return spark.sql(f"CALL {quote(path[0])}.system.{procedure}({given})")
