"""The command. Nothing here decides anything: each command calls one function of a room and shows what it says."""

from __future__ import annotations

import sys

from frazil.cli import interrupt

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    # First of all: what is imported next takes most of a second.
    interrupt.listen()
    from frazil.cli.main import app  # noqa: PLC0415

    try:
        app()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            # A help text's reader is gone: Click's exit code for that is the one of a bug.
            sys.exit(interrupt.READER_GONE)
        raise
    finally:
        interrupt.finish()
