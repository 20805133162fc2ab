"""State and history of a table, from its changes."""

from __future__ import annotations
