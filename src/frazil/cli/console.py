"""What all commands share: where text goes, and how errors end a command."""

from __future__ import annotations

import json
import sys
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from frazil.errors import FrazilError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN_WIDTH = 160
"""Width of tables that go to a file or a pipe, where there is no edge to keep to."""

out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
err = Console(stderr=True, highlight=False, soft_wrap=True)

_BUG = 1


def print_json(value: Any) -> None:
    """Write a value as JSON, alone on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


@contextmanager
def told(*, as_json: bool = False, verbose: bool = False) -> Iterator[None]:
    """End the command with the exit code and the text of an error, and without a stack unless asked for."""
    try:
        yield
    except FrazilError as error:
        _tell(error, as_json=as_json, verbose=verbose)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        err.print("stopped; the next run takes up where this one was")
        raise typer.Exit(130) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        known = _translated(error)
        if known is not None:
            _tell(known, as_json=as_json, verbose=verbose)
            raise typer.Exit(known.exit_code) from None
        if verbose:
            raise
        first = str(error).strip().splitlines()
        err.print(f"[bold red]a bug in Frazil:[/] {type(error).__name__}: {first[0] if first else ''}", markup=True)
        err.print("  again with -v for the whole stack; the lake is as its last commit left it")
        raise typer.Exit(_BUG) from None


def _translated(error: Exception) -> FrazilError | None:
    if "pyspark" not in sys.modules:
        return None
    from frazil.lake.trouble import told as translated  # noqa: PLC0415 - only where Spark is loaded anyway

    return translated(error)


def _tell(error: FrazilError, *, as_json: bool, verbose: bool) -> None:
    if as_json:
        print_json(
            {
                "error": {
                    "code": error.code,
                    "message": error.message,
                    "hint": error.hint,
                    "exit_code": error.exit_code,
                }
            }
        )
    err.print(f"[{error.code}] {error.message}", style="red", markup=False)
    if error.hint:
        err.print(f"  hint: {error.hint}", markup=False)
    if verbose:
        err.print("".join(traceback.format_exception(error)), markup=False)
