"""Results of the steps ingest and normalize."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from frazil.runner.batch.batch_stats import Measures, Newest
    from frazil.runner.batch.driver_batch import DriverBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """A batch that was appended to bronze.

    Attributes:
        batch: number of the batch.
        rows: its rows of bronze if the batch is small enough for the driver's memory; else None.
        has_loads: some files are a full load of the table.
    """

    batch: int
    rows: pa.Table | None
    has_loads: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalized:
    """Batches ``after < batch <= upto`` that were written to silver.

    Attributes:
        after, upto: bounds of the batches.
        newest: greatest order and event time of their changes.
        measures: measures of their changes; None for a first load or a rebuild.
        driver_batch: their rows of silver if the batch is small enough for the driver's memory; else None.
    """

    after: int
    upto: int
    newest: Newest
    measures: Measures | None = None
    driver_batch: DriverBatch | None = None
