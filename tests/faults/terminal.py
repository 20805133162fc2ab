"""Run the command as a user does, with or without a terminal, and see what an interruption leaves behind."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENCE_SECONDS = 600
CTRL_C = b"\x03"

_TAKE_TERMINAL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes the terminal that is standard input the controlling one, so that Ctrl-C in it is a signal.

Hang-ups count also where the tests themselves run under ``nohup``."""


@dataclass
class Command:
    """One command of Frazil, in a process of its own, with a temporary folder of its own.

    Attributes:
        folder: its temporary folder, which must be empty at the end.
        said: its output to the terminal, or else to standard error, as far as it was read.
    """

    folder: Path
    process: subprocess.Popen[bytes]
    ear: int
    said: str = ""
    _started: float = field(default_factory=time.monotonic)

    @classmethod
    def start(cls, folder: Path, arguments: Sequence[str], *, terminal: bool, ending: str = "") -> Command:
        """Start a command; ``ending`` is its standard input without a terminal."""
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # What a shell starts in the background ignores Ctrl-C, and so would its children.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        temporary = folder / "tmp"
        temporary.mkdir(exist_ok=True)
        environment = {**os.environ, "TMPDIR": f"{temporary}", "FRAZIL_DRIVER_MEMORY": "1g"}
        frazil = f"{Path(sys.executable).with_name('frazil')}"
        if terminal:
            ear, mouth = pty.openpty()
            process = subprocess.Popen(
                [sys.executable, "-c", _TAKE_TERMINAL, frazil, *arguments],
                env=environment,
                stdin=mouth,
                stdout=mouth,
                stderr=mouth,
            )
        else:
            ear, mouth = os.pipe()
            process = subprocess.Popen(
                [frazil, *arguments],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=mouth,
                start_new_session=True,
            )
            assert process.stdin
            if ending:
                process.stdin.write(ending.encode())
                process.stdin.close()
        os.close(mouth)
        return cls(temporary, process, ear)

    def hear(self, text: str) -> None:
        """Wait until it has said something."""
        while text not in self.said:
            assert self._read(), f"{text!r} was never said, but: {self.said}"

    def listens(self) -> None:
        """Wait until it answers signals; before that Python itself does."""
        caught = 1 << (signal.SIGTERM - 1)
        status = Path(f"/proc/{self.process.pid}/status")
        while not int(re.findall(r"SigCgt:\s*(\w+)", status.read_text())[0], 16) & caught:
            assert time.monotonic() - self._started < PATIENCE_SECONDS
            time.sleep(0.005)

    def press(self, key: bytes) -> None:
        """Press a key of the terminal."""
        os.write(self.ear, key)

    def interrupt(self, number: signal.Signals) -> None:
        """Send SIGINT as a terminal does, to all of its foreground group, or SIGTERM to the process alone."""
        if self.process.poll() is None:
            (os.killpg if number is signal.SIGINT else os.kill)(self.process.pid, number)

    def end(self) -> int:
        """Wait for its end, and return the exit code."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read():
            assert time.monotonic() < deadline, f"does not end after: {self.said}"
        return self.process.wait(PATIENCE_SECONDS)

    def left_behind(self) -> list[str]:
        """Wait for processes that are about to end, and list those that do not, and what is in the folder."""
        deadline = time.monotonic() + 20
        while (left := self._processes() + self._files()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def _processes(self) -> list[str]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("TMPDIR", "").startswith(f"{self.folder}"):
                    found.append(f"{process.pid} {' '.join(process.cmdline())[:200]}")
        return found

    def _files(self) -> list[str]:
        return [f"{path}" for path in self.folder.iterdir() if not path.name.startswith("hsperfdata")]

    def _read(self) -> bool:
        """Read what it says next; False when it has nothing more to say."""
        ready, _, _ = select.select([self.ear], [], [], PATIENCE_SECONDS)
        assert ready, f"silent for too long after: {self.said}"
        try:
            piece = os.read(self.ear, 65536)
        except OSError:  # a terminal's way to say that the other side is closed
            return False
        self.said += piece.decode(errors="replace")
        return bool(piece)
