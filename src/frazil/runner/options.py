"""How a run and a watch work, whatever they do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from frazil.plan.policy import DEFAULT_POLICY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frazil.plan.policy import Policy
    from frazil.runner.report.report import GoldReport, RunReport, TableReport
    from frazil.sources.capture import Landed
    from frazil.steps import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run works.

    Attributes:
        fail_fast: begin no further table, and no aggregate, once something failed.
        listener: is told what happens.
        verbose: let Spark write its own messages to the terminal, where the run starts a session.
        policy: thresholds of the engine.
    """

    fail_fast: bool = False
    listener: Listener | None = None
    verbose: bool = False
    policy: Policy = DEFAULT_POLICY


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """How a capture works.

    Attributes:
        every_seconds: pause between looks while changes come.
        idle_seconds: longest pause while none do.
        landed: called with what was captured, and what one turn of it brought.
        tell: given what was captured, and a sentence when it fails or is right again.
    """

    every_seconds: float = 0.25
    idle_seconds: float = 2.0
    landed: Callable[[str, Landed], None] = lambda _name, _landed: None
    tell: Callable[[str, str], None] = lambda _name, _text: None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """How a watch works.

    Attributes:
        every_seconds: pause between looks while files arrive.
        idle_seconds: longest pause while nothing does.
        retry_seconds: first pause before what may pass by itself is tried again; it grows to a minute.
        listener: is told what each run does.
        ran: called after each run that did something, with its report and its lag: seconds from the newest taken
            file's modification to the moment its rows could be read.
        tell: given a sentence when something fails that did not fail before, is right again, or is waited for.
    """

    every_seconds: float = 0.25
    idle_seconds: float = 0.5
    retry_seconds: float = 1.0
    listener: Listener | None = None
    ran: Callable[[RunReport, float], None] = lambda _report, _lag_seconds: None
    tell: Callable[[str], None] = lambda _: None


class Listener(Protocol):
    """Who is told what happens. Called from several threads; must not raise."""

    def planned(self, steps: Sequence[Step]) -> None:
        """Called once, before anything is done."""

    def began(self, table: str, what: str) -> None:
        """Called when a part of a table's work begins; of an aggregate's as ``gold.<name>``."""

    def progressed(self, table: str, how_far: str) -> None:
        """Called now and then while a part of a table's work lasts."""

    def ended(self, report: TableReport | GoldReport) -> None:
        """Called when a table or an aggregate is done, or failed."""
