"""How far landing files are behind their servers, asked while something else is looked at."""

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
"""To count what waits, a server reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureLag:
    """How far the landing files of a slot, a log or a topic are behind their server.

    Attributes:
        name: what is captured, without a secret.
        begun: something was landed before; None where it is not known.
        behind_bytes: what the server has more, in bytes; None where it does not tell.
        behind_seconds: age of the oldest change that is not landed, at most; 0 where nothing is missing, None where
            nobody knows.
        trouble: why it is not known, with the code of the error; None where it is.
        hint: the way out of the trouble, where there is one.
    """

    name: str
    begun: bool | None = None
    behind_bytes: int | None = None
    behind_seconds: float | None = None
    trouble: str | None = None
    hint: str | None = None


class Lags:
    """Asks the servers of some tables while something else is done.

    Cost: a connection for each slot, log and topic; together no more than some seconds from the first asking.
    """

    def __init__(self, pipeline: Pipeline, names: Collection[str]) -> None:
        from frazil.sources.kinds import captures_of  # noqa: PLC0415 - PyArrow comes with it

        self._pipeline = pipeline
        captures = captures_of(pipeline, names)
        self._answers = Answers(captures, lambda capture: capture.behind(pipeline.folder), _ANSWER_SECONDS)

    def of(self, table: str) -> tuple[CaptureLag, ...]:
        """Return what is known of a table, once its servers have answered or had their time."""
        captures = self._answers.captures
        found = (self._of(number, capture) for number, capture in enumerate(captures) if table in capture.tables)
        return tuple(one for one in found if one is not None)

    def _of(self, number: int, capture: Capture) -> CaptureLag | None:
        known = CaptureLag(name=capture.name)
        try:
            lag = self._answers.of(number)
        except Exception as raised:  # noqa: BLE001 - whatever it is, the rest of the lake can be told
            error = as_frazil_error(raised, self._pipeline)
            # What is captured stands in most messages already.
            message = error.message.removeprefix(f"{capture.name}: ")
            return replace(known, trouble=f"[{error.code}] {message}", hint=error.hint)
        if lag is None:
            return None
        return replace(known, begun=lag.begun, behind_bytes=lag.behind_bytes, behind_seconds=lag.behind_seconds)


def waiting(
    pipeline: Pipeline, names: Collection[str]
) -> tuple[dict[str, dict[str, int | None] | str], dict[str, FrazilError]]:
    """Count what waits at the servers of some tables and is not landed; nothing is captured.

    Returns:
        What is captured -> number of changes by table, None for one that was not loaded yet; or why nobody knows.
        Kinds that cannot count are not among them. Then: table -> why a run would capture nothing of it; it is in no
        count.

    Cost: as long as the servers need to read what is not landed, half a minute at most.
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
        except Exception as raised:  # noqa: BLE001 - whatever it is, the rest can be planned
            error = as_frazil_error(raised, pipeline)
            found[capture.name] = f"[{error.code}] {error.message.removeprefix(f'{capture.name}: ')}"
        else:
            found[capture.name] = {table: count for table, count in told.counts.items() if table in names}
            failed |= {table: error for table, error in told.failed.items() if table in names}
    return found, failed
