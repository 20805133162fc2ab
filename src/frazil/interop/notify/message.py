"""The texts of messages, of declared names, codes and numbers."""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import FrazilError
from frazil.spec.amount import counted, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frazil.interop.notify.verdicts import PartVerdict
    from frazil.spec.model.notify import Event

_NAMED: Final = 5
_OVER: Final = {"failed": "recovered", "lag": "level again", "stale": "fresh again", "different": "equal again"}
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
        case "stale":
            return f"{parts} is stale by {', '.join(one.causes)}"
        case _:
            return f"{parts} differs: {', '.join(one.causes)}"


def _parts(names: Sequence[str]) -> str:
    names = [name or "the run" for name in names]
    if len(names) > _NAMED:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED:,} more"
    return ", ".join(names)
