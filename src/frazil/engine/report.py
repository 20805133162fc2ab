"""What a run did, in numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True, kw_only=True)
class MartReport:
    """What a batch did to one mart.

    Attributes:
        mart: name of the table.
        batch: batch of bronze it stands at now.
        rows: rows written.
        inserted, updated, deleted: keys that came, changed and went (history: keys with new versions count as
            updated, new keys as inserted, keys whose life ended as deleted). On a rebuild all rows count as inserted.
        late: changes older than what their key already had.
        strategy: how the batch was applied: ``load``, or one of the ways of :mod:`frazil.plan.way`.
        compacted: whether small files and deletes were merged after it.
        seconds: wall time.
    """

    mart: str
    batch: int = 0
    rows: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    late: int = 0
    strategy: str = ""
    compacted: bool = False
    seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class TableReport:
    """What a run did for one source table."""

    table: str
    batch: int = 0
    files: int = 0
    duplicates: int = 0
    deferred: int = 0
    size_bytes: int = 0
    rows: int = 0
    bad: int = 0
    headers: int = 0
    foreign: int = 0
    changes: int = 0
    quarantined: int = 0
    marts: list[MartReport] = field(default_factory=list)
    jobs: int = 0
    seconds: float = 0.0
    error: str | None = None


@dataclass(slots=True, kw_only=True)
class RunReport:
    """What a run did."""

    pipeline: str
    tables: list[TableReport] = field(default_factory=list)
    gold: list[str] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0

    def as_values(self) -> dict[str, Any]:
        """Give the report as plain values, for JSON."""
        return asdict(self)
