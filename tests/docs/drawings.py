"""The cases in docs/guarantees: arriving files and expected marts.

A ``text`` block with a line that begins with ``arrives`` is a table of cases: below that line each line is one, its
columns are below their heads, and text two blanks after the last one is a note.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.docs.page import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES: Final = sorted((Path(__file__).parents[2] / "docs" / "guarantees").glob("*.md"))
_MARTS: Final = {
    "current": "hard",
    "current hard": "hard",
    "current soft": "soft",
    "history": "close",
    "history close": "close",
    "close": "close",
    "mark": "mark",
}


@dataclass(frozen=True)
class Drawing:
    """A case of a page: its place, what arrives, and what each mart that it shows holds then."""

    place: str
    arrives: str
    marts: dict[str, str]


def drawings() -> Iterator[Drawing]:
    """Read the cases of all pages, in order."""
    for page in PAGES:
        for block in blocks(page.read_text(encoding="utf-8")):
            lines = block.text.splitlines()
            heads = next((at for at, line in enumerate(lines) if line.startswith("arrives")), None)
            if block.language == "text" and heads is not None:
                columns = [(head.start(), head[0]) for head in re.finditer(r"\S+(?: \S+)*", lines[heads])]
                for at, line in enumerate(lines[heads + 1 :], heads + 1):
                    yield _case(f"{page.name}:{block.line + 1 + at}", line, columns)


def _case(place: str, line: str, columns: list[tuple[int, str]]) -> Drawing:
    ends = [start for start, _ in columns[1:]]
    arrives, *cells = [line[start:end] for (start, _), end in zip(columns, [*ends, len(line)], strict=True)]
    assert all(line[end - 1] == " " for end in ends), f"{place}: columns stand below their heads"
    marts = {
        _MARTS[head]: cell.partition("  ")[0].strip().replace(", deleted at ", " x@").replace("(none)", "")
        for (_, head), cell in zip(columns[1:], cells, strict=True)
    }
    return Drawing(place, arrives.strip(), marts)
