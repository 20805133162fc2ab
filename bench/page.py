"""The tables of docs/benchmarks.md and docs/benchmarks/numbers.md, and docs/benchmarks.html, a file by itself."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any, Final

from bench.bars import BARS
from bench.cases import Case
from bench.contenders import PLACES
from bench.data import ROOT
from bench.labels import WORKS, label
from bench.summary import CASE, cases, is_noisy, standings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.results import Results
    from bench.summary import Standing

    Table = tuple[list[str], list[list[str]]]

_SUMMARY: Final = ROOT / "docs" / "benchmarks.md"
_NUMBERS: Final = ROOT / "docs" / "benchmarks" / "numbers.md"
_HTML: Final = ROOT / "docs" / "benchmarks.html"
_HEADER: Final = [
    "",
    "wall s",
    "CPU s",
    "in tasks",
    "compiling",
    "jobs",
    "MB written",
    "MB replaced",
    "peak MB",
    "reading, CPU s",
    "table",
]
_STYLE: Final = """\
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0 2rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; }
img { max-width: 100%; } .miss { color: #a33; } .hit { color: #286b3a; }
"""


def write(works: Mapping[str, Results], titles: Mapping[str, str], pictures: Mapping[str, str]) -> list[Path]:
    """Write the tables of the pages, between their markers, and the page that needs no other file.

    Args:
        works: results by work.
        titles: titles of the pictures there are, by name.
        pictures: the same pictures, as base64 of PNG files.
    """
    tables = _tables(works)
    text = _SUMMARY.read_text(encoding="utf-8")
    text = _between(text, "bars", f"{_markdown(_bar_table(works))}{_caution(works)}")
    shown = [f"![{title}](benchmarks/{name}.png)" for name, title in titles.items()]
    _SUMMARY.write_text(_between(text, "pictures", "\n\n".join(shown)), encoding="utf-8")
    parts = [f"### {title}\n\n{_markdown(table)}" for title, table in tables]
    text = _between(_NUMBERS.read_text(encoding="utf-8"), "tables", "\n\n".join(parts))
    _NUMBERS.write_text(_between(text, "machine", _machine(works)), encoding="utf-8")
    _HTML.write_text(_html(works, tables, titles, pictures), encoding="utf-8")
    return [_SUMMARY, _NUMBERS, _HTML]


def _tables(works: Mapping[str, Results]) -> list[tuple[str, Table]]:
    """Make a table of every case of every work, with a title."""
    made = []
    for name, results in works.items():
        rows = results.rows
        phase = {"load": "load", "start": "start", "watch": "watch"}.get(name, "apply")
        for case in cases(rows):
            title = Case(**dict(zip(CASE, case, strict=True))).title
            lines = [_line(one) for one in standings(rows, case, phase)]
            if lines:
                made.append((f"{WORKS[name]}: {title}", (_HEADER, lines)))
    return made


def _line(one: Standing) -> list[str]:
    verdict = {True: "right", False: "**wrong**", None: "not checked"}[one.right]
    if one.error:
        verdict = f"failed: {one.error[:80]}".replace("|", "/")
    return [
        f"{label(one.contender)}{' (noisy)' if one.noisy else ''}",
        _number(one.wall_s),
        _number(one.cpu_s),
        _number(one.tasks_s),
        _number(one.compile_s),
        _number(one.jobs, digits=0),
        _number(one.written_bytes, scale=1e6),
        _number(one.replaced_bytes, scale=1e6),
        _number(one.peak_bytes, scale=1e6, digits=0),
        _number(one.read_cpu_s),
        verdict,
    ]


def _bar_table(works: Mapping[str, Results]) -> Table:
    """Tell of every bar what was measured and whether that reaches it."""
    rows = {name: results.rows for name, results in works.items()}
    lines = []
    for bar in BARS:
        number = bar.measure(rows)
        sign = "≥" if bar.at_least else "≤"
        verdict = "not measured" if number is None else "yes" if bar.met(number) else "**no**"
        measured = "" if number is None else f"{number:.2f} {bar.unit}"
        lines.append([bar.what, f"{sign} {bar.limit:g} {bar.unit}", measured, verdict])
    return ["bar", "goal", "measured", "reached"], lines


def _machine(works: Mapping[str, Results]) -> str:
    lines = []
    for name, results in works.items():
        it: dict[str, Any] = results.machine
        versions = ", ".join(f"{package} {version}" for package, version in it["packages"].items())
        noise = "; others took more than a tenth of the machine meanwhile" if _is_noisy(results) else ""
        lines.append(
            f"- **{WORKS[name]}**, {it['date']}: {it['cores']} cores ({it['processor']}), {it['memory_gib']} GiB, "
            f"{it['system']}{noise}. Python {it['python']}, Java {it['java']}, Iceberg {it['iceberg']}, "
            f"Delta {it['delta']}, {versions}."
        )
    return "\n".join(lines)


def _caution(works: Mapping[str, Results]) -> str:
    """Say under the bars which works were disturbed; nothing when none was."""
    disturbed = [WORKS[name] for name, results in works.items() if _is_noisy(results)]
    if not disturbed:
        return ""
    return f"\n\nOthers took more than a tenth of the machine while these were measured: {', '.join(disturbed)}."


def _is_noisy(results: Results) -> bool:
    return is_noisy(row for row in results.rows if row.get("phase") in {"apply", "load"})


def _between(text: str, marker: str, content: str) -> str:
    """Replace what stands between a marker's begin and end."""
    pattern = rf"(<!-- bench:{marker} -->\n).*?(<!-- /bench:{marker} -->)"
    return re.sub(pattern, lambda found: f"{found[1]}{content}\n{found[2]}", text, flags=re.DOTALL)


def _markdown(table: Table) -> str:
    header, lines = table
    rule = ["---", *("--:" for _ in header[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, rule, *lines])


def _html(
    works: Mapping[str, Results],
    tables: Sequence[tuple[str, Table]],
    titles: Mapping[str, str],
    pictures: Mapping[str, str],
) -> str:
    shown = "".join(
        f'<img alt="{html.escape(title)}" src="data:image/png;base64,{pictures[name]}">\n'
        for name, title in titles.items()
    )
    bodies = "".join(f"<h3>{html.escape(title)}</h3>\n{_html_table(table)}" for title, table in tables)
    who = "".join(
        f"<li><strong>{html.escape(label(name))}</strong> (<code>{name}</code>): {html.escape(about)}</li>\n"
        for name, (_, about) in PLACES.items()
    )
    where = "".join(f"<p>{_emphasis(line.removeprefix('- '))}</p>\n" for line in _machine(works).splitlines())
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Frazil: benchmarks</title>\n'
        f"<style>\n{_STYLE}</style></head><body>\n<h1>Frazil side by side with its peers</h1>\n"
        f"<p>Every number without a note is from a run that ended with the same table as everybody's. "
        f"CPU seconds are those of the process tree; medians.</p>\n<h2>Bars</h2>\n{_html_table(_bar_table(works))}"
        f"<p>{html.escape(_caution(works).strip())}</p>\n"
        f"<h2>Pictures</h2>\n{shown}<h2>Numbers</h2>\n{bodies}<h2>Contenders</h2>\n<ul>\n{who}</ul>\n"
        f"<h2>Machine</h2>\n{where}</body></html>\n"
    )


def _html_table(table: Table) -> str:
    header, lines = table
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in line)}</tr>\n" for line in lines)
    return f"<table>\n<tr>{head}</tr>\n{body}</table>\n"


def _cell(text: str) -> str:
    kind = {"**no**": "miss", "**wrong**": "miss", "yes": "hit", "right": "hit"}.get(text, "")
    return f'<td class="{kind}">{_emphasis(text)}</td>' if kind else f"<td>{_emphasis(text)}</td>"


def _emphasis(text: str) -> str:
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", html.escape(text))


def _number(number: float | None, *, scale: float = 1.0, digits: int = 2) -> str:
    return "" if number is None else f"{number / scale:.{digits}f}"
