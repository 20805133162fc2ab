"""What a run will do, as values; nothing is done here."""

from __future__ import annotations
