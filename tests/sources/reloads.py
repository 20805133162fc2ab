"""Tables that are read again, for tests: all that writers write, and how their brake is let go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sources.writers import KEYS

if TYPE_CHECKING:
    from pathlib import Path

ALL = {table: ", ".join(keys) for table, keys in KEYS.items()}
NAMES = [table.rpartition(".")[2] for table in KEYS]


def allow(folder: Path) -> None:
    """Let any share of the rows be gone."""
    file = folder / "frazil.yml"
    text = file.read_text(encoding="utf-8")
    text = text.replace("landing: ./landing}", "landing: ./landing, max_delete_fraction: 1}")
    file.write_text(text, encoding="utf-8")
