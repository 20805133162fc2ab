"""The command line. Each command calls one function of :mod:`frazil.api` and prints the result; it decides nothing."""

from __future__ import annotations

import sys

from frazil.cli import interrupt

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    # First of all, because the imports below take most of a second.
    interrupt.listen()
    from frazil.cli.main import app  # noqa: PLC0415

    try:
        app()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            # The reader of a help text is gone; Click would exit with the code of a bug.
            sys.exit(interrupt.READER_GONE)
        raise
    finally:
        interrupt.finish()
