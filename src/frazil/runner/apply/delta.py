"""The delta of one mart: the changes of one batch to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

from frazil.marts import late

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from frazil.runner.apply.mart_batch import MartBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaCounts:
    """Number of keys of a batch by verdict; ``late`` counts changes.

    Attributes:
        late, inserted, updated, deleted: as :class:`frazil.runner.report.report.MartReport` defines them.
        recompute: keys whose rows are computed from all their changes.
        replaced: keys that lose rows of the mart.
        deletes_without_values: deleted keys whose delete came without the row's values.
    """

    late: int
    recompute: int
    replaced: int
    inserted: int
    updated: int
    deleted: int
    deletes_without_values: int

    @classmethod
    def of(cls, kinds: pa.Table, keys: str) -> Self:
        """Return the counts from the number of keys of each kind.

        Args:
            kinds: the columns ``KINDS`` of :mod:`frazil.marts.late`, ``_cdc_late`` summed up, and
            keys: the column with the number of keys.
        """
        of: Counter[str] = Counter()
        for kind in kinds.to_pylist():
            number, recompute, superseded = kind[keys], kind[late.RECOMPUTE], kind[late.SUPERSEDED]
            is_there, lived = kind[late.IN_TARGET], kind[late.LIVED]
            lives = lived if superseded else kind[late.IS_LIVE]  # late changes do not decide whether a key lives
            without_values = not kind[late.IS_LIVE] and kind[late.DELETE_ONLY]
            of["late"] += kind[late.LATE]
            of["recompute"] += number * recompute
            of["replaced"] += number * (recompute or (is_there and not superseded))
            of["inserted"] += number * (lives and not lived)
            of["updated"] += number * (lives and lived and not superseded)
            of["deleted"] += number * (lived and not lives)
            of["deletes_without_values"] += number * (without_values and is_there and not recompute)
        return cls(**{field.name: of[field.name] for field in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionDelta:
    """A delta in the driver's memory.

    Attributes:
        counts: counts of the keys by verdict.
        rows: Arrow table of the new rows: the mart's columns and others.
        positions: Arrow table of the positions of replaced rows, see :mod:`frazil.lake.commit`.
        keys: Arrow table of their keys.
    """

    counts: DeltaCounts
    rows: pa.Table
    positions: pa.Table
    keys: pa.Table


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDelta:
    """A delta that Spark computes while writing it.

    Attributes:
        counts: counts of the keys by verdict.
        rows: the new rows, with the mart's columns.
        keys: the keys of replaced rows, with ``_cdc_recompute``: see :func:`frazil.marts.late.replaced_sql`.
    """

    counts: DeltaCounts
    rows: DataFrame
    keys: DataFrame


MartDelta: TypeAlias = PositionDelta | KeyDelta


class ApplyBackend(Protocol):
    """Computes the delta of one mart. It is called once per batch and mart, reads tables and writes none.

    For the same batch all backends return the same counts, and deltas that lead to the same rows. A backend returns
    None if its result would not be exact; :func:`frazil.runner.apply.spark.spark_delta` accepts every batch.
    ``tests/marts/test_apply_backends.py`` compares all backends with the oracle.
    """

    def __call__(self, batch: MartBatch) -> MartDelta | None:
        """Return the delta of a batch; None if another backend must compute it."""
        ...
