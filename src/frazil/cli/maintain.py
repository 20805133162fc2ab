"""``frazil maintain``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frazil import api
from frazil.cli.console import error_exit, print_json
from frazil.cli.options import AsJson, Select, Verbose, Where
from frazil.cli.render.grid import grid
from frazil.spec.amount import sized

if TYPE_CHECKING:
    from frazil.engine.maintain import MaintainReport

_NAMES = (
    "table",
    "files before",
    "files after",
    "size before",
    "size after",
    "snapshots expired",
    "orphans",
    "seconds",
)


def maintain(path: Where = Path(), *, select: Select = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Compact, expire snapshots, remove orphan files, compute statistics; bookmarks always stay."""
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        api.selection(pipeline, select or ())  # a wrong word shows before Java starts
        done = api.maintain(pipeline, spark=api.session(pipeline, verbose=verbose), select=select or ())
        if as_json:
            print_json([asdict(report) for report in done])
        else:
            grid(None, _NAMES, map(_row, done), right={*_NAMES} - {"table"})


def _row(report: MaintainReport) -> list[Any]:
    return [
        report.table,
        report.files_before,
        report.files_after,
        sized(report.size_before_bytes),
        sized(report.size_after_bytes),
        report.snapshots_expired,
        report.orphans_removed,
        f"{report.seconds:.1f}",
    ]
