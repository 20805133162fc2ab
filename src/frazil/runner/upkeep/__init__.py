"""Maintain tables, after a run or on demand: compact, expire snapshots, remove orphan files."""
