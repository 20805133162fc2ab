"""Erase subjects from a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.api.declaring import load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from frazil.api.declaring import Declaration
    from frazil.engine.erase_report import EraseReport, Wanted


def erase_preview(
    declaration: Declaration,
    table: str,
    *,
    keys: Sequence[str] = (),
    where: str | None = None,
    spark: SparkSession | None = None,
) -> EraseReport:
    """Return what :func:`erase` would remove, table by table; nothing is changed. Its arguments and errors."""
    from frazil.engine.erase import preview
    from frazil.lake.session import lake_session

    pipeline = load(declaration)
    return preview(pipeline, lake_session(spark, pipeline), _wanted(table, keys, where))


def erase(
    declaration: Declaration,
    table: str,
    *,
    keys: Sequence[str] = (),
    where: str | None = None,
    spark: SparkSession | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> EraseReport:
    """Remove subjects from every layer, old snapshots and all files, and let nothing bring them back.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts.
        keys: a text each: the value of the key, or, of several columns, a JSON object or array.
        where: a condition in Spark's SQL over the columns of silver: the keys of all changes that fulfil it.
        spark: a session with the lake; left out, one is started.
        tell: called with a short text when a step begins.

    Returns:
        What was removed, and the proof.

    Raises:
        EraseError: a key is no key of the table, or no key and no condition was given.
        SqlError: Spark refuses the condition.
        BusyError: a run holds the pipeline, for a minute.
        OccurrencesLeftError: a key is still found in a file of the lake; all else was done.
    """
    from frazil.engine.erase import erase as work
    from frazil.lake.session import lake_session

    pipeline = load(declaration)
    return work(pipeline, lake_session(spark, pipeline), _wanted(table, keys, where), tell=tell)


def unblock(
    declaration: Declaration,
    table: str,
    *,
    keys: Sequence[str] = (),
    where: str | None = None,
    spark: SparkSession | None = None,
) -> int:
    """Let erased keys come again, and return how many that are; arguments and errors are those of :func:`erase`.

    What was erased stays erased. Records that arrive from now on are taken.
    """
    from frazil.engine.erase import unblock as work
    from frazil.lake.session import lake_session

    pipeline = load(declaration)
    return work(pipeline, lake_session(spark, pipeline), _wanted(table, keys, where))


def _wanted(table: str, keys: Sequence[str], where: str | None) -> Wanted:
    from frazil.engine.erase_report import Wanted

    return Wanted(table=table, keys=tuple(keys), where=where)
