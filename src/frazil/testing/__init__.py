"""For users' own tests: the oracle in plain Python, random changes, drawn tables.

- ``oracle``: the laws in code, what the tables must hold given the changes;
- ``changes``: small nasty streams of one table, as files, deliveries and oracle changes;
- ``draw``: tables drawn with bars;
- ``generate``: change files of any size; imported on its own, for it needs NumPy and PyArrow;
- ``postgres``: throw-away PostgreSQL servers;
- ``s3``: throw-away S3 servers.
"""

from __future__ import annotations

from frazil.testing.changes import (
    COLUMNS,
    as_files,
    csv_field,
    deliveries,
    oracle_changes,
    random_history,
    write_csv,
)
from frazil.testing.draw import draw, parse
from frazil.testing.oracle import Change, Snapshot, check_history, current, handed_over, history, soft

__all__ = [
    "COLUMNS",
    "Change",
    "Snapshot",
    "as_files",
    "check_history",
    "csv_field",
    "current",
    "deliveries",
    "draw",
    "handed_over",
    "history",
    "oracle_changes",
    "parse",
    "random_history",
    "soft",
    "write_csv",
]
