"""Users' SQL expressions as Spark columns that cannot fail, and the reasons why they have no value.

Spark SQL has no ``try`` for a whole expression, but Catalyst has one: ``TryEval`` is NULL if its expression throws.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Final

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.errors import DeclarationError, SessionError
from frazil.older_spark import loggers, to_arrow
from frazil.silver.changes import FAILS, Expressions, quarantined
from frazil.spark.gateway import column_of, expression_of, java_class, sql_class
from frazil.spec.sql.names import backslashes, quote
from frazil.spec.sql.sql import fields_of

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql import Column as SparkColumn

    from frazil.silver.contract import Contract
    from frazil.spec import Table

VALUE: Final = "value"
"""Field of what :func:`attempt` gives."""

_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_ADVICE: Final = re.compile(r' *If necessary set "[^"]*" to "[^"]*"[^.]*\.| *SQLSTATE: \w+|; line \d+ pos \d+')
_LONGEST: Final = 300


class SqlError(DeclarationError):
    """Spark refuses SQL of the declaration, or cannot compute an aggregate."""

    code = "FZ106"


@contextmanager
def user_sql(what: str, sql: str) -> Iterator[None]:
    """Raise Spark's errors of a user's SQL as errors of the declaration, without PySpark's log lines.

    Args:
        what: the place of the SQL in the declaration, such as ``expr of column 'city' of table 'hosts'``.
        sql: the SQL.

    Raises:
        SqlError: Spark cannot resolve the SQL, or it fails on an input value.
    """
    try:
        with _quiet():
            yield
    except (PySparkException, Py4JJavaError) as error:
        said = _objection(error)
        if said is None:
            raise
        raise SqlError(f"{what}: {_short(said)}", hint=f"it says: {' '.join(sql.split())}") from error


def attempt(spark: SparkSession, sql: str, condition: Column) -> Column:
    """Return a column with an expression's value as text in a struct; NULL if the expression fails.

    Args:
        spark: the session that selects the column, with ``spark.sql.ansi.enabled``. Without that setting Spark returns
            NULL for most failures.
        sql: one expression, without aggregates and windows.
        condition: rows to compute it for; NULL for the others. It must depend on the row: otherwise Spark evaluates the
            expression ahead of the rows or shares it between columns, outside the ``try``.

    Returns:
        ``struct<value: string>``; a struct with a NULL value if the expression is NULL.

    Raises:
        SessionError: the session has no JVM gateway (Spark Connect).
        ParseException: ``sql`` is not a valid expression.

    Cost: no job, about twelve Java calls; one ``try`` for each row in the generated code.
    """
    if getattr(spark, "_jvm", None) is None:
        raise SessionError(
            "this Spark session has no JVM gateway (Spark Connect), so a column with an expr cannot be computed",
            hint="run with a classic session: leave spark out, or use spark-submit",
        )
    # An expression's behaviour on errors is fixed when it is parsed, by the thread's active session.
    java_class(spark, sql_class("SparkSession")).setActiveSession(spark._jsparkSession)  # noqa: SLF001
    value = F.struct(F.expr(backslashes(sql)).cast("string").alias(VALUE))
    tried = java_class(spark, "org.apache.spark.sql.catalyst.expressions.TryEval")(expression_of(spark, value))
    return F.when(condition, column_of(spark, tried))


def reason(spark: SparkSession, sql: str, fields: Mapping[str, str | None]) -> str | None:
    """Return Spark's message for an expression that fails on a record; None if it does not fail.

    Args:
        spark: as for :func:`attempt`.
        sql: one expression.
        fields: field name -> text.

    Cost: the expression is computed by the planner, without a job; if it does not fail, in a job of one row.
    """
    record = spark.range(1).select(*(F.lit(text).cast("string").alias(name) for name, text in fields.items()))
    try:
        with _quiet():
            record.select(F.expr(backslashes(sql)).cast("string")).collect()
    except (PySparkException, Py4JJavaError) as error:
        return _short(_objection(error) or str(error).strip())
    return None


def _objection(error: PySparkException | Py4JJavaError) -> str | None:
    """Return Spark's message about the SQL or a value from the chain of causes; None for another kind of error."""
    java = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    while java is not None:
        is_told = is_instance_of(SparkContext._gateway, java, "org.apache.spark.SparkThrowable")  # noqa: SLF001
        # SQL state classes 22 and P0: an invalid value, or an error that the SQL itself raised.
        if is_told and (isinstance(error, AnalysisException) or (java.getSqlState() or "")[:2] in {"22", "P0"}):
            return str(java.getMessage())
        java = java.getCause()
    return None


def _short(message: str) -> str:
    """Return the first sentence of Spark's message in one line, without stack, query and advice about settings."""
    text = " ".join(_ADVICE.sub("", re.split(r"\n\s*==|;\n", message.strip())[0]).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress PySpark's log lines for errors of this thread, which Frazil reports itself."""
    mine = get_ident()

    def not_mine(record: logging.LogRecord) -> bool:
        return record.thread != mine

    held = loggers(_LOGGERS)
    for logger in held:
        logger.addFilter(not_mine)
    try:
        yield
    finally:
        for logger in held:
            logger.removeFilter(not_mine)


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
    old = {
        column.name: partial(_of_field, spark, column.expr, column.name)
        for column in contract.columns
        if column.expr is not None and column.name in contract.keys and contract.needs(column) == {column.name.lower()}
    }
    return Expressions(made=made, kept=kept, old=old)


def _of_field(spark: SparkSession, expr: str, field: str, text: str) -> SparkColumn:
    """Return an expression over one field as :func:`attempt` does; ``text`` is SQL of another value of the field."""
    of_value = f"transform(array({text}), {quote(field)} -> ({expr}))[0]"
    return attempt(spark, of_value, (F.col(r.KIND) != r.BAD) & F.expr(f"{text} IS NOT NULL"))


def is_kept(spark: SparkSession, expr: str) -> SparkColumn:
    """Return whether a change fulfils a rule over typed columns; see :func:`frazil.spark.expressions.attempt`."""
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
