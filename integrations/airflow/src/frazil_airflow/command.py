"""One call of the command ``frazil`` in its own process, and the meaning of its exit code for a scheduler."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections import deque
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator, Mapping, Sequence

BUSY = 7
"""Another run holds the pipeline."""

_MAY_SUCCEED_LATER = frozenset({3, 4, BUSY})
_SIGNALS = 128
_SECONDS_TO_END = 30
_LINES_KEPT = 20


@dataclass(frozen=True)
class Finished:
    """Result of a call: its exit code, its JSON or None, and the last lines of its log."""

    exit_code: int
    report: Any
    last_lines: tuple[str, ...]

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later, by its exit code, its errors, or a signal that ended it."""
        errors = [error for _, error in _errors(self.report)]
        says_so = bool(errors) and all(error.get("retryable") for error in errors)
        return says_so or self.exit_code in _MAY_SUCCEED_LATER or self.exit_code > _SIGNALS

    def why(self) -> str:
        """All failures, one a line: code, place, message and hint."""
        lines = [_line(where, error) for where, error in _errors(self.report)]
        return "\n".join(lines or self.last_lines or ("it said nothing",))


class Command:
    """A call that can be stopped from another thread or from a signal handler.

    Args:
        words: the program and its arguments; no shell is involved.
        env: environment variables for the process, in addition to those of the worker.
    """

    def __init__(self, words: Sequence[str], env: Mapping[str, str]) -> None:
        self._words = list(words)
        self._env = {**os.environ, **env}
        self._process: subprocess.Popen[str] | None = None

    def run(self, log: logging.Logger) -> Finished:
        """Run to the end, and copy the command's log lines to ``log`` as they are written.

        Raises:
            FileNotFoundError: the program does not exist.
        """
        self._process = process = subprocess.Popen(
            self._words,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        assert process.stdout is not None  # noqa: S101 - both are pipes
        assert process.stderr is not None  # noqa: S101
        kept: deque[str] = deque(maxlen=_LINES_KEPT)
        reader = threading.Thread(target=_follow, args=(process.stderr, kept, log), daemon=True)
        reader.start()
        said = process.stdout.read()
        exit_code = process.wait()
        reader.join(_SECONDS_TO_END)
        # Python reports a signal as a negative number; shells and Frazil report 128 plus the number.
        return Finished(exit_code if exit_code >= 0 else _SIGNALS - exit_code, _json(said), tuple(kept))

    def stop(self) -> None:
        """End the command by SIGTERM, which is safe at any moment; kill it if it is still running after 30 seconds."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)


def _follow(stream: IO[str], kept: deque[str], log: logging.Logger) -> None:
    for line in stream:
        kept.append(line.rstrip())
        log.info("%s", kept[-1])


def _json(said: str) -> Any:
    try:
        return json.loads(said)
    except ValueError:
        return None


def _errors(report: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the failures as ``(where, error)``: of a run, of a command that did not start, or of a list of proofs."""
    if isinstance(report, list):
        yield from ((f"{proof['table']}, {proof['law']}", proof) for proof in report if not proof.get("ok", True))
        return
    for part in (report or {}, *(report or {}).get("tables", ()), *(report or {}).get("gold", ())):
        where = part.get("table") or part.get("name") or ""
        if "error" in part:
            yield where, part["error"]
        yield from ((where, error) for error in part.get("errors", ()))


def _line(where: str, error: Mapping[str, Any]) -> str:
    code = f"[{error['code']}] " if error.get("code") else ""
    place = f"{where}: " if where else ""
    hint = f" ({error['hint']})" if error.get("hint") else ""
    return f"{code}{place}{error.get('message') or error.get('detail', '')}{hint}"
