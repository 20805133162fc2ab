"""Erase subjects from a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.api.declaring import load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from frazil.api.declaring import Declaration
    from frazil.erase.report import EraseReport, TreatReport, Wanted
    from frazil.spec import Pipeline


def erase_preview(
    declaration: Declaration,
    table: str,
    *,
    keys: Sequence[str] = (),
    where: str | None = None,
    spark: SparkSession | None = None,
) -> EraseReport:
    """Return what :func:`erase` would remove, table by table; nothing is changed. Its arguments and errors."""
    from frazil.erase.erase import preview
    from frazil.spark.session import lake_session

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
    from frazil.erase.erase import erase as work
    from frazil.spark.session import lake_session

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
    from frazil.erase.erase import unblock as work
    from frazil.spark.session import lake_session

    pipeline = load(declaration)
    return work(pipeline, lake_session(spark, pipeline), _wanted(table, keys, where))


def treat_preview(declaration: Declaration, table: str, *, spark: SparkSession | None = None) -> TreatReport:
    """Return what :func:`treat` would do, table by table; nothing is changed. Its arguments and errors."""
    from frazil.erase.treat import treat_preview as look
    from frazil.spark.session import lake_session

    pipeline = load(declaration)
    session = lake_session(spark, pipeline)
    _refuse_leftovers(pipeline, table)
    return look(pipeline, session, table)


def treat(
    declaration: Declaration,
    table: str,
    *,
    spark: SparkSession | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> TreatReport:
    """Replace what the lake holds of columns that were given ``pii`` after their files were read.

    Bronze is written again, silver, marts and aggregates are made from it, and old snapshots and files are removed.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts.
        spark: a session with the lake; left out, one is started.
        tell: called with a short text when a step begins.

    Returns:
        What was done, and the proof.

    Raises:
        EraseError: there is nothing to replace, or it cannot be.
        SourceChangedError: the declaration treats otherwise what was treated before.
        PiiKeyError: the key is too short, or another than the lake's values were made with.
        BusyError: a run holds the pipeline, for a minute.
        ValuesLeftError: something else wrote the tables meanwhile; all else was done.
    """
    from frazil.erase.treat import treat as work
    from frazil.spark.session import lake_session

    pipeline = load(declaration)
    session = lake_session(spark, pipeline)
    _refuse_leftovers(pipeline, table)
    return work(pipeline, session, table, tell=tell)


def _refuse_leftovers(pipeline: Pipeline, table: str) -> None:
    """Refuse while tables of earlier declarations are there: they may hold the values, and nothing makes them again."""
    from frazil.erase.subjects import EraseError
    from frazil.serve.leftovers import leftovers
    from frazil.spec.sql.select import source_table

    made_of = source_table(pipeline, table).name
    left = [one.full_name for one in leftovers(pipeline) if one.role == "gold" or one.source == made_of]
    if left:
        raise EraseError(
            f"{', '.join(left)}: not declared any more, and may hold the values that are to be replaced",
            hint=f"remove it first: frazil drop {' '.join(f'--select {name}' for name in left)}; or declare it again",
        )


def _wanted(table: str, keys: Sequence[str], where: str | None) -> Wanted:
    from frazil.erase.report import Wanted

    return Wanted(table=table, keys=tuple(keys), where=where)
