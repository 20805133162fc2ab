"""Ctrl-C, SIGTERM and a closed terminal: print one line, restore the terminal and end, at any moment.

A thread of its own handles the signals. The main thread may be inside a query, a call to Java or a write to the
terminal, where an exception would leave a half-read answer or print a stack. The lake needs no cleanup: an interrupted
run publishes nothing more (ONCE).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Final

from frazil.host import kill_all, remove_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WORDS: Final = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
_REST: Final = "what was published stays, run again to go on"
_ONE_PRESS_SECONDS: Final = 0.3
"""Signals within this time count as one: ``timeout`` and others signal a process and then its group."""
_STANDARD_ERROR: Final = 2
READER_GONE: Final = 128 + signal.SIGPIPE
"""Exit code of a command whose output has no reader any more."""
_SHOW_CURSOR: Final = "\r\x1b[J\x1b[?25h"
_STOPPING_SECONDS: Final = 1.0
_HANG_UP_SECONDS: Final = 3.0

_gentle: Final[list[tuple[Callable[[], object], str]]] = []
"""Functions that the first signal calls instead of ending the process, each with the text to print."""
_closing: Final[list[Callable[[], object]]] = []
"""Functions that restore the terminal."""
_is_over = Lock()
"""Acquired once, by the thread that ends the process."""


def listen() -> None:
    """Handle signals from now on; a signal that is ignored already, as under ``nohup``, stays ignored."""
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    for number in _WORDS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    Thread(target=_answer, args=(told,), name="signals", daemon=True).start()


@contextmanager
def gently(stop: Callable[[], object], says: str) -> Iterator[None]:
    """Within a block, the first signal calls ``stop`` and prints ``says``; the second one interrupts."""
    _gentle.append((stop, says))
    try:
        yield
    finally:
        _gentle.clear()


@contextmanager
def closing(close: Callable[[], object]) -> Iterator[None]:
    """Call ``close`` before the last line is printed, if the block is interrupted."""
    _closing.append(close)
    try:
        yield
    finally:
        _closing.remove(close)


def wait_for_hang_up() -> None:
    """Wait for the signal of a closed terminal to end this process: a write fails a moment before the signal."""
    time.sleep(_HANG_UP_SECONDS)


def finish() -> None:
    """Ignore signals from now on, so that they cannot change the exit code; never returns if one ends the process."""
    if not _is_over.acquire(blocking=False):
        Event().wait()
    for number in _WORDS:
        # Python restores the default handlers while it exits, and they would kill the process.
        signal.signal(number, signal.SIG_IGN)


def _answer(told: int) -> None:
    last = float("-inf")
    is_leaving = False
    while True:
        for number in os.read(told, 16):
            since, last = time.monotonic() - last, time.monotonic()
            if number not in _WORDS or since < _ONE_PRESS_SECONDS:
                continue
            if is_leaving:
                kill_all()
                os._exit(128 + number)
            if stops := tuple(_gentle):
                _gentle.clear()
                stop, says = stops[0]
                _say(says)
                stop()
                continue
            is_leaving = _is_over.acquire(blocking=False)
            if is_leaving:
                Thread(target=_leave, args=(number,), daemon=True).start()


def _leave(number: int) -> None:
    for close in _closing:
        closer = Thread(target=close, daemon=True)
        closer.start()
        closer.join(_STOPPING_SECONDS)
    _say(f"{_WORDS[signal.Signals(number)]}; {_REST}")
    # Errors of other threads after Java has ended are of no interest.
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, _STANDARD_ERROR):
            os.dup2(nowhere, stream)
    try:
        remove_all()
    finally:
        os._exit(128 + number)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        back = _SHOW_CURSOR if os.isatty(_STANDARD_ERROR) else ""
        os.write(_STANDARD_ERROR, f"{back}{line}\n".encode())
