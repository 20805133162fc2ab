"""Rules that warn or stop a run: they count violations and do not quarantine records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.errors import ContractError
from frazil.runner.batch.expressions import is_kept
from frazil.silver.changes import PROBLEM
from frazil.silver.rules import Spark, breaks, row_rules
from frazil.spark.expression import VALUE, user_sql
from frazil.spec.amount import counted
from frazil.spec.sql.names import backslashes, literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.silver.rules import RowRule

_COUNT, _FIRST = "rule_count_", "rule_first_"
_IS_CHANGE: Final = f"{PROBLEM} IS NULL AND {r.CLASS} = {literal(r.UPSERT)}"
_passed: Final = set[tuple[object, ...]]()
"""Columns and rules that Spark has accepted in this process, so that a watch checks them once."""


class RuleBrokenError(ContractError):
    """Changes break a rule that stops the run."""

    code = "FZ403"


@dataclass(frozen=True, slots=True)
class Watched:
    """The rules of a table that warn or stop a run.

    Attributes:
        rules: these rules.
        since: column added after the first batch -> batch that introduced it; earlier changes lack it.
    """

    rules: tuple[RowRule, ...]
    since: Mapping[str, int]

    @classmethod
    def of(cls, contract: Contract, since: Mapping[str, int]) -> Watched:
        """Return the watched rules of a contract."""
        return cls(tuple(rule for rule in row_rules(contract) if rule.on_violation != "quarantine"), since)

    def sums(self, spark: SparkSession) -> list[SparkColumn]:
        """Return aggregates over change rows: the number of violations of each rule, and the place of the first.

        Cost: free without such rules.
        """
        place = F.expr(f"concat({r.FILE}, ' row ', {r.ROW})")
        found = []
        for number, rule in enumerate(self.rules):
            is_broken = self._is_broken(spark, rule)
            found.append(F.count_if(is_broken).alias(f"{_COUNT}{number}"))
            found.append(F.min(F.when(is_broken, place)).alias(f"{_FIRST}{number}"))
        return found

    def _is_broken(self, spark: SparkSession, rule: RowRule) -> SparkColumn:
        is_judged = F.expr(" AND ".join([_IS_CHANGE, *map(self._is_carried, rule.columns)]))
        if rule.expr is None:
            return is_judged & F.expr(breaks(rule, Spark()))
        kept = is_kept(spark, rule.expr)
        return is_judged & (kept.isNull() | F.coalesce(kept[VALUE] == "false", F.lit(False)))

    def _is_carried(self, column: str) -> str:
        everything = f"{r.KNOWN} IS NULL"
        if batch := self.since.get(column, 0):
            everything = f"({everything} AND {r.BATCH} >= {batch})"
        return f"({everything} OR coalesce(array_contains({r.KNOWN}, {literal(column)}), false))"

    def report(self, context: TableRun, seen: Mapping[str, Any]) -> None:
        """Report the counted violations.

        Raises:
            RuleBrokenError: a rule that stops the run is broken.
        """
        for number, rule in enumerate(self.rules):
            count = int(seen[f"{_COUNT}{number}"])
            if not count:
                continue
            first = seen[f"{_FIRST}{number}"]
            broken = f"{counted(count, 'change breaks', 'changes break')} rule {rule.full_name}, the first in {first}"
            if rule.on_violation == "fail":
                raise RuleBrokenError(
                    f"table {context.table.name!r}: {broken}: {rule.says}; nothing of the batch is visible past bronze",
                    hint="fix the source or the rule, or let such changes pass or go to quarantine: on_violation",
                )
            context.report.broken_rules[rule.full_name] = count
            context.report.warnings.append(f"{broken}: {rule.says}")


def check_rules(spark: SparkSession, contract: Contract, table: str) -> None:
    """Resolve and type every rule of a table with Spark, without reading data or running a job.

    Args:
        spark: the session of the run.
        contract: the table's contract.
        table: name of the table.

    Raises:
        SqlError: Spark refuses a rule, or its type is not boolean; the error names the first.

    Cost: once in a process for the same columns and rules.
    """
    patterns = [rule for rule in row_rules(contract) if rule.name == "pattern"]
    exprs = {rule.name: rule.expr for rule in contract.rules if rule.expr is not None}
    columns = tuple((column.name, column.type) for column in contract.columns)
    judged = (columns, *exprs.items(), *((pattern.column, pattern.values[0]) for pattern in patterns))
    if judged in _passed or not (exprs or patterns):
        return
    typed = spark.range(1).select(*(F.expr(f"CAST(NULL AS {one.type})").alias(one.name) for one in contract.columns))
    for name, expr in exprs.items():
        with user_sql(f"rule {name!r} of table {table!r}", expr):
            typed.select(F.expr(f"CASE WHEN ({backslashes(expr)}) THEN 1 END")).schema  # noqa: B018 - resolves it
    for pattern in patterns:
        with user_sql(f"pattern of column {pattern.column!r} of table {table!r}", pattern.values[0]):
            _fold(typed.selectExpr(f"'' RLIKE {literal(pattern.values[0])} AS found"))
    _passed.add(judged)


def _fold(frame: DataFrame) -> None:
    """Evaluate the constant expressions of a DataFrame, as Spark's planner does."""
    frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - no job runs
