"""The documentation of Frazil, as a site that works from disk and under ``/docs`` of ``frazil ui``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SITE: Final = Path(__file__).parent / "site"
"""Folder of the built pages."""
