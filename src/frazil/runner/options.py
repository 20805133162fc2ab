"""Options and progress callbacks of run, capture and watch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from frazil.plan.policy import DEFAULT_POLICY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frazil.errors import FrazilError
    from frazil.plan.policy import Policy
    from frazil.runner.report import GoldReport, RunReport, TableReport
    from frazil.sources.capture import Landed
    from frazil.steps import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of a run.

    Attributes:
        fail_fast: start no further table or aggregate after a failure.
        listener: receives progress.
        verbose: show Spark's own messages in the terminal if the run starts a session.
        policy: thresholds of the engine.
    """

    fail_fast: bool = False
    listener: Listener | None = None
    verbose: bool = False
    policy: Policy = DEFAULT_POLICY


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """Options of a capture.

    Attributes:
        every_seconds: pause between polls while changes arrive.
        idle_seconds: longest pause without changes.
        landed: called with the name of the capture and the result of one turn.
        tell: called with the name of the capture and a sentence when it fails or recovers.
        turned: called after each turn of a capture with its name, the result, and the errors of its tables.
        progressed: called from time to time during a turn with the name of the capture and a text.
    """

    every_seconds: float = 0.25
    idle_seconds: float = 2.0
    landed: Callable[[str, Landed], None] = lambda _name, _landed: None
    tell: Callable[[str, str], None] = lambda _name, _text: None
    turned: Callable[[str, Landed, Sequence[FrazilError]], None] = lambda _name, _landed, _errors: None
    progressed: Callable[[str, str], None] = lambda _name, _text: None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """Options of a watch.

    Attributes:
        every_seconds: pause between listings while files arrive.
        idle_seconds: longest pause without new files.
        retry_seconds: first pause before a retry; it grows to 30 seconds.
        listener: receives the progress of each run.
        ran: called after each run that did work, with its report and its lag: seconds from the modification of the
            newest file to the moment its rows are readable.
        tell: called with a sentence for each new failure, recovery or wait.
        turned: called after each turn with the report of its run, or with the error that it waits for; with None if
            nothing has arrived.
    """

    every_seconds: float = 0.25
    idle_seconds: float = 0.5
    retry_seconds: float = 1.0
    listener: Listener | None = None
    ran: Callable[[RunReport, float], None] = lambda _report, _lag_seconds: None
    tell: Callable[[str], None] = lambda _: None
    turned: Callable[[RunReport | FrazilError | None], None] = lambda _: None


class Listener(Protocol):
    """Progress callbacks. They are called from several threads and must not raise."""

    def planned(self, steps: Sequence[Step]) -> None:
        """Called once, before the first step."""

    def began(self, table: str, what: str) -> None:
        """Called when a part of a table's work begins; an aggregate is named ``gold.<name>``."""

    def progressed(self, table: str, how_far: str) -> None:
        """Called from time to time during a part of a table's work."""

    def ended(self, report: TableReport | GoldReport) -> None:
        """Called when a table or an aggregate is done or has failed."""
