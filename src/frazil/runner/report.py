"""Counts and failures of a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from frazil.errors import DifferenceError, Failure, FrazilError, worst_exit
from frazil.spec.amount import counted, html_lines, html_table
from frazil.steps import DECLARED_REASONS, spark_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.steps import SparkReason

Outcome = Literal["done", "nothing new", "failed", "not started"]
"""Outcome of a table or an aggregate in a run; *not started*: an earlier failure prevented it."""


@dataclass(slots=True, kw_only=True)
class MartReport:
    """Changes of a batch to one mart.

    The counts compare the living keys of the table before and after. They do not depend on the kind of mart or the
    strategy, so all marts of a table report the same four numbers for the same batch. A key is living if the table has
    an undeleted row of it: any row (current, hard), a row with ``is_deleted`` false (current, soft), or a row with
    ``is_current`` true and ``is_deleted`` false (history).

    Attributes:
        mart: name of the table.
        batch: newest applied batch of bronze.
        rows: rows written to data files, without compaction.
        inserted: keys that are living now and were not before: new keys, and deleted keys that returned.
        updated: keys that are living before and after, and whose row is from a newer change: it has another sequence,
            ``_cdc_position`` or ``_cdc_row``. The values may be equal.
        deleted: keys that were living before and are not now.
        late: changes that are not newer, in order, than the newest earlier change of their key; new keys have no late
            changes. Late changes may alter closed versions and columns that newer changes lack, and have no other
            count.
        strategy: strategy of the write, see :mod:`frazil.plan.policy`.
        compacted: whether small files and deletes were merged after it.
        by_spark: why Spark computed the batch, or a part of it, in place of the driver: words of
            :data:`frazil.steps.SPARK_REASONS`.
        seconds: wall time.
    """

    mart: str
    batch: int = 0
    rows: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    late: int = 0
    strategy: str = ""
    compacted: bool = False
    by_spark: list[SparkReason] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class TableReport:
    """Results of a run for one source table.

    Attributes:
        outcome: outcome of the table.
        deferred: number of files that wait for a later run.
        passed: (path, reason) of skipped files at the source.
        untimed_deletes: deletes without a time from source or row; they end a version at its beginning.
        by_spark: why Spark computed the changes in place of the driver, as for a mart.
        broken_rules: warning rule -> number of changes of the batch that break it.
        warnings: sentences for the user's attention; they are not failures.
        errors: failures; each mart has its own, because a failed mart does not stop others.
        commits: lake table -> id of the newest snapshot that this run published.
    """

    table: str
    outcome: Outcome = "not started"
    batch: int = 0
    files: int = 0
    duplicates: int = 0
    deferred: int = 0
    passed: list[tuple[str, str]] = field(default_factory=list)
    size_bytes: int = 0
    rows: int = 0
    bad: int = 0
    headers: int = 0
    foreign: int = 0
    changes: int = 0
    quarantined: int = 0
    untimed_deletes: int = 0
    by_spark: list[SparkReason] = field(default_factory=list)
    marts: list[MartReport] = field(default_factory=list)
    jobs: int = 0
    seconds: float = 0.0
    broken_rules: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    errors: list[Failure] = field(default_factory=list)
    commits: dict[str, int] = field(default_factory=dict)

    @property
    def spark_text(self) -> str:
        """Return why Spark computed the batch in place of the driver; empty if it did not, or by the declaration."""
        every = [*self.by_spark, *(reason for mart in self.marts for reason in mart.by_spark)]
        reasons = [reason for reason in every if reason not in DECLARED_REASONS]
        return spark_text(reasons) if reasons else ""


@dataclass(slots=True, kw_only=True)
class GoldReport:
    """Results of a run for one aggregate.

    Attributes:
        name: name of the aggregate.
        over: the source tables whose marts it reads.
        outcome: outcome of the aggregate; *not started*: it is unchanged, for the reason in ``because``.
        because: failed tables, or another reason for not starting; empty otherwise.
        rows: number of its rows.
        strategy: ``incremental`` if only the touched groups were computed, else ``replace``.
        commits: as in :class:`TableReport`.
    """

    name: str
    over: tuple[str, ...] = ()
    outcome: Outcome = "nothing new"
    because: str = ""
    rows: int = 0
    strategy: str = ""
    seconds: float = 0.0
    errors: list[Failure] = field(default_factory=list)
    commits: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class MaintainReport:
    """Results of maintenance for one table; sizes in bytes.

    Attributes:
        table: name with namespace.
        rewritten_bytes: size of the rewritten data files, before the rewrite.
        seconds: total wall time.
    """

    table: str
    files_before: int = 0
    files_after: int = 0
    size_before_bytes: int = 0
    size_after_bytes: int = 0
    delete_files_after: int = 0
    manifests_before: int = 0
    manifests_after: int = 0
    rewritten_bytes: int = 0
    snapshots_expired: int = 0
    orphans_removed: int = 0
    seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class VerifyReport:
    """Comparison of a table with its source, after the run.

    Attributes:
        ok: True if they are equal, False if they differ, None if it is undecided or came to nothing.
        detail: numbers of rows and of keys that differ, or why there was no comparison.
        hint: the way out; None if there is none.
        code: code of the error for which there was no comparison; None if there was one.
        seconds: wall time.
    """

    table: str
    ok: bool | None = None
    detail: str = ""
    hint: str | None = None
    code: str | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        code = f"[{self.code}] " if self.code else ""
        what = {True: "is equal to", False: "differs from", None: "was not found equal to"}[self.ok]
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.table} {what} its source: {code}{self.detail}{hint}"


@dataclass(slots=True, kw_only=True)
class RunReport:
    """Results of a run.

    Attributes:
        run_id: id of the run, a UUID of version 7.
        tables: every selected table in the order of the declaration, including tables without new files.
        gold: every aggregate whose marts all belong to selected tables.
        steps: number of planned steps.
        warnings: warnings that do not belong to one table.
        maintained: reports of the tables that were due for maintenance.
        verified: comparisons with sources that were due by ``verify``, after all else.
    """

    pipeline: str
    run_id: str = ""
    tables: list[TableReport] = field(default_factory=list)
    gold: list[GoldReport] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)
    maintained: list[MaintainReport] = field(default_factory=list)
    verified: list[VerifyReport] = field(default_factory=list)

    @property
    def errors(self) -> list[Failure]:
        """Every failure, table by table, then those of aggregates."""
        return [
            *(failure for table in self.tables for failure in table.errors),
            *(failure for made in self.gold for failure in made.errors),
        ]

    @property
    def exit_code(self) -> int:
        """Exit code of the worst failure or difference, by :data:`frazil.errors.WORST_FIRST`; 0 without any."""
        differs = [DifferenceError.exit_code for one in self.verified if one.ok is False]
        return worst_exit([*(failure.exit_code for failure in self.errors), *differs])

    def as_values(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        errors = [asdict(failure) for failure in self.errors]
        return {**asdict(self), "errors": errors, "exit_code": self.exit_code}

    def _repr_html_(self) -> str:
        names = ("table", "outcome", "inserted", "updated", "deleted", "late", "written", "strategy", "seconds")
        rows: list[tuple[object, ...]] = []
        for table in self.tables:
            rows += [
                (one.mart, table.outcome, *_counts(one), one.strategy, f"{one.seconds:.1f}") for one in table.marts
            ] or [(table.table, table.outcome, *("",) * 6, f"{table.seconds:.1f}")]
        rows += [
            (f"gold.{one.name}", one.outcome, *("",) * 4, one.rows, one.strategy, f"{one.seconds:.1f}")
            for one in self.gold
        ]
        notes = [*self.warnings, *(f"{one.table}: {text}" for one in self.tables for text in one.warnings)]
        notes += [f"{one.table}: {one.spark_text}" for one in self.tables if one.spark_text]
        notes += [f"{one}" for one in self.verified if not one.ok]
        return html_table(names, rows, title=f"run {self.run_id}") + html_lines([*notes, *map(str, self.errors)])


def _counts(mart: MartReport) -> tuple[int, ...]:
    return (mart.inserted, mart.updated, mart.deleted, mart.late, mart.rows)


class RunFailedError(FrazilError):
    """Tables or aggregates of a run failed; all others are done.

    Attributes:
        report: report of the run, with every failure.
        errors: the raised errors in the order of ``report.errors``; the worst is also the cause.
        exit_code: exit code of the worst failure.
        retryable: whether all failures are retryable.
    """

    code = "FZ001"

    def __init__(self, report: RunReport, errors: Sequence[FrazilError]) -> None:
        self.report, self.errors = report, tuple(errors)
        failures = report.errors
        self.exit_code = report.exit_code
        self.retryable = all(failure.retryable for failure in failures)
        failed = sum(table.outcome == "failed" for table in report.tables)
        gold = [made.name for made in report.gold if made.outcome == "failed"]
        what = [f"{failed} of {counted(len(report.tables), 'table')} failed"] if failed else []
        what += [f"{counted(len(gold), 'aggregate')} failed"] if gold else []
        listed = "\n".join(f"{failure}" for failure in failures)
        super().__init__(
            f"{', '.join(what)}\n{listed}", hint="whatever is not named here is done; run again after the fix"
        )
        self.__cause__ = next(error for error in self.errors if error.exit_code == self.exit_code)
