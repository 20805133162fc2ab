"""Lag of landing files behind their servers, queried in the background."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from frazil.catalog.trouble import as_frazil_error
from frazil.sources.capture import Answers

if TYPE_CHECKING:
    from collections.abc import Collection

    from frazil.errors import FrazilError
    from frazil.sources.capture import Capture
    from frazil.spec import Pipeline

_ANSWER_SECONDS: Final = 5.0
_COUNT_SECONDS: Final = 30.0
"""A server reads all waiting changes to count them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureLag:
    """Lag of the landing files of a slot, a log or a topic behind their server.

    Attributes:
        name: name of the capture, without secrets.
        begun: whether anything has landed before; None if unknown.
        behind_bytes: bytes that are not landed yet; None if the server does not report them.
        behind_seconds: upper bound of the age of the oldest change that is not landed; 0 if all are landed, None if
            unknown.
        trouble: why the lag is unknown, with the error's code; None if it is known.
        hint: how to fix the trouble, or None.
    """

    name: str
    begun: bool | None = None
    behind_bytes: int | None = None
    behind_seconds: float | None = None
    trouble: str | None = None
    hint: str | None = None


class Lags:
    """Queries the servers of some tables in the background.

    Cost: one connection for each slot, log and topic; a few seconds in all.
    """

    def __init__(self, pipeline: Pipeline, names: Collection[str]) -> None:
        from frazil.sources.kinds import captures_of  # noqa: PLC0415 - PyArrow comes with it

        self._pipeline = pipeline
        captures = captures_of(pipeline, names)
        self._answers = Answers(captures, lambda capture: capture.behind(pipeline.folder), _ANSWER_SECONDS)

    def of(self, table: str) -> tuple[CaptureLag, ...]:
        """Return the lags of a table, after its servers have answered or timed out."""
        captures = self._answers.captures
        found = (self._of(number, capture) for number, capture in enumerate(captures) if table in capture.tables)
        return tuple(one for one in found if one is not None)

    def all(self) -> tuple[CaptureLag, ...]:
        """Return the lags of all captures, after their servers have answered or timed out."""
        found = (self._of(number, capture) for number, capture in enumerate(self._answers.captures))
        return tuple(one for one in found if one is not None)

    def _of(self, number: int, capture: Capture) -> CaptureLag | None:
        known = CaptureLag(name=capture.name)
        try:
            lag = self._answers.of(number)
        except Exception as raised:  # noqa: BLE001 - the other captures are still reported
            error = as_frazil_error(raised, self._pipeline)
            # Most messages begin with the name of the capture.
            message = error.message.removeprefix(f"{capture.name}: ")
            return replace(known, trouble=f"[{error.code}] {message}", hint=error.hint)
        if lag is None:
            return None
        return replace(known, begun=lag.begun, behind_bytes=lag.behind_bytes, behind_seconds=lag.behind_seconds)


def waiting(
    pipeline: Pipeline, names: Collection[str]
) -> tuple[dict[str, dict[str, int | None] | str], dict[str, FrazilError]]:
    """Count the changes at the servers of some tables that are not landed yet, without capturing them.

    Returns:
        Two mappings. Capture -> number of changes by table (None for a table that is not loaded yet), or text that says
        why the number is unknown; kinds that cannot count are left out. Table -> error with which a run would fail to
        capture it; such a table has no count.

    Cost: the time that the servers need to read these changes, at most half a minute.
    """
    from frazil.sources.capture import CountsWaiting, Waiting  # noqa: PLC0415 - as above
    from frazil.sources.kinds import captures_of  # noqa: PLC0415 - PyArrow comes with it

    captures = [capture for capture in captures_of(pipeline, names) if isinstance(capture, CountsWaiting)]

    def ask(capture: Capture) -> Waiting:
        return capture.waiting(pipeline.folder) if isinstance(capture, CountsWaiting) else Waiting()

    answers = Answers(captures, ask, _COUNT_SECONDS)
    found: dict[str, dict[str, int | None] | str] = {}
    failed: dict[str, FrazilError] = {}
    for number, capture in enumerate(captures):
        try:
            told = answers.of(number)
        except Exception as raised:  # noqa: BLE001 - the other captures can be planned
            error = as_frazil_error(raised, pipeline)
            found[capture.name] = f"[{error.code}] {error.message.removeprefix(f'{capture.name}: ')}"
        else:
            found[capture.name] = {table: count for table, count in told.counts.items() if table in names}
            failed |= {table: error for table, error in told.failed.items() if table in names}
    return found, failed
