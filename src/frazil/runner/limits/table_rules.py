"""Rules over whole marts, checked on a mart's rows after a batch, before it is published."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from frazil.lake.refs import is_missing
from frazil.marts.counts import living_rows
from frazil.marts.table_rules import BROKEN, FIRST, dangling_rows, sharing_rows
from frazil.runner.limits.driver_rules import counts_on_driver
from frazil.runner.limits.rules import RuleBrokenError
from frazil.silver.contract import MissingFieldError
from frazil.spec import CATALOG, Current
from frazil.spec.amount import counted
from frazil.spec.sql.names import quote
from frazil.spec.sql.references import mart_named, referenced_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from frazil.runner.apply.left_rows import Left, LeftInMemory
    from frazil.runner.limits.driver_rules import Count
    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.spec import References, RowCount, Rule
    from frazil.steps import UpdateMart

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

    def judge(self, mart: str, left: Callable[[], Left], in_memory: Callable[[], LeftInMemory] | None = None) -> None:
        """Check the rules on a mart's rows after a batch, and report warnings.

        Args:
            mart: name of the mart.
            left: returns the rows; not called if another mart was checked already.
            in_memory: returns an unwritten row delta, for a check on the driver.

        Raises:
            RuleBrokenError: the batch breaks a rule that stops the run.

        Cost: free without such rules. For a row delta, the cost of
            :func:`frazil.runner.limits.driver_rules.counts_on_driver`; else one Spark action for all rules.
        """
        if not self._rules or (mart != self._first and self._passed.result()):
            return
        # References are checked against the other tables after this run.
        for rule in self._rules:
            if rule.references is not None and (found := mart_named(self._context.pipeline, rule.references.to)):
                self._context.wait_for(found[0].name)
        if in_memory is None or not self._judge_on_driver(mart, in_memory()):
            self._judge_by_spark(mart, left())
        if mart == self._first:
            self._passed.set_result(True)

    def _judge_on_driver(self, mart: str, left: LeftInMemory) -> bool:
        """Check a mart on the driver; return False if Spark must check it."""
        path = self._context.mart_table(self._context.mart(mart)).path
        rules = [(rule, self._columns(rule)) for rule in self._rules]
        counts = counts_on_driver(self._context, path, rules, left)
        if counts is not None:
            self._decide(mart, counts, left.gained, has_rows=True)
        return counts is not None

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
