"""Replays of corrected records: one at a time, each a ``frazil replay`` of its own, so this process needs no JVM."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.api.declaring import Declaration
    from frazil.host import Scratch


@dataclass(slots=True, kw_only=True)
class Replay:
    """A replay of a table's corrected records.

    Attributes:
        table: the source table.
        records: number of corrections.
        exit_code: None while it is at work.
        run: id of its run; None without a run.
        errors: what went wrong: ``code``, ``message`` and ``hint`` of each error.
    """

    table: str
    records: int
    exit_code: int | None = None
    run: str | None = None
    errors: tuple[dict[str, Any], ...] = ()


@dataclass(slots=True)
class Replays:
    """The replays of one server.

    Attributes:
        project: path of the declaration.
        last: the newest replay, or None.
    """

    project: Declaration
    last: Replay | None = field(default=None, init=False)
    _process: subprocess.Popen[str] | None = field(default=None, init=False)
    _follower: Thread | None = field(default=None, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def start(self, table: str, file: Path, records: int, held: Scratch) -> bool:
        """Start a replay; False if another one is at work.

        Args:
            table: the source table.
            file: its corrections.
            records: number of corrections.
            held: folder of the file, removed when the replay ends.
        """
        words = ["replay", "--project", f"{self.project}", "--select", table, "--from", f"{file}", "--yes", "--json"]
        with self._lock:
            if self.last is not None and self.last.exit_code is None:
                return False
            self._process = subprocess.Popen(
                [sys.executable, "-m", "frazil", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
            )
            self.last = Replay(table=table, records=records)
            self._follower = Thread(target=_follow, args=(self._process, self.last, held))
            self._follower.start()
            return True

    def stop(self) -> None:
        """End a replay that is at work. Corrections that are in bronze already are applied by the next run."""
        if self._process is not None:
            self._process.terminate()
        if self._follower is not None:
            self._follower.join()


def _follow(process: subprocess.Popen[str], replay: Replay, held: Scratch) -> None:
    """Wait for the end of a replay, and note it."""
    said, _ = process.communicate()
    held.remove()
    try:
        values = json.loads(said)
    except ValueError:
        values = {}
    replay.run = values.get("run_id")
    replay.errors = tuple(values.get("errors", [values["error"]] if "error" in values else ()))
    replay.exit_code = process.returncode
