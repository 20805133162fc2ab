"""A user's SQL expression as a Spark column that cannot fail, and the reason why it has no value.

Spark SQL has no ``try`` for a whole expression, but Catalyst has one: ``TryEval`` is NULL if its expression throws.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Final

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

from frazil.errors import DeclarationError, SessionError
from frazil.older_spark import loggers
from frazil.spark.gateway import column_of, expression_of, java_class, sql_class
from frazil.spec.sql.names import backslashes

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, SparkSession

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
