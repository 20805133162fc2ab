"""The command. Nothing here decides anything: each command calls one function of a room and shows what it says."""

from __future__ import annotations

from frazil.cli import interrupt

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    # First of all: what is imported next takes most of a second.
    interrupt.listen()
    from frazil.cli.main import app  # noqa: PLC0415

    try:
        app()
    finally:
        interrupt.finish()
