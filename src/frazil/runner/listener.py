"""Who is told what a run does while it does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.runner.report.report import GoldReport, TableReport
    from frazil.steps import Step


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
