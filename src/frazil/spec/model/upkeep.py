"""How the lake is kept in shape by ``frazil maintain``."""

from __future__ import annotations

from pydantic import Field

from frazil.spec.model.base import Spec


class Upkeep(Spec):
    """Compaction, snapshot expiry, orphan files and statistics."""

    expire_after_days: float = Field(default=7.0, ge=0, description="Snapshots older than this go.")
    retain_last: int = Field(default=5, ge=1, description="This many snapshots stay whatever their age.")
    orphans_after_days: float = Field(default=3.0, ge=1.0, description="Unreferenced files older than this go.")
    after_run_days: float | None = Field(
        default=None, ge=0, description="A run also maintains tables with snapshots this much older than they may get."
    )
    target_file_mb: int = Field(default=128, ge=1, description="Size compaction aims at.")
    delete_ratio: float = Field(
        default=0.05, gt=0, le=1, description="Files with more than this share of deleted rows are rewritten."
    )
