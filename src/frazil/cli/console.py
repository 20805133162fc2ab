"""Output of all commands: lines, JSON, errors, and tables as a grid if it fits, else vertical."""

from __future__ import annotations

import datetime as dt
import errno
import json
import os
import re
import shlex
import sys
import traceback
import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from frazil.cli.interrupt import READER_GONE, wait_for_hang_up
from frazil.errors import DeclarationError, FrazilError, FrazilWarning

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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


named_project: ContextVar[str | None] = ContextVar("named_project", default=None)
"""The project that the command line names; None for the one of the environment or the working directory."""
_OF_A_PROJECT: Final = re.compile(
    r"\bfrazil (?:capture|check|cut|diff|doctor|drop|erase|key|lineage|ls|maintain|mcp|plan|quarantine|query|replay"
    r"|rollback|run|runs|serve|status|test|ui|validate|watch)\b"
)


def runnable(text: str) -> str:
    """Return a text whose commands name the project that this command line names: each can be pasted as it is."""
    project = named_project.get()
    if project is None:
        return text
    return _OF_A_PROJECT.sub(lambda found: f"{found[0]} -p {shlex.quote(project)}", text)


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
        err.print(f"  hint: {runnable(error.hint)}", markup=False)
    if verbose:
        err.print("".join(traceback.format_exception(error)), markup=False)


_MAX_CELL = 60
_GAP = 3
"""Width between two columns."""
_MARGIN = 2


def grid(title: str | None, names: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Iterable[str] = ()) -> None:
    """Print rows as a grid.

    Args:
        title: heading, or None.
        names: names of the columns.
        rows: values of each row, in the order of ``names``.
        right: columns of numbers, which are aligned right; integers get separators of thousands.
    """
    numbers = set(right)
    table = Grid(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in names:
        # Table names and numbers are not wrapped; long texts are.
        is_text = name not in numbers and name != "table"
        table.add_column(
            Text(name), justify="right" if name in numbers else "left", overflow="fold", no_wrap=not is_text
        )
    for row in rows:
        shown = zip(names, row, strict=True)
        table.add_row(*(_cell(f"{of:,}" if name in numbers and isinstance(of, int) else of) for name, of in shown))
    out.print(table)


def fitted(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows of data as a grid, or vertically, several rows beside one another, if the terminal is too narrow.

    Long values are cut. Words are broken only if they are longer than a line.
    """
    rows = [[_shortened(value) for value in row] for row in rows]
    if not rows or sum(_widths(names, rows)) + _GAP * len(names) <= out.width:
        grid(None, names, rows)
        return
    label = max(cell_len(name) for name in names)
    widths = [max(cell_len(_cell(value).plain) for value in row) for row in rows]
    first = 0
    while first < len(rows):
        last = first + 1
        while last < len(rows) and _turned(label, widths[first : last + 1]) <= out.width:
            last += 1
        _print_turned(names, rows[first:last])
        first = last


def _widths(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[int]:
    columns = zip(*rows, strict=True)
    return [
        max(cell_len(name), *(cell_len(_cell(value).plain) for value in column))
        for name, column in zip(names, columns, strict=True)
    ]


def _turned(label: int, widths: Sequence[int]) -> int:
    return _MARGIN + label + sum(_GAP + width for width in widths)


def _print_turned(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    table = Grid(box=box.SIMPLE_HEAD, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    for _ in rows:
        table.add_column(overflow="fold")
    for name, *values in zip(names, *rows, strict=True):
        table.add_row(Text(name), *map(_cell, values))
    out.print(table)


def _shortened(value: Any) -> Text:
    cell = _cell(value)
    return cell if len(cell) <= _MAX_CELL else Text(f"{cell.plain[: _MAX_CELL - 1]}…")


def _cell(value: Any) -> Text:
    if isinstance(value, Text):
        return value
    if value is None:
        return Text("NULL", style="dim")
    if value == "NULL":
        return Text("'NULL'")  # a text, which a pipe could not tell from no value
    if isinstance(value, bool):
        return Text(str(value).lower())
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    if isinstance(value, dict | list):
        from frazil.serve.query.plain import json_text  # noqa: PLC0415 - most tables do not need it

        value = json_text(value)
    return Text(str(value))
