"""How a command is called by the hostile tables, and what holds of everything it says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from typer.testing import CliRunner

from frazil.cli.main import app

_SAID_BY_BUGS: Final = re.compile(r"Traceback|a bug in Frazil|FZ000|Py4J|\bat (java|org|scala)\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a command ended with: its exit code and all that it wrote."""

    code: int
    text: str
    stdout: str


def command(*args: str, answer: str | None = None) -> Said:
    """Run a command in this process; every error must be readable for people."""
    # Nothing is caught here: an exception that reaches this line would have been a stack on a terminal.
    result = CliRunner().invoke(app, [*args], input=answer, catch_exceptions=False)
    assert not bug_in(result.output), result.output
    assert result.exit_code != 1, result.output
    return Said(code=result.exit_code, text=result.output, stdout=result.stdout)


def bug_in(text: str) -> bool:
    """Say whether a text shows what only programmers should see."""
    return _SAID_BY_BUGS.search(text) is not None
