"""Check and evaluate expressions of the declaration with Spark, and explain their failures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.older_spark import to_arrow
from frazil.silver.changes import FAILS, Expressions
from frazil.silver.quarantine import quarantined
from frazil.spark.expression import attempt, reason, user_sql
from frazil.spec.sql.sql import fields_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

    from frazil.silver.contract import Contract
    from frazil.spec import Table

MOST_REASONS: Final = 20
"""Number of different failures of a batch that are reported in Spark's words; others name only the failing value."""


def expressions_of(spark: SparkSession, contract: Contract) -> Expressions:
    """Return the expressions of a contract, as :func:`frazil.silver.changes.change_rows` takes them."""
    is_record = F.col(r.KIND) != r.BAD
    made = {
        column.name: attempt(spark, column.expr, is_record) for column in contract.columns if column.expr is not None
    }
    kept = {
        rule.name: is_kept(spark, rule.expr)
        for rule in contract.rules
        if rule.expr is not None and rule.on_violation == "quarantine"
    }
    return Expressions(made=made, kept=kept)


def is_kept(spark: SparkSession, expr: str) -> SparkColumn:
    """Return whether a change fulfils a rule over typed columns; see :func:`frazil.spark.expression.attempt`."""
    return attempt(spark, expr, F.col(r.CLASS) == r.UPSERT)


def check_expressions(spark: SparkSession, table: Table, fields: Mapping[str, str]) -> None:
    """Resolve and type every expression of a table with Spark, without reading data or running a job.

    Args:
        spark: the session of the run.
        table: the declaration.
        fields: name of every field -> its type in the files; if empty, the check is skipped.

    Raises:
        SqlError: Spark refuses an expression; the error names the first.
        SessionError: the session has no JVM gateway.
    """
    known = set(map(str.lower, fields))
    made = {
        column.name: column.expr
        for column in table.columns or ()
        # Other checks of the declaration report unknown fields.
        if column.expr is not None and known.issuperset(map(str.lower, fields_of(column.expr)))
    }
    if not made or not fields:
        return
    texts = [F.lit(None).cast("string").alias(name) for name in fields]
    record = spark.range(1).select(F.lit(r.RECORD).alias(r.KIND), *texts)
    for name, expr in made.items():
        with user_sql(f"expr of column {name!r} of table {table.name!r}", expr):
            record.select(attempt(spark, expr, F.col(r.KIND) == r.RECORD))


def reasons(spark: SparkSession, contract: Contract, rows: DataFrame) -> dict[str, str]:
    """Return the reason of each failing record -> the same reason in Spark's words.

    Args:
        spark: the session of the run.
        contract: the table's contract.
        rows: change rows, good and bad ones alike.

    Returns:
        At most ``MOST_REASONS`` reasons, the first in text order.

    Cost: one more scan of the rows; then the planner evaluates each expression once more, without a job.
    """
    failing = quarantined(rows).where(F.col("rule") == FAILS).groupBy("reason", "column").agg(F.min("raw").alias("raw"))
    made = {column.name: column.expr for column in contract.columns if column.expr is not None}
    found = {}
    for row in to_arrow(failing.orderBy("reason", "column").limit(MOST_REASONS)).to_pylist():
        fields: Mapping[str, str | None] = json.loads(row["raw"])
        said = reason(spark, made[row["column"]], fields)
        if said is not None:
            found[row["reason"]] = f"{row['reason']}: {said}"
    return found
