"""The command. Nothing here decides anything: each command calls one function of a room and shows what it says."""

from __future__ import annotations

from frazil.cli.main import main

__all__ = ["main"]
