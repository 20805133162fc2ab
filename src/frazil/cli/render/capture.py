"""What a capture landed, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.spec.amount import counted

if TYPE_CHECKING:
    from frazil.sources.capture import Landed


def landed_line(landed: Landed) -> str:
    """Return what a turn of a capture brought, and how far behind its server it is."""
    parts = [f"{counted(landed.records, 'change')} landed in {counted(landed.files, 'file')}"]
    if landed.behind_bytes is not None:
        parts.append(f"{landed.behind_bytes:,} bytes behind")
    if landed.behind_seconds is not None:
        parts.append(f"{landed.behind_seconds:.1f} s behind")
    return ", ".join(parts)
