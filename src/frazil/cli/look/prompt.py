"""A prompt for SQL: a statement ends with a semicolon, an error does not end the prompt."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import typer

from frazil.cli.console import error_exit, out

if TYPE_CHECKING:
    from collections.abc import Callable

_LEAVE: Final = (r"\q", "exit", "quit")


def prompt(answer: Callable[[str], None]) -> None:
    r"""Read statements line by line and have each answered, until ``\q``, ``exit``, ``quit`` or Ctrl-D."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, PLC0415 - arrow keys and history, by being imported
    out.print(r"SQL over the lake; a statement ends with ;   \q leaves", style="dim", markup=False)
    lines: list[str] = []
    while True:
        try:
            line = input("   ...> " if lines else "frazil> ")
        except EOFError:
            out.print()
            return
        if not lines and line.strip().rstrip(";").lower() in _LEAVE:
            return
        lines += [line] if line.strip() else []
        if line.rstrip().endswith(";"):
            with contextlib.suppress(typer.Exit), error_exit():
                answer("\n".join(lines))
            lines = []
