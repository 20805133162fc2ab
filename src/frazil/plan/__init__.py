"""Plans of runs as values; this room executes nothing."""

from __future__ import annotations
