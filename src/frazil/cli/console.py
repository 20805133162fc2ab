"""Output and error handling of all commands."""

from __future__ import annotations

import datetime as dt
import errno
import json
import os
import sys
import traceback
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from frazil.cli.interrupt import READER_GONE, wait_for_hang_up
from frazil.errors import DeclarationError, FrazilError, FrazilWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec import Pipeline

_PLAIN_WIDTH = 160
"""Width of tables in a file or a pipe, which have no width of their own."""


class _Terminal(Console):
    """Raises BrokenPipeError if the reader is gone; Rich would exit with the code of a bug."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


out = _Terminal(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
err = _Terminal(stderr=True, highlight=False, soft_wrap=True)

_BUG = 1


class NotConfirmedError(DeclarationError):
    """The question of a command was not answered with yes."""

    code = "FZ107"


def confirm(pipeline: Pipeline, question: str, otherwise: str) -> None:
    """Name the lake and ask a question; any answer but yes is an error: a script notices that nothing was done.

    Args:
        pipeline: the pipeline of the lake.
        question: a question for yes or no.
        otherwise: message of the error.
    """
    from frazil.spec.location import warehouse  # noqa: PLC0415 - most commands ask nothing

    place = warehouse(pipeline)
    err.print(f"the lake is at {place.path or place.uri}", markup=False)
    try:
        if typer.confirm(question, err=True):
            return
    except typer.Abort:
        err.print()
    raise NotConfirmedError(otherwise, hint="--yes answers the question")


def print_json(value: Any) -> None:
    """Write a value as JSON to standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")
    sys.stdout.flush()


@contextmanager
def error_exit(*, as_json: bool = False, verbose: bool = False) -> Iterator[None]:
    """End the command with an error's exit code and text; with ``verbose`` also its stack."""
    try:
        with _plain_warnings():
            yield
    except (typer.Exit, typer.Abort):
        raise
    except BrokenPipeError:
        # The reader has closed the pipe, as head does. Python must not report unwritten output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(READER_GONE) from None
    except Exception as error:  # noqa: BLE001 - the last resort of every command
        if isinstance(error, OSError) and error.errno == errno.EIO:
            wait_for_hang_up()
        known = _translated(error)
        if known is not None:
            _report(known, as_json=as_json, verbose=verbose)
            raise typer.Exit(known.exit_code) from None
        _report_bug(error, as_json=as_json, verbose=verbose)
        raise typer.Exit(_BUG) from None


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show Frazil's own warnings without the line of code that they come from."""
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
        if issubclass(category, FrazilWarning):
            err.print(f"{message}", style="yellow", markup=False)
        else:
            usual(message, category, *place)

    warnings.showwarning = show  # type: ignore[assignment]
    try:
        yield
    finally:
        warnings.showwarning = usual


def _translated(error: Exception) -> FrazilError | None:
    if isinstance(error, FrazilError):
        return error
    from frazil.catalog.trouble import translate_error as translated  # noqa: PLC0415 - most commands end without

    return translated(error)


def _report_bug(error: Exception, *, as_json: bool, verbose: bool) -> None:
    """Report an unexpected error in one line, and write its stack to a log."""
    stack = "".join(traceback.format_exception(error))
    first = next(iter(str(error).strip().splitlines()), "")
    bug = FrazilError(f"a bug in Frazil: {type(error).__name__}: {first}", hint=_reported(stack))
    _report(bug, as_json=as_json, verbose=False)
    if verbose:
        err.print(stack, markup=False)


def _reported(stack: str) -> str:
    """Write the stack to the log of the day, and return a hint with its path."""
    from frazil import __version__  # noqa: PLC0415
    from frazil.host import kept_folder  # noqa: PLC0415

    command = " ".join(sys.argv[1:2])
    now = dt.datetime.now(dt.UTC)
    rest = "the lake is as its last commit left it"
    try:
        log = kept_folder("logs") / f"bug-{now:%Y-%m-%d}.log"
        log.touch(mode=0o600)
        with log.open("a", encoding="utf-8") as file:
            file.write(
                f"{now:%H:%M:%S} frazil {__version__}, Python {sys.version.split()[0]}: frazil {command}\n{stack}\n"
            )
    except (OSError, FrazilError):
        return f"run again with -v for the stack; {rest}"
    return f"please report it with {log}, which has the stack; {rest}"


def as_value(error: FrazilError) -> dict[str, Any]:
    """Return an error as ``--json`` prints it."""
    said = {"code": error.code, "message": error.message, "hint": error.hint, "exit_code": error.exit_code}
    return {"error": said}


def _report(error: FrazilError, *, as_json: bool, verbose: bool) -> None:
    if as_json:
        print_json(as_value(error))
    err.print(f"[{error.code}] {error.message}", style="red", markup=False)
    if error.hint:
        err.print(f"  hint: {error.hint}", markup=False)
    if verbose:
        err.print("".join(traceback.format_exception(error)), markup=False)
