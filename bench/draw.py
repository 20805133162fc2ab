"""Pictures and pages of the docs, made from bench/results: nothing in them is typed by hand."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl

from bench import page
from bench.cases import WORKS, short
from bench.data import ROOT
from bench.labels import label
from bench.results import RESULTS, Results
from bench.summary import case_of, middle, name_of, standings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    Row = dict[str, Any]
    Rows = Mapping[str, Sequence[Row]]

mpl.use("Agg")

from matplotlib import pyplot as plt

PICTURES: Final = ROOT / "docs" / "benchmarks"

_M = 1_000_000
_OURS, _THEIRS, _LIMIT, _WRONG = "#0b6e99", "#9aa5ab", "#d9a441", "#d8d8d8"
_LINES: Final = {
    "frazil-current": _OURS,
    "frazil-current · apply": "#5db5d6",
    "merge": "#7a5ea8",
    "recipe": "#b5442e",
    "delta-rs": "#5b6770",
    "limit-scan": _LIMIT,
}
"""Who is drawn as a line, always in one color."""


def draw() -> list[Path]:
    """Make all pictures that the results allow, and both pages.

    Returns:
        The files that were written.
    """
    works = {name: Results.open(name) for name in WORKS if (RESULTS / f"{name}.json").is_file()}
    rows = {name: results.rows for name, results in works.items()}
    PICTURES.mkdir(parents=True, exist_ok=True)
    written, pictures = [], dict[str, str]()
    for name, (title, paint) in _PICTURES.items():
        figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
        if paint(axes, rows):
            axes.set_title(title, loc="left", fontsize=11)
            axes.spines[["top", "right"]].set_visible(False)
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=144, metadata={"Software": None})
            (PICTURES / f"{name}.png").write_bytes(buffer.getvalue())
            written.append(PICTURES / f"{name}.png")
            pictures[name] = base64.b64encode(buffer.getvalue()).decode("ascii")
        plt.close(figure)
    titles = {name: title for name, (title, _) in _PICTURES.items() if name in pictures}
    return [*written, *page.write(works, titles, pictures)]


def _everybody(axes: Axes, works: Rows) -> bool:
    """CPU of one batch, a bar for each contender."""
    case = (5 * _M, 50_000, "mixed", 0.0, 9, 1)
    return _bars(axes, works.get("apply", ()), case, "apply")


def _quick(axes: Axes, works: Rows) -> bool:
    return _bars(axes, works.get("quick", ()), (_M, 50_000, "mixed", 0.0, 9, 1), "apply")


def _history(axes: Axes, works: Rows) -> bool:
    return _bars(axes, works.get("history", ()), (5 * _M, 50_000, "mixed", 0.0, 9, 1), "apply")


def _capture(axes: Axes, works: Rows) -> bool:
    return _bars(axes, works.get("capture", ()), (200_000, 50_000, "mixed", 0.0, 9, 1), "apply")


def _load(axes: Axes, works: Rows) -> bool:
    return _bars(axes, works.get("load", ()), (5 * _M, 0, "mixed", 0.0, 9, 1), "load")


def _bars(axes: Axes, rows: Sequence[Row], case: tuple[Any, ...], phase: str) -> bool:
    shown = [one for one in standings(rows, case, phase) if one.cpu_s is not None][::-1]
    for one in shown:
        color = _WRONG if one.right is False else _LIMIT if one.contender.startswith("limit") else _THEIRS
        color = _OURS if one.contender.startswith("frazil") and one.right is not False else color
        bar = axes.barh(label(one.contender), one.cpu_s or 0.0, color=color, hatch="//" if one.right is False else None)
        wrong = ", wrong table" if one.right is False else ""
        wall = "" if one.wall_s is None else f", {one.wall_s:.2f} s"
        axes.bar_label(bar, [f" {one.cpu_s:.2f} CPU s{wall}{wrong}"], fontsize=8)
    axes.set_xlabel("CPU seconds of the process tree (less is better)")
    axes.margins(x=0.28)
    return bool(shown)


def _by_size(axes: Axes, works: Rows) -> bool:
    """CPU of a batch of 10 k as the table grows; mixed keys whole lines, recent keys broken ones."""
    return _lines(axes, works.get("apply", ()), "rows", lambda case: case[1] == 10_000)


def _by_batch(axes: Axes, works: Rows) -> bool:
    """CPU of a batch on 5 M rows as the batch grows."""
    return _lines(axes, works.get("apply", ()), "changes", lambda case: case[:3:2] == (5 * _M, "mixed"))


def _lines(axes: Axes, rows: Sequence[Row], grows: str, chosen: Callable[[tuple[Any, ...]], bool]) -> bool:
    clock = [row for row in rows if row["phase"] == "apply" and row["right"] is not False]
    clock = [row for row in clock if case_of(row)[3:] == (0.0, 9, 1) and chosen(case_of(row))]
    drawn = set[int]()
    for keys, style in (("mixed", "-"), ("recent", "--")):
        for name, color in _LINES.items():
            mine = [row for row in clock if name_of(row) == name and row["keys"] == keys]
            sizes = sorted({row[grows] for row in mine})
            if len(sizes) > 1:
                heights = [middle((row for row in mine if row[grows] == size), "cpu_s") or 0.0 for size in sizes]
                suffix = "" if keys == "mixed" else f", {keys} keys"
                axes.plot(sizes, heights, style, marker="o", color=color, label=f"{label(name)}{suffix}")
                drawn |= set(sizes)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sorted(drawn), [short(size) for size in sorted(drawn)])
    axes.minorticks_off()
    low, high = axes.get_ylim()
    axes.set_yticks([step for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200) if low <= step <= high])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel({"rows": "rows of the table", "changes": "changes of the batch"}[grows])
    axes.set_ylabel("CPU seconds of a batch")
    if drawn:
        axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return bool(drawn)


def _soak(axes: Axes, works: Rows) -> bool:
    """CPU of each of many batches in a row."""
    clock = [row for row in works.get("soak", ()) if row["phase"] == "apply" and "part" not in row]
    for name in dict.fromkeys(map(name_of, clock)):
        mine = sorted((row for row in clock if name_of(row) == name), key=lambda row: row["batch"])
        axes.plot([row["batch"] for row in mine], [row["cpu_s"] for row in mine], label=label(name), linewidth=1)
    axes.set_xlabel("batch")
    axes.set_ylabel("CPU seconds")
    axes.set_ylim(bottom=0)
    if clock:
        axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return bool(clock)


_PICTURES: Final[dict[str, tuple[str, Callable[[Axes, Rows], bool]]]] = {
    "everybody": ("One batch of 50 k changes on 5 M rows", _everybody),
    "by-size": ("A batch of 10 k changes as the table grows", _by_size),
    "by-batch": ("Batches of all sizes on 5 M rows", _by_batch),
    "history": ("History: one batch of 50 k changes on 5 M rows", _history),
    "load": ("First load of 5 M rows, JVM with 2 GiB", _load),
    "capture": ("From PostgreSQL to the current table: 50 k changes on 200 k rows", _capture),
    "soak": ("100 batches in a row", _soak),
    "quick": ("make bench-quick: 50 k changes on 1 M rows", _quick),
}
