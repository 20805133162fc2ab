"""Files that runs leave below the warehouse: written once, read by people, tools and ``frazil status``.

No table and no run depends on them. They are on local disks only; another kind of store would be another pair of
:func:`write_run_file` and :func:`run_files`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from frazil.spec.location import warehouse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from frazil.spec import Pipeline

KEPT_RUNS: Final = 1_000
"""So many of the newest runs keep their files, at least."""
RUNS_LET_GO: Final = 100
"""Older ones go so many at a time: looking for them takes longer than a run's own files."""

_ENDINGS: Final = (".start.json", ".end.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """What one run left: None for a file that is missing or cannot be read."""

    start: Mapping[str, Any] | None
    end: Mapping[str, Any] | None


def runs_folder(pipeline: Pipeline) -> Path | None:
    """Path of the folder of the files, whether it exists or not; None where the warehouse is no local folder."""
    folder = warehouse(pipeline).path
    return None if folder is None else folder / ".frazil" / "runs"


def write_run_file(pipeline: Pipeline, run: str, part: str, content: Mapping[str, Any]) -> None:
    """Write one of the two files of a run, whole or not at all, and let go of runs that are too old to keep.

    Args:
        pipeline: the declaration.
        run: name of the run; names sort by time.
        part: ``start`` or ``end``.
        content: plain values.

    Raises:
        OSError: the file cannot be written.

    Cost: a few system calls, and at the end of a run a listing of the folder.
    """
    folder = runs_folder(pipeline)
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{run}.{part}.json"
    aside = folder / f".{name}.tmp"
    try:
        aside.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
        aside.rename(folder / name)
    finally:
        aside.unlink(missing_ok=True)
    if part == "end":
        _let_go(folder)


def run_files(pipeline: Pipeline) -> Iterator[RunFiles]:
    """Read what runs left, the newest first. What cannot be read is left out."""
    folder = runs_folder(pipeline)
    if folder is None:
        return
    for name in _names(folder):
        start, end = (_read(folder / f"{name}{ending}") for ending in _ENDINGS)
        if start or end:
            yield RunFiles(start=start, end=end)


def _let_go(folder: Path) -> None:
    if len(os.listdir(folder)) <= len(_ENDINGS) * (KEPT_RUNS + RUNS_LET_GO):  # noqa: PTH208 - as below
        return
    for old in _names(folder)[KEPT_RUNS:]:
        for ending in _ENDINGS:
            (folder / f"{old}{ending}").unlink(missing_ok=True)


def _names(folder: Path) -> list[str]:
    """Names of the runs that have files, the newest first."""
    try:
        found = os.listdir(folder)  # noqa: PTH208 - a thousand Path objects are not needed
    except OSError:
        return []
    runs = {name.removesuffix(end) for name in found for end in _ENDINGS if name.endswith(end) and name[0] != "."}
    return sorted(runs, reverse=True)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
