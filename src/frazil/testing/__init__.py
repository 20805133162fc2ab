"""For users' own tests: the oracle in plain Python, a generator of changes, drawn tables."""

from __future__ import annotations
