"""Mark points in a lake's history, and go back to them: cut, rollback."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from frazil.api.declaring import load, needs_spark
from frazil.catalog.lock import TURN_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.api.declaring import Declaration
    from frazil.serve.cuts import Cut, Rollback


@needs_spark
def cut(
    declaration: Declaration, name: str, *, spark: SparkSession | None = None, wait_seconds: float = TURN_SECONDS
) -> Cut:
    """Mark all marts and aggregates at one consistent point, under a name that queries accept as ``as_of``.

    Repeat the call to finish a cut that was killed; this works as long as no table has changed since.

    Args:
        declaration: a pipeline, or the path of its declaration.
        name: name of the cut: a letter, then letters, digits, ``_``, ``.`` and ``-``.
        spark: a session with the lake; with None, a session is started.
        wait_seconds: how long to wait for a run to end.

    Returns:
        The cut.

    Raises:
        CutNameError: the name is not valid.
        CutExistsError: a cut of this name exists at another point.
        NotLevelError: the tables are not at one point of their sources; a run brings them there.
        BusyError: a run holds the pipeline for longer than ``wait_seconds``.
    """
    from frazil.past import cut as mark
    from frazil.past import verify_cut_name
    from frazil.serve.cuts import level_heads
    from frazil.spark.session import lake_session

    pipeline = load(declaration)
    verify_cut_name(name)
    heads = partial(level_heads, pipeline)
    mark(pipeline, lake_session(spark, pipeline, short=True), name, heads, wait_seconds=wait_seconds)
    return next(one for one in cuts(pipeline) if one.name == name)


def cuts(declaration: Declaration) -> tuple[Cut, ...]:
    """Return all cuts by name; starts no JVM.

    Raises:
        NoLakeError: no table of the lake exists.
    """
    from frazil.serve.cuts import cuts as look

    return tuple(look(load(declaration)))


@needs_spark
def drop_cut(declaration: Declaration, name: str, *, spark: SparkSession | None = None) -> Cut:
    """Remove a cut, and return it. Snapshots that only the cut kept can then expire.

    Args:
        declaration: a pipeline, or the path of its declaration.
        name: name of the cut.
        spark: a session with the lake; with None, a session is started.

    Raises:
        PointError: the cut does not exist.
        BusyError: a run holds the pipeline for more than a minute.
    """
    from frazil.past import drop_cut as remove
    from frazil.serve.cuts import find_cut
    from frazil.spark.session import lake_session
    from frazil.spec import CATALOG

    pipeline = load(declaration)
    found = find_cut(pipeline, name)
    paths = [(CATALOG, *table.split(".", 1)) for table in found.tables]
    remove(pipeline, lake_session(spark, pipeline, short=True), name, paths)
    return found


def rollback_plan(declaration: Declaration, table: str, to: str) -> Rollback:
    """Return the plan of a rollback, see :func:`frazil.serve.cuts.rollback_of`; starts no JVM, changes nothing.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts.
        to: a time, a snapshot, a cut or a batch.

    Raises:
        UnknownSelectionError: the source table does not exist.
        PointError: ``to`` is not a point, or a mart has no snapshot of that point.
    """
    from frazil.serve.cuts import rollback_of

    return rollback_of(load(declaration), table, to)


@needs_spark
def rollback(declaration: Declaration, plan: Rollback, *, spark: SparkSession | None = None) -> None:
    """Set marts and aggregates back to older snapshots, rows and bookmark together; the next run catches up.

    Args:
        declaration: a pipeline, or the path of its declaration.
        plan: the plan from :func:`rollback_plan`.
        spark: a session with the lake; with None, a session is started.

    Raises:
        BusyError: a run holds the pipeline for more than a minute, or a table has changed since the plan was made.
    """
    from frazil.past import rollback as move
    from frazil.spark.session import lake_session

    pipeline = load(declaration)
    moves = [(one.path, one.snapshot, one.to_snapshot) for one in plan.moves]
    move(pipeline, lake_session(spark, pipeline, short=True), moves, plan.stale)
