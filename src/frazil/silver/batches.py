"""Filter rows by a range of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.bronze import record as r

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NO_BATCH = 0


def rows_of_batches(rows: DataFrame, after: int, upto: int) -> DataFrame:
    """Keep the rows of batches ``after < batch <= upto``; files of other batches are not opened.

    Args:
        rows: rows with ``_cdc_batch``.
        after: the batch before the first one.
        upto: the last batch.


    The condition is a set of numbers. It includes 0, which no batch has, so that the set never has one element: Spark
    passes sets to generated code by reference, so all batches share one compiled class.
    """
    return rows.where(_among(after, upto))


def other_batches(rows: DataFrame, after: int, upto: int) -> DataFrame:
    """Keep the rows of all other batches than :func:`batches`."""
    return rows.where(f"NOT {_among(after, upto)}")


def _among(after: int, upto: int) -> str:
    return f"{r.BATCH} IN ({', '.join(map(str, (_NO_BATCH, *range(after + 1, upto + 1))))})"
