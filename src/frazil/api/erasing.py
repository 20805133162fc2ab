"""Erase keys from a lake, and replace values of columns with ``pii``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.api.declaring import load, needs_spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from frazil.api.declaring import Declaration
    from frazil.erase.report import EraseReport, TreatReport, Wanted
    from frazil.spec import Pipeline
    from frazil.spec.sql.select import Words


def erase_keys(declaration: Declaration, table: str, keys: Words) -> tuple[tuple[str, ...], ...]:
    """Return the texts of each key's columns, in the order of the table's ``keys``; start no Spark.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts.
        keys: as for :func:`erase`.

    Raises:
        EraseError: a key has another form.
        DeclarationError: the pipeline has no such table.
    """
    from frazil.erase.keys import parse_key
    from frazil.spec.sql.select import source_table, words

    source = source_table(load(declaration), table)
    return tuple(parse_key(source, key) for key in words(keys))


@needs_spark
def erase_preview(
    declaration: Declaration,
    table: str,
    *,
    keys: Words = (),
    where: str | None = None,
    spark: SparkSession | None = None,
) -> EraseReport:
    """Return what :func:`erase` would remove, table by table; change nothing.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts.
        keys: as for :func:`erase`.
        where: as for :func:`erase`.
        spark: as for :func:`erase`.
    """
    from frazil.erase.erase import preview
    from frazil.spark.session import lake_session

    pipeline = load(declaration)
    wanted = _wanted(pipeline, table, keys, where)
    return preview(pipeline, lake_session(spark, pipeline), wanted)


@needs_spark
def erase(
    declaration: Declaration,
    table: str,
    *,
    keys: Words = (),
    where: str | None = None,
    spark: SparkSession | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> EraseReport:
    """Erase keys from every layer, old snapshot and file, and block their records from then on.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts.
        keys: the keys as text; a key of several columns is a JSON object or array.
        where: a condition in Spark's SQL over the columns of silver; selects the keys of all changes that meet it.
        spark: a session with the lake; with None, a session is started.
        tell: receives a short text when a step begins.

    Returns:
        The removed rows and files, and the proof.

    Raises:
        EraseError: a key does not fit the table, or neither keys nor a condition are given.
        SqlError: Spark refuses the condition.
        BusyError: a run holds the pipeline for more than a minute.
        OccurrencesLeftError: a file of the lake still has a key; everything else is erased.
    """
    from frazil.erase.erase import erase as work
    from frazil.spark.session import lake_session

    pipeline = load(declaration)
    wanted = _wanted(pipeline, table, keys, where)
    return work(pipeline, lake_session(spark, pipeline), wanted, tell=tell)


@needs_spark
def unblock(
    declaration: Declaration,
    table: str,
    *,
    keys: Words = (),
    where: str | None = None,
    spark: SparkSession | None = None,
) -> int:
    """Accept records of erased keys again, and return the number of these keys.

    Erased rows stay erased; only records that arrive from now on are ingested.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts.
        keys: as for :func:`erase`.
        where: as for :func:`erase`.
        spark: as for :func:`erase`.
    """
    from frazil.erase.erase import unblock as work
    from frazil.spark.session import lake_session

    pipeline = load(declaration)
    wanted = _wanted(pipeline, table, keys, where)
    return work(pipeline, lake_session(spark, pipeline), wanted)


@needs_spark
def treat_preview(declaration: Declaration, table: str, *, spark: SparkSession | None = None) -> TreatReport:
    """Return what :func:`treat` would replace, table by table; change nothing.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts.
        spark: as for :func:`treat`.
    """
    from frazil.erase.treat import treat_preview as look
    from frazil.spark.session import lake_session

    pipeline = load(declaration)
    session = lake_session(spark, pipeline)
    _refuse_leftovers(pipeline, table)
    return look(pipeline, session, table)


@needs_spark
def treat(
    declaration: Declaration,
    table: str,
    *,
    spark: SparkSession | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> TreatReport:
    """Replace values in the lake of columns that got ``pii`` after their files were ingested.

    Bronze is rewritten; silver, marts and aggregates are rebuilt from it; old snapshots and files are removed.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts.
        spark: a session with the lake; with None, a session is started.
        tell: receives a short text when a step begins.

    Returns:
        The replaced rows and files, and the proof.

    Raises:
        EraseError: the values are missing, or cannot be replaced.
        SourceChangedError: the declaration changes the ``pii`` of values that were replaced before.
        PiiKeyError: the key is too short, or differs from the key of the lake's values.
        BusyError: a run holds the pipeline for more than a minute.
        ValuesLeftError: another writer changed the tables meanwhile; everything else is replaced.
    """
    from frazil.erase.treat import treat as work
    from frazil.spark.session import lake_session

    pipeline = load(declaration)
    session = lake_session(spark, pipeline)
    _refuse_leftovers(pipeline, table)
    return work(pipeline, session, table, tell=tell)


def _refuse_leftovers(pipeline: Pipeline, table: str) -> None:
    """Refuse while leftover tables exist: they may hold the values, and no run rebuilds them."""
    from frazil.erase.keys import EraseError
    from frazil.serve.leftovers import leftovers
    from frazil.spec.sql.select import source_table

    made_of = source_table(pipeline, table).name
    left = [one.full_name for one in leftovers(pipeline) if one.role == "gold" or one.source == made_of]
    if left:
        raise EraseError(
            f"{', '.join(left)}: no longer declared, and may hold the values to replace",
            hint=f"remove it first: frazil drop {' '.join(f'--select {name}' for name in left)}; or declare it again",
        )


def _wanted(pipeline: Pipeline, table: str, keys: Words, where: str | None) -> Wanted:
    from frazil.erase.report import Wanted
    from frazil.spec.sql.select import words

    erase_keys(pipeline, table, keys)
    return Wanted(table=table, keys=words(keys), where=where)
