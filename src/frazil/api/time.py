"""Mark points of a lake's past, and go back to them: cut, rollback."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from frazil.api.declaring import load
from frazil.catalog.lock import TURN_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.api.declaring import Declaration
    from frazil.serve.cuts import Cut
    from frazil.serve.rollback import Rollback


def cut(
    declaration: Declaration, name: str, *, spark: SparkSession | None = None, wait_seconds: float = TURN_SECONDS
) -> Cut:
    """Mark all marts and aggregates at one point, readable as one by its name.

    A cut that was killed is ended by the same call, as long as no table has moved since.

    Args:
        declaration: a pipeline, or the path of its declaration.
        name: of the cut: a letter, then letters, digits, ``_``, ``.`` and ``-``.
        spark: a session with the lake; left out, one is started.
        wait_seconds: how long to wait for a run to end.

    Returns:
        The cut.

    Raises:
        CutNameError: it cannot be called so.
        CutExistsError: there is one of this name, of another point.
        NotLevelError: the tables do not stand at one point of their sources; a run brings them there.
        BusyError: a run holds the pipeline for longer than ``wait_seconds``.
    """
    from frazil.past.snapshots import cut as mark
    from frazil.past.snapshots import verify_cut_name
    from frazil.serve.cuts import level_heads
    from frazil.spark.session import lake_session

    pipeline = load(declaration)
    verify_cut_name(name)
    heads = partial(level_heads, pipeline)
    mark(pipeline, lake_session(spark, pipeline, short=True), name, heads, wait_seconds=wait_seconds)
    return next(one for one in cuts(pipeline) if one.name == name)


def cuts(declaration: Declaration) -> tuple[Cut, ...]:
    """Return the cuts there are, by name; starts no JVM.

    Raises:
        NoLakeError: no table of the lake exists.
    """
    from frazil.serve.cuts import cuts as look

    return tuple(look(load(declaration)))


def drop_cut(declaration: Declaration, name: str, *, spark: SparkSession | None = None) -> Cut:
    """Remove a cut; what only it keeps can expire then. Return what it was.

    Raises:
        PointError: there is no such cut.
        BusyError: a run holds the pipeline, for a minute.
    """
    from frazil.past.snapshots import drop_cut as remove
    from frazil.serve.cuts import find_cut
    from frazil.spark.session import lake_session
    from frazil.spec import CATALOG

    pipeline = load(declaration)
    found = find_cut(pipeline, name)
    paths = [(CATALOG, *table.split(".", 1)) for table in found.tables]
    remove(pipeline, lake_session(spark, pipeline, short=True), name, paths)
    return found


def rollback_plan(declaration: Declaration, table: str, to: str) -> Rollback:
    """Return what a rollback would do, as :func:`frazil.serve.rollback.rollback_of`; starts no JVM, changes nothing.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts.
        to: a time, a snapshot, a cut or a batch.

    Raises:
        UnknownSelectionError: there is no such source table.
        PointError: ``to`` is no point, or a mart cannot be read as it was then.
    """
    from frazil.serve.rollback import rollback_of

    return rollback_of(load(declaration), table, to)


def rollback(declaration: Declaration, plan: Rollback, *, spark: SparkSession | None = None) -> None:
    """Let marts and aggregates be what they were, rows and bookmark together; the next run catches up.

    Args:
        declaration: a pipeline, or the path of its declaration.
        plan: as :func:`rollback_plan` returns it.
        spark: a session with the lake; left out, one is started.

    Raises:
        BusyError: a run holds the pipeline for a minute, or a table has moved since the plan was made.
    """
    from frazil.past.snapshots import rollback as move
    from frazil.spark.session import lake_session

    pipeline = load(declaration)
    moves = [(one.path, one.snapshot, one.to_snapshot) for one in plan.moves]
    move(pipeline, lake_session(spark, pipeline, short=True), moves, plan.stale)
