"""Rules that warn or stop a run: counted over a batch, or over whole marts before they are published."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.errors import ContractError
from frazil.lake.refs import is_missing
from frazil.marts.counts import living_rows
from frazil.marts.table_rules import BROKEN, FIRST, dangling_rows, sharing_rows
from frazil.runner.limits.driver_rules import counts_on_driver
from frazil.silver.changes import PROBLEM
from frazil.silver.contract import MissingFieldError
from frazil.silver.rules import Spark, breaks, row_rules
from frazil.spark.expressions import VALUE, is_kept, user_sql
from frazil.spec import CATALOG, Current
from frazil.spec.amount import counted
from frazil.spec.sql.names import backslashes, literal, quote
from frazil.spec.sql.sql import mart_named, referenced_fields
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

    from frazil.runner.apply.left_rows import Left, LeftInMemory
    from frazil.runner.limits.driver_rules import Count
    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.silver.rules import RowRule
    from frazil.spec import References, RowCount, Rule
    from frazil.steps import UpdateMart

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


_NUMBER: Final = "_cdc_rule"


class TableRules:
    """The rules of a table's marts in one run.

    All marts of a table have the same living rows after a batch, so one of them is checked for all: the first current
    mart of the batch, or else the first mart. The other marts wait for it before they publish. If it does not pass,
    they are checked themselves, so a rule that stops the batch stops it in every mart.

    Freshness is not checked here, because a batch cannot make a mart older. ``frazil test`` checks it.
    """

    def __init__(self, context: TableRun, contract: Contract, marts: Sequence[str]) -> None:
        self._context = context
        self._names = {name.lower(): name for name in contract.names}
        keys = {name.lower() for name in contract.keys}
        self._rules = [
            rule
            for rule in contract.rules
            # Columns that include the key are always unique.
            if (rule.unique and not keys <= {name.lower() for name in rule.unique}) or rule.references or rule.row_count
        ]
        current = [mart for mart in marts if isinstance(context.mart(mart), Current)]
        self._first = (current or [*marts])[0]
        self._passed: Future[bool] = Future()

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of the rules."""
        return tuple(dict.fromkeys(name for rule in self._rules for name in self._columns(rule)))

    def in_order(self, steps: Iterable[UpdateMart]) -> list[UpdateMart]:
        """Return the steps with the mart that is checked for all first; the others keep their order."""
        return sorted(steps, key=lambda step: step.mart != self._first)

    @contextmanager
    def work_on(self, mart: str) -> Iterator[None]:
        """Release the waiting marts when the work on this one ends, also after an error."""
        try:
            yield
        finally:
            if mart == self._first and not self._passed.done():
                self._passed.set_result(False)

    def judge(
        self, mart: str, left: Callable[[], Left], in_memory: Callable[[], LeftInMemory] | None = None
    ) -> NeedsSpark | None:
        """Check the rules on a mart's rows after a batch, and report warnings.

        Args:
            mart: name of the mart.
            left: returns the rows; not called if another mart was checked already.
            in_memory: returns an unwritten row delta, for a check on the driver.

        Returns:
            Why Spark checked a row delta; None if it did not.

        Raises:
            RuleBrokenError: the batch breaks a rule that stops the run.

        Cost: free without such rules. For a row delta, the cost of
            :func:`frazil.runner.limits.driver_rules.counts_on_driver`; else one Spark action for all rules.
        """
        if not self._rules or (mart != self._first and self._passed.result()):
            return None
        # References are checked against the other tables after this run.
        for rule in self._rules:
            if rule.references is not None and (found := mart_named(self._context.pipeline, rule.references.to)):
                self._context.wait_for(found[0].name)
        needed = None if in_memory is None else self._judge_on_driver(mart, in_memory())
        if in_memory is None or needed is not None:
            self._judge_by_spark(mart, left())
        if mart == self._first:
            self._passed.set_result(True)
        return needed

    def _judge_on_driver(self, mart: str, left: LeftInMemory) -> NeedsSpark | None:
        """Check a mart on the driver; return why Spark must check it, if it must."""
        path = self._context.mart_table(self._context.mart(mart)).path
        rules = [(rule, self._columns(rule)) for rule in self._rules]
        counts = counts_on_driver(self._context, path, rules, left)
        if isinstance(counts, NeedsSpark):
            return counts
        self._decide(mart, counts, left.gained, has_rows=True)
        return None

    def _judge_by_spark(self, mart: str, left: Left) -> None:
        counts = [self._counted(number, rule, left) for number, rule in enumerate(self._rules)]
        found = {row[_NUMBER]: row for row in reduce(lambda one, other: one.unionAll(other), counts).collect()}
        ordered = [(int(found[number][BROKEN]), found[number][FIRST]) for number in range(len(counts))]
        self._decide(mart, ordered, left.gained, has_rows=left.before is not None)

    def _decide(self, mart: str, counts: Sequence[Count], gained: int, *, has_rows: bool) -> None:
        """Raise or report violations; ``has_rows`` says whether the mart had rows before the batch."""
        broken = [
            one
            for rule, (number, first) in zip(self._rules, counts, strict=True)
            if (one := self._verdict(rule, number, first, (number if has_rows else None, number + gained))) is not None
        ]
        for one in sorted(broken, key=lambda one: one.rule.on_violation == "fail"):
            if one.rule.on_violation == "fail":
                raise RuleBrokenError(
                    f"table {self._context.table.name!r}: {one.says}; nothing of the batch is visible in {mart}",
                    hint="fix the source, or let the batch pass with on_violation: warn; then run again",
                )
            if one.says not in self._context.report.warnings:
                self._context.report.broken_rules[one.rule.name] = one.rows
                self._context.report.warnings.append(one.says)

    def _counted(self, number: int, rule: Rule, left: Left) -> DataFrame:
        """Return one row with the count of a rule."""
        if rule.unique is not None:
            counts = sharing_rows(left.rows, self._columns(rule))
        elif rule.references is not None:
            others, fields = self._others(rule, rule.references, left)
            counts = dangling_rows(left.rows, self._columns(rule), others, fields)
        else:
            rows = left.rows.all if left.before is None else left.before
            counts = rows.selectExpr(f"count(*) AS {BROKEN}", f"CAST(NULL AS string) AS {FIRST}")
        return counts.selectExpr(f"{number} AS {_NUMBER}", f"CAST({BROKEN} AS bigint) AS {BROKEN}", FIRST)

    def _others(self, rule: Rule, reference: References, left: Left) -> tuple[DataFrame, tuple[str, ...]]:
        """Return the living rows and the columns of the mart that a rule references."""
        context, found = self._context, mart_named(self._context.pipeline, reference.to)
        if found is None:
            raise LookupError(reference.to)  # the declaration was checked
        table, fields = found[0], referenced_fields(reference, found[0])
        if table.name == context.table.name:
            return left.rows.values(fields), fields  # the batch may refer to its own rows
        try:
            rows = context.spark.table(quote(CATALOG, context.pipeline.lake.namespaces.marts, reference.to))
        except Exception as error:
            if not is_missing(error):
                raise
            pairs = zip(self._columns(rule), fields, strict=True)
            return left.rows.new.limit(0).selectExpr(*(f"{quote(a)} AS {quote(b)}" for a, b in pairs)), fields
        have = {column.lower() for column in rows.columns}
        for field in fields:
            if field.lower() not in have:
                raise MissingFieldError(
                    f"rule {rule.name!r} of table {context.table.name!r}: {reference.to} has no column {field!r}",
                    hint=f"it has {', '.join(name for name in rows.columns if not name.startswith('_cdc_'))}",
                )
        return living_rows(rows, [column.name for column in table.columns or ()]), fields

    def _columns(self, rule: Rule) -> tuple[str, ...]:
        for name in rule.columns:
            if name.lower() not in self._names:
                raise MissingFieldError(
                    f"rule {rule.name!r} of table {self._context.table.name!r} names {name!r}, a field of no file",
                    hint=f"the columns are {', '.join(self._names.values())}",
                )
        return tuple(self._names[name.lower()] for name in rule.columns)

    def _verdict(self, rule: Rule, number: int, first: str | None, rows: tuple[int | None, int]) -> Broken | None:
        """Return the violation of a rule; ``rows`` is the number of the mart's rows before and after the batch."""
        if rule.row_count is not None:
            says = row_count_says(rule.row_count, *rows)
            return Broken(rule=rule, rows=1, says=f"rule {rule.name} is broken: {says}") if says else None
        if not number:
            return None
        broken = f"{counted(number, 'row breaks', 'rows break')} rule {rule.name}, the first from {first}"
        names = ", ".join(rule.columns)
        why = f"{names}: other rows have the same"
        if rule.references is not None:
            why = f"{names}: not in {rule.references.to}"
        return Broken(rule=rule, rows=number, says=f"{broken}: {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A broken rule, with the number of rows and a description."""

    rule: Rule
    rows: int
    says: str


def row_count_says(bounds: RowCount, before: int | None, after: int) -> str:
    """Return the bound that a mart's number of rows violates, in words; empty if it is within all bounds.

    Args:
        bounds: the rule.
        before: number of rows before the batch; None without a batch.
        after: number of rows after the batch.
    """
    rows = counted(after, "row") if before is None else f"{counted(before, 'row')} would become {after:,}"
    if bounds.min is not None and after < bounds.min:
        return f"{rows}, min is {bounds.min:,}"
    if bounds.max is not None and after > bounds.max:
        return f"{rows}, max is {bounds.max:,}"
    less, more = bounds.max_decrease_fraction, bounds.max_increase_fraction
    if before and less is not None and before - after > less * before:
        return f"{rows}, max_decrease_fraction is {less:g}"
    if before and more is not None and after - before > more * before:
        return f"{rows}, max_increase_fraction is {more:g}"
    return ""
