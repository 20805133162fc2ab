"""Lag of captures behind their servers, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.spec.amount import counted

if TYPE_CHECKING:
    from frazil.serve.lag import CaptureLag
    from frazil.sources.capture import Landed


def landed_line(landed: Landed) -> str:
    """Return the result of one poll of a capture as text, with its lag behind the server."""
    parts = [f"{counted(landed.records, 'change')} landed in {counted(landed.files, 'file')}"]
    if landed.behind_bytes is not None:
        parts.append(f"{landed.behind_bytes:,} bytes behind")
    if landed.behind_seconds is not None:
        parts.append(f"{landed.behind_seconds:.1f} s behind")
    return ", ".join(parts)


def is_behind(lag: CaptureLag) -> bool:
    """Return whether changes at the server are not landed yet, or the capture has not begun."""
    return not lag.begun or bool(lag.behind_bytes or lag.behind_seconds)


def lag_line(lag: CaptureLag) -> str:
    """Return the lag of the landing files behind a server as text."""
    if not lag.begun:
        return f"{lag.name}: not captured yet"
    if not is_behind(lag):
        return f"{lag.name}: everything is landed"
    parts = [] if lag.behind_bytes is None else [f"{lag.behind_bytes:,} bytes"]
    if lag.behind_seconds is not None:
        parts.append(f"up to {lag.behind_seconds:.1f} s")
    return f"{lag.name}: {', '.join(parts)} behind"
