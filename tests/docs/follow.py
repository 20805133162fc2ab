"""Follow a page as its reader would, in a folder with the examples; commands run in this process, on its session."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import subprocess
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, assert_never

from tests.docs.page import Code, Command, Shown, Written, matches
from typer.testing import CliRunner

from frazil.cli.main import app

if TYPE_CHECKING:
    from tests.docs.page import Step

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
SHELL: Final = ("cp", "echo", "mkdir", "mv", "psql", "sed")
NOT_RUN: Final = {
    "make": "works on the clone itself, for minutes; what it does are tests and examples of their own",
}
"""Programs whose commands are not run, and why."""


class Reader:
    """Follows the steps of one page: a folder to work in, and the names its Python code has defined."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("lake"))
        self._names: dict[str, Any] = {"__name__": "__main__"}

    def follow(self, step: Step) -> None:
        """Do a step in the working folder, and see that it does what the page says.

        Raises:
            AssertionError: it prints something else, leaves another file, or fails where the page shows no error.
        """
        match step:
            case Command():
                if step.words[0] not in NOT_RUN:
                    self._same(step, _command(step), step.prints)
            case Code():
                self._same(step, self._code(step), step.prints)
            case Written():
                Path(step.path).write_text(step.text, encoding="utf-8")
            case Shown():
                self._same(step, Path(step.path).read_text(encoding="utf-8"), step.text)
            case _:
                assert_never(step)

    def _code(self, step: Code) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                exec(compile(step.text, f"line {step.line}", "exec"), self._names)  # noqa: S102 - that is the test
            except Exception as error:
                if step.prints is None:
                    raise
                # Of what Python says of it the page shows what and why, not the stack and not the hint.
                print(traceback.format_exception_only(error)[0].splitlines()[0])  # noqa: T201
        return printed.getvalue()

    @staticmethod
    def _same(step: Step, found: str, wanted: str | None) -> None:
        if wanted is not None and not matches(wanted, found):
            what = step.text.splitlines()[0]
            raise AssertionError(f"line {step.line}: {what}\n--- the page says\n{wanted}\n--- it is\n{found}")


def _command(step: Command) -> str:
    program, *words = step.words
    if program == "cd":
        os.chdir(words[0])
        return ""
    if program in SHELL:
        done = subprocess.run(["/bin/sh", "-c", step.text], check=True, capture_output=True, text=True, timeout=300)
        return done.stdout + done.stderr
    assert program == "frazil", f"line {step.line}: what is {program}?"
    result = CliRunner().invoke(app, words, prog_name="frazil", env={"COLUMNS": "160"})
    fails = step.prints is not None and "[FZ" in step.prints
    ends = f"line {step.line}: {shlex.join(step.words)} ends with {result.exit_code}\n{result.output}"
    assert (result.exit_code != 0) is fails, ends
    # Progress, which a terminal wipes out, comes before the errors.
    errors = result.stderr.splitlines(keepends=True)
    while errors and "[FZ" not in errors[0]:
        del errors[0]
    return result.stdout + "".join(errors)
