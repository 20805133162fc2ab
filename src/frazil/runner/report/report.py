"""What a run did, in numbers, and what failed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from frazil.errors import Failure, FrazilError, worst_exit
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

Outcome = Literal["done", "nothing new", "failed", "not started"]
"""How a table or an aggregate came out of a run; *not started*: an earlier failure kept it from being worked on."""


@dataclass(slots=True, kw_only=True)
class MartReport:
    """What a batch did to one mart.

    The counts compare the living keys of the table before and after, in every kind of mart and however the batch was
    applied, so all marts of a table that take the same batch report the same four numbers. A key lives where the table
    has a row of it that is not deleted: any row (current, hard), one with ``is_deleted`` false (current, soft), or one
    with ``is_current`` true and ``is_deleted`` false (history).

    Attributes:
        mart: name of the table.
        batch: batch of bronze it stands at now.
        rows: rows written to data files, compaction left out.
        inserted: keys that live and did not before: new ones, and deleted ones that came back.
        updated: keys that lived before and live now, whose living row stands for a newer change: it has another
            sequence, ``_cdc_position`` or ``_cdc_row``. The values may be equal.
        deleted: keys that lived before and do not any more.
        late: changes of the batch that are not newer, in order, than the newest that their key had before the batch;
            none for a key without changes before. They may change closed versions and columns that newer changes do
            not carry, and count as nothing else.
        strategy: how the batch was applied, see :mod:`frazil.plan.apply_strategy`.
        compacted: whether small files and deletes were merged after it.
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
    seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class TableReport:
    """What a run did for one source table.

    Attributes:
        outcome: how the table came out of the run.
        deferred: files that wait for a later run.
        passed: (path, reason) of files at the source that are no files of it.
        untimed_deletes: deletes whose time neither the source nor the row tells: they end a version where it began.
        broken_rules: rule that warns -> changes of the batch that break it.
        warnings: sentences on what the user should look at; nothing failed.
        errors: what failed; marts are told apart, since one that fails stops no other.
        commits: table of the lake -> id of the snapshot that this run left as its newest.
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
    marts: list[MartReport] = field(default_factory=list)
    jobs: int = 0
    seconds: float = 0.0
    broken_rules: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    errors: list[Failure] = field(default_factory=list)
    commits: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class GoldReport:
    """What a run did for one aggregate.

    Attributes:
        name: of the aggregate.
        over: the source tables whose marts it reads.
        outcome: how it came out of the run; *not started*: it is left as it was, for the reason in ``because``.
        because: tables that failed, or why else it was left; empty otherwise.
        rows: rows that it has.
        strategy: ``incremental`` where only the groups that were touched were computed, else ``replace``.
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
    """What upkeep did to one table; sizes in bytes.

    Attributes:
        table: name with namespace.
        rewritten_bytes: size of the data files that were written again, as they were before.
        seconds: wall time that all of it took.
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
class RunReport:
    """What a run did.

    Attributes:
        run_id: id of the run, a UUID of version 7.
        tables: every selected table in the order of the declaration, those with nothing new too.
        gold: every aggregate whose marts are all of selected tables.
        steps: number of steps that were planned.
        warnings: what concerns no one table.
        maintained: the tables that were due for maintenance, and what it took.
    """

    pipeline: str
    run_id: str = ""
    tables: list[TableReport] = field(default_factory=list)
    gold: list[GoldReport] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)
    maintained: list[MaintainReport] = field(default_factory=list)

    @property
    def errors(self) -> list[Failure]:
        """Every failure, table by table, then those of aggregates."""
        return [
            *(failure for table in self.tables for failure in table.errors),
            *(failure for made in self.gold for failure in made.errors),
        ]

    @property
    def exit_code(self) -> int:
        """Exit code of the worst failure, by :data:`frazil.errors.WORST_FIRST`; 0 where nothing failed."""
        return worst_exit(failure.exit_code for failure in self.errors)

    def as_values(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        errors = [asdict(failure) for failure in self.errors]
        return {**asdict(self), "errors": errors, "exit_code": self.exit_code}


class RunFailedError(FrazilError):
    """Tables or aggregates of a run failed; all others are done.

    Attributes:
        report: what the run did, with every failure.
        errors: the errors as they were raised, in the order of ``report.errors``; the worst is also the cause.
        exit_code: of the worst failure.
        retryable: whether all of them are.
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
