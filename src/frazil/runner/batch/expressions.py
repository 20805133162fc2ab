"""Expressions of the declaration, handed to Spark: before all else, for every record, and for the reasons."""

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
"""So many different failures of a batch are told in Spark's words, the others by what they fail on."""


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
    """Return whether a change keeps a rule, over typed columns: as :func:`frazil.spark.expression.attempt` gives it."""
    return attempt(spark, expr, F.col(r.CLASS) == r.UPSERT)


def check_expressions(spark: SparkSession, table: Table, fields: Mapping[str, str]) -> None:
    """Let Spark resolve and type every expression of a table; nothing is read and no job runs.

    Args:
        spark: the session of the run.
        table: the declaration.
        fields: name of every field -> its type in the files; none if none is known yet, then nothing is done.

    Raises:
        SqlError: of the first one that Spark refuses.
        SessionError: the session has no JVM gateway.
    """
    known = set(map(str.lower, fields))
    made = {
        column.name: column.expr
        for column in table.columns or ()
        # Unknown fields are reported with all other mistakes of the declaration.
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
    """Find out why expressions fail: reason of a failing record -> the same in Spark's words.

    Args:
        spark: the session of the run.
        contract: the settled columns.
        rows: change rows, good and bad ones alike.

    Returns:
        At most ``MOST_REASONS``, the first in the order of their texts.

    Cost: one more look at the rows, then the planner computes each of the expressions once more, without a job.
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
