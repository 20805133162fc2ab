"""The right edge: session, catalog, commits, maintenance."""

from __future__ import annotations
