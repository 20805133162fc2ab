"""Settings of generated files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Keys: TypeAlias = Literal["mixed", "recent", "uniform", "hot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFiles:
    """Settings of :func:`frazil.testing.generate.generate`.

    Attributes:
        rows: rows of the full load, with ids from 1; at least 1.
        batches: number of change files.
        changes: records of each change file.
        seed: any number from 0.
        keys: choice of the keys that are updated and deleted. ``uniform``: any; ``recent``: ids near the newest;
            ``hot``: one in a thousand, at most 1000; ``mixed``: 20 % uniform, 60 % recent, 20 % hot.
        late: share of changes with an ``updated_at`` before the begin of their batch.
        duplicates: share of change records that repeat an earlier one of their file exactly.
        parts: number of full load files.
        nasty: put a bad record of every sort into each change file, on top of ``changes``, and line ends,
            blanks and the word NULL into the notes.
    """

    rows: int = 10_000
    batches: int = 3
    changes: int = 1_000
    seed: int = 1
    keys: Keys = "mixed"
    late: float = 0.0
    duplicates: float = 0.03
    parts: int = 1
    nasty: bool = False
