"""What a step hands to the next one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from frazil.runner.batch.batch_stats import Measures
    from frazil.runner.batch.driver_batch import DriverBatch
    from frazil.runner.batch.newest import Newest


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """A batch that was appended to bronze.

    Attributes:
        batch: its number.
        rows: its rows of bronze, where the batch is small enough to stay in the driver's memory; else None.
        has_loads: some of its files are a copy of the whole table.
    """

    batch: int
    rows: pa.Table | None
    has_loads: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalized:
    """Batches ``after < batch <= upto`` that were written to silver.

    Attributes:
        after, upto: which batches.
        newest: greatest order and event time of their changes.
        measures: what was measured of their changes; None where nobody did, as of a first load and of a rebuild.
        driver_batch: their rows of silver, where the batch is small enough to stay in the driver's memory; else None.
    """

    after: int
    upto: int
    newest: Newest
    measures: Measures | None = None
    driver_batch: DriverBatch | None = None
