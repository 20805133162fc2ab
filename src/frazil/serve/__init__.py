"""Reads the lake without a JVM: catalog and metadata as files, rows by DuckDB.

Nothing here writes to the lake. ``tables`` finds the tables; ``query``, ``status``, ``key`` and ``check`` answer
questions about them; ``query.plain`` writes the answers as JSON.
"""

from __future__ import annotations
