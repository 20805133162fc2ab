"""What maintenance did, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.cli.grid import grid
from frazil.spec.amount import sized

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frazil.runner.report.report import MaintainReport

_NAMES = ("table", "files", "size", "manifests", "rewritten", "snapshots expired", "orphans", "seconds")


def show_maintained(reports: Iterable[MaintainReport]) -> None:
    """Print a line a table: how it was and how it is, and what that took."""
    grid(None, _NAMES, map(_row, reports), right={*_NAMES} - {"table"})


def _row(report: MaintainReport) -> list[str | int]:
    return [
        report.table,
        f"{report.files_before} → {report.files_after}",
        f"{sized(report.size_before_bytes)} → {sized(report.size_after_bytes)}",
        f"{report.manifests_before} → {report.manifests_after}",
        sized(report.rewritten_bytes),
        report.snapshots_expired,
        report.orphans_removed,
        f"{report.seconds:.1f}",
    ]
