"""What a run, a capture or a check says of each part of a pipeline, and the texts of messages about it.

Verdicts hold names that are declared, codes and numbers. They never hold messages of errors, names of files or values
of rows, because messages leave the house.
"""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import FrazilError
from frazil.spec.amount import counted, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from frazil.runner.report import RunReport, VerifyReport
    from frazil.serve.check.finding import Finding
    from frazil.serve.check.rules import RuleTest
    from frazil.serve.checks import LastChecks
    from frazil.serve.lag import CaptureLag
    from frazil.spec import Notify, Pipeline
    from frazil.spec.model.notify import Event

_NAMED: Final = 5
_OVER: Final = {
    "failed": "recovered",
    "lag": "level again",
    "stale": "fresh again",
    "different": "equal again",
    "unverified": "found equal to its source again",
}
_BUG: Final = "An error that Frazil does not expect."
_MORE: Final = {
    "check": "frazil check",
    "source": "frazil check --source",
    "certificates": "frazil check --certificates",
    "capture": "frazil status",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One thing that became wrong, or that is over.

    Attributes:
        event: the kind of the message; ``recovered`` if it is over.
        part: as in a verdict.
        causes: the new causes; those that are over for ``recovered``.
        was: the kind that is over; the event itself otherwise.
        verdict: the verdict with its numbers.
    """

    event: Event
    part: str
    causes: tuple[str, ...]
    was: str
    verdict: PartVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyMessage:
    """All news of one turn for one receiver.

    Attributes:
        pipeline: name of the pipeline.
        origin: the work that found the news: ``run``, ``capture``, ``check``, ``source``, ``certificates``, ``test``.
        run_id: id of the run; empty without a run.
        news: in the order of the declaration.
        is_test: nothing happened; a person tries the receiver.
    """

    pipeline: str
    origin: str
    run_id: str
    news: tuple[News, ...] = ()
    is_test: bool = False

    @property
    def title(self) -> str:
        """Return one line: the pipeline, and how many parts are in each state."""
        if self.is_test:
            return one_line(f"{self.pipeline}: a test message")
        events = [one.event for one in self.news]
        return one_line(f"{self.pipeline}: {', '.join(f'{events.count(one)} {one}' for one in dict.fromkeys(events))}")

    @property
    def text(self) -> str:
        """Return the lines of the message, without control characters."""
        if self.is_test:
            return f"{self.title} of frazil doctor --notify"
        more = f"frazil runs {self.run_id[-12:]}" if self.run_id else _MORE.get(self.origin, "frazil status")
        lines = [f"{self.pipeline}: {line}" for line in _lines(self.news)]
        return "\n".join(map(one_line, [*lines, f"more: {more}"]))

    def as_values(self) -> dict[str, Any]:
        """Return the message as plain values, for JSON."""
        events = [
            {
                "event": one.event,
                "part": one.part,
                "causes": [*one.causes],
                "was": one.was,
                **{name: number for name, number in asdict(one.verdict).items() if name in _NUMBERS and number},
            }
            for one in self.news
        ]
        about = {"pipeline": self.pipeline, "origin": self.origin, "run_id": self.run_id or None}
        return {"schema_version": 1, **about, "events": events, "text": self.text}


_NUMBERS: Final = ("rows", "seconds", "size_bytes")


def one_line(text: str) -> str:
    """Return a text as one line, with codes in place of hostile characters such as marks of direction."""
    return visible(" ".join(text.split()))


def code_meaning(code: str) -> str:
    """Return the sentence that describes an error's class; it holds nothing of the failure itself."""
    kinds = [FrazilError]
    while kinds:
        kind = kinds.pop()
        if kind.code == code and kind is not FrazilError:
            return " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].replace("``", "").split())
        kinds += kind.__subclasses__()
    return _BUG


def _lines(news: Sequence[News]) -> Iterator[str]:
    grouped: dict[tuple[str, str, tuple[str, ...]], list[News]] = {}
    for one in news:
        # Numbers of captures and quarantine are each part's own.
        alone = one.part if one.event in ("lag", "quarantine") else ""
        grouped.setdefault((one.event, one.was + alone, one.causes), []).append(one)
    for same in grouped.values():
        yield _line(same[0], _parts([one.part for one in same]))


def _line(one: News, parts: str) -> str:
    verdict = one.verdict
    match one.event:
        case "failed":
            return f"{parts} failed: {' '.join(f'[{code}] {code_meaning(code)}' for code in one.causes)}"
        case "recovered":
            over = f" ({', '.join(one.causes)} is over)" if one.was in ("failed", "stale", "different") else ""
            return f"{parts} {_OVER[one.was]}{over}"
        case "quarantine":
            return f"{parts}: {counted(verdict.rows, 'record')} went to quarantine; frazil quarantine {one.part}"
        case "lag":
            size = None if verdict.size_bytes is None else f"{verdict.size_bytes / 1e6:,.0f} MB"
            age = None if verdict.seconds is None else f"{verdict.seconds:,.0f} s"
            return f"{parts} is behind by {' and '.join(one for one in (size, age) if one)}"
        case "unverified":
            return f"{parts} was not found equal to its source for twice as long as verify says"
        case _:
            says = "is stale by" if one.event == "stale" else "differs:"
            return f"{parts} {says} {', '.join(one.causes)}"


def _parts(names: Sequence[str]) -> str:
    names = [name or "the run" for name in names]
    if len(names) > _NAMED:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED:,} more"
    return ", ".join(names)


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


def of_comparisons(reports: Iterable[VerifyReport]) -> Iterator[PartVerdict]:
    """Yield the verdicts of comparisons after a run, under the law of ``frazil check --source``."""
    yield from _by_table("different", [(one.table, "SOURCE", not one.ok) for one in reports if one.ok is not None])


def of_marks(pipeline: Pipeline, checks: Mapping[str, LastChecks]) -> Iterator[PartVerdict]:
    """Yield of each table that was ever compared whether its last equal comparison is too long ago."""
    for table in pipeline.tables:
        known = checks.get(table.name)
        if known is not None and known.verified is not None:
            yield PartVerdict(event="unverified", part=table.name, causes=("verify",) if known.is_behind else ())


def _by_table(event: Event, found: Sequence[tuple[str, str, object]]) -> Iterator[PartVerdict]:
    for table in dict.fromkeys(table for table, _, _ in found):
        broken = {cause for one, cause, is_broken in found if one == table and is_broken}
        yield PartVerdict(event=event, part=table, causes=tuple(sorted(broken)))
