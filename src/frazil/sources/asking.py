"""Ask servers something, each in a thread of its own: one that is silent holds up nobody."""

from __future__ import annotations

import time
from threading import Thread
from typing import TYPE_CHECKING, Generic, TypeVar

from frazil.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frazil.sources.capture import Capture

T = TypeVar("T")


class Answers(Generic[T]):
    """What servers answer to a question that is put to all of them at once.

    Args:
        captures: what is captured of each server.
        question: asks one; runs in a thread.
        seconds: how long all of them together may take, from now on.
    """

    def __init__(self, captures: Sequence[Capture], question: Callable[[Capture], T], seconds: float) -> None:
        self.captures = captures
        self._question, self._seconds = question, seconds
        self._until = time.monotonic() + seconds
        self._found: dict[int, T] = {}
        self._failed: dict[int, Exception] = {}
        # A thread that waits for a silent server must not keep the process from ending.
        self._threads = [Thread(target=self._ask, args=numbered, daemon=True) for numbered in enumerate(captures)]
        for thread in self._threads:
            thread.start()

    def of(self, number: int) -> T:
        """Return the answer of one of them, once it has answered or had its time.

        Raises:
            SourceError: it has not answered.
            Exception: what the question raised.
        """
        self._threads[number].join(max(0.0, self._until - time.monotonic()))
        if number in self._failed:
            raise self._failed[number]
        if number not in self._found:
            raise SourceError(
                f"{self.captures[number].name}: no answer within {self._seconds:.0f} s",
                hint="see that the server runs and may be reached from here",
            )
        return self._found[number]

    def _ask(self, number: int, capture: Capture) -> None:
        try:
            self._found[number] = self._question(capture)
        except Exception as error:  # noqa: BLE001 - raised where the answer is wanted
            self._failed[number] = error
