"""Numbers and sizes as text for people."""

from __future__ import annotations

_STEP = 1000.0


def counted(number: int, one: str, many: str | None = None) -> str:
    """Write a number with its noun, such as ``1 file`` or ``12,000 files``.

    Args:
        number: the number.
        one: the noun in the singular.
        many: an irregular plural; None adds an s.
    """
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def sized(size_bytes: float) -> str:
    """Write a number of bytes in a suitable unit: ``0 B``, ``12.0 kB``, ``3.4 MB``."""
    size, units = size_bytes, ["B", "kB", "MB", "GB", "TB"]
    while round(size, 1) >= _STEP and len(units) > 1:
        size /= _STEP
        del units[0]
    return f"{size:.0f} B" if units[0] == "B" else f"{size:.1f} {units[0]}"
