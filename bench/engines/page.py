"""The table of docs/engines.md, between its markers, from what is kept in bench/results/engines.json."""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING, Any, Final

from bench.data import ROOT
from bench.engines.kinds import ENGINES, KINDS, TRIED

if TYPE_CHECKING:
    from pathlib import Path

PAGE: Final = ROOT / "docs" / "engines.md"
KEPT: Final = ROOT / "bench" / "results" / "engines.json"
_MARKERS: Final = re.compile(r"(<!-- engines -->\n).*?(<!-- /engines -->)", re.DOTALL)
_NEVER: Final = (
    ("REST on a local disk", "the REST catalog of SeaweedFS keeps tables in buckets of its own only"),
    ("Hive", "Frazil writes and reads it in `tests/end_to_end/test_lake_on_hive.py`; no other engine was tried"),
    ("Google Cloud Storage and Azure", "no server of theirs runs here; their settings are tested as text"),
    (
        "a REST catalog that vends credentials",
        "none was to be had; `tests/end_to_end/test_lake_on_s3.py` puts a proxy before one that does not",
    ),
)
"""What is not in the table at all, and why."""


def kept() -> dict[str, Any]:
    """Return what is kept: ``versions``, ``date``, and ``lakes``, each with the cells of its engines."""
    if not KEPT.is_file():
        return {"date": "", "versions": {}, "lakes": {}}
    found: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8"))
    return found


def keep(found: dict[str, Any]) -> None:
    """Keep what was found, a lake a line, so that a new trial is a small difference."""
    lakes = ",\n".join(f"  {json.dumps(name)}: {json.dumps(one, ensure_ascii=False)}" for name, one in _sorted(found))
    head = f'{{"date": {json.dumps(found["date"])},\n "versions": {json.dumps(found["versions"])}'
    KEPT.write_text(f'{head},\n "lakes": {{\n{lakes}\n }}}}\n', encoding="utf-8")


def write() -> Path:
    """Write what is kept into the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_MARKERS.sub(lambda at: f"{at[1]}{rendered(kept())}\n{at[2]}", text), encoding="utf-8")
    return PAGE


def shown(text: str) -> str:
    """Return what a page has between the markers."""
    found = _MARKERS.search(text)
    return found[0].removeprefix(found[1]).removesuffix(f"\n{found[2]}") if found else ""


def rendered(found: dict[str, Any]) -> str:
    """Return the table, its notes, and what was not tried, as Markdown.

    Two format versions with the same outcomes share a line. What is not ``yes`` has the number of its note.
    """
    notes: dict[str, int] = {}
    lines = []
    for engine in ENGINES:
        for catalog, store in dict.fromkeys((one["catalog"], one["store"]) for _, one in _sorted(found)):
            by_version = {
                one["format"]: [_shown(one["cells"][engine][what], notes) for what in TRIED]
                for _, one in _sorted(found)
                if (one["catalog"], one["store"]) == (catalog, store)
            }
            for cells in _distinct([*by_version.values()]):
                versions = ", ".join(f"{version}" for version, own in by_version.items() if own == cells)
                lines.append([found["versions"][engine], catalog, store, versions, *cells])
    table = [["engine", "catalog", "store", "format", *TRIED], ["---"] * (4 + len(TRIED)), *lines]
    body = "\n".join(f"| {' | '.join(cells)} |" for cells in table)
    told = "\n".join(_item(f"{number}. ", _sentence(why)) for why, number in notes.items())
    never = "\n".join(_item("- ", f"{what}: {why}.") for what, why in _NEVER)
    return f"{_versions(found)}\n\n{body}\n\n{told}\n\nNot tried at all:\n\n{never}"


def _versions(found: dict[str, Any]) -> str:
    others = ", ".join(version for name, version in found["versions"].items() if name not in ENGINES)
    return f"Run on {found['date']} with {others}."


def _shown(cell: list[str], notes: dict[str, int]) -> str:
    outcome, why = cell
    return f"{outcome} ({notes.setdefault(why, len(notes) + 1)})" if why else outcome


def _sentence(text: str) -> str:
    return text if text.endswith((".", "…")) else f"{text}."


def _item(mark: str, text: str) -> str:
    """Return an item of a list, in lines of at most 120 characters."""
    return textwrap.fill(
        mark + text, 120, subsequent_indent=" " * len(mark), break_long_words=False, break_on_hyphens=False
    )


def _distinct(lines: list[list[str]]) -> list[list[str]]:
    return [line for number, line in enumerate(lines) if line not in lines[:number]]


def _sorted(found: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return lakes in the order of the table: that of ``KINDS``."""
    names = [kind.name for kind in KINDS]
    return sorted(found["lakes"].items(), key=lambda one: names.index(one[0]))
