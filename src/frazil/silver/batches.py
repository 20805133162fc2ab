"""Read the batches that a step has to take on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.bronze import record as r

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NO_BATCH = 0


def batches(rows: DataFrame, after: int, upto: int) -> DataFrame:
    """Keep the rows of batches ``after < batch <= upto``; files of other batches are not opened.

    The numbers are given as a set, with one that no batch has so that it never is a single number: Spark
    passes a set to its generated code by reference, so the code is the same for every batch and stays compiled.
    """
    return rows.where(_among(after, upto))


def other_batches(rows: DataFrame, after: int, upto: int) -> DataFrame:
    """Keep the rows that :func:`batches` leaves out."""
    return rows.where(f"NOT {_among(after, upto)}")


def _among(after: int, upto: int) -> str:
    return f"{r.BATCH} IN ({', '.join(map(str, (_NO_BATCH, *range(after + 1, upto + 1))))})"
