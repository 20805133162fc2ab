"""What a run, a capture or a check says of each part of a pipeline: well, or what is wrong with it.

Verdicts hold names that are declared, codes and numbers. They never hold messages of errors, names of files or values
of rows, because messages leave the house.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from frazil.runner.report.report import RunReport
    from frazil.serve.check.finding import Finding
    from frazil.serve.check.rules import RuleTest
    from frazil.serve.lag import CaptureLag
    from frazil.spec import Notify, Pipeline
    from frazil.spec.model.notify import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class PartVerdict:
    """What is known of one part now.

    Attributes:
        event: the message that it is worth if it is bad.
        part: a source table, ``gold.<name>`` or the name of a capture; empty for the whole run.
        causes: codes of errors, names of rules or laws; empty if all is well, or if a number decides.
        rows: records that went to quarantine.
        seconds, size_bytes: how far a capture is behind; None if unknown.
    """

    event: Event
    part: str
    causes: tuple[str, ...] = ()
    rows: int = 0
    seconds: float | None = None
    size_bytes: int | None = None

    def causes_for(self, receiver: Notify) -> tuple[str, ...]:
        """Return the causes by the limits of a receiver; empty if all is well."""
        if self.event == "quarantine":
            return ("quarantine",) if self.rows > receiver.quarantine_rows else ()
        if self.event == "lag":
            is_far = (self.seconds or 0) > receiver.lag_seconds or (self.size_bytes or 0) > receiver.lag_mb * 1e6
            return ("lag",) if is_far else ()
        return self.causes


def of_run(report: RunReport) -> Iterator[PartVerdict]:
    """Yield what a run says of itself, and of the tables and aggregates that it attempted."""
    yield PartVerdict(event="failed", part="")
    for table in report.tables:
        if table.outcome != "not started":
            yield of_errors(table.table, (failure.code for failure in table.errors))
        if table.changes or table.quarantined:
            yield PartVerdict(event="quarantine", part=table.table, rows=table.quarantined)
    for made in report.gold:
        if made.outcome != "not started":
            yield of_errors(f"gold.{made.name}", (failure.code for failure in made.errors))


def of_errors(part: str, codes: Iterable[str]) -> PartVerdict:
    """Return the verdict on a part that failed with some codes, or with none."""
    return PartVerdict(event="failed", part=part, causes=tuple(sorted({*codes})))


def of_lags(lags: Iterable[CaptureLag]) -> Iterator[PartVerdict]:
    """Yield how far captures are behind, as far as it is known."""
    for lag in lags:
        if lag.behind_bytes is not None or lag.behind_seconds is not None:
            yield PartVerdict(event="lag", part=lag.name, seconds=lag.behind_seconds, size_bytes=lag.behind_bytes)


def of_freshness(pipeline: Pipeline, tests: Iterable[RuleTest]) -> Iterator[PartVerdict]:
    """Yield the verdicts of rules on freshness, table by table; a rule that cannot be tested is left out."""
    asked = {(table.name, rule.name) for table in pipeline.tables for rule in table.rules if rule.freshness}
    tested = [(one.source_table, one.rule, one.broken) for one in tests if one.broken is not None]
    yield from _by_table("stale", [one for one in tested if one[:2] in asked])


def of_findings(findings: Iterable[Finding]) -> Iterator[PartVerdict]:
    """Yield the verdicts of proofs, table by table; undecided proofs are left out."""
    proven = [(one.source_table, one.code or one.law, not one.ok) for one in findings if one.ok is not None]
    yield from _by_table("different", proven)


def _by_table(event: Event, found: Sequence[tuple[str, str, object]]) -> Iterator[PartVerdict]:
    for table in dict.fromkeys(table for table, _, _ in found):
        broken = {cause for one, cause, is_broken in found if one == table and is_broken}
        yield PartVerdict(event=event, part=table, causes=tuple(sorted(broken)))
