"""Current state and history of a table, computed from its changes."""

from __future__ import annotations
