"""Maintain the tables of a lake when somebody asks for it."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from frazil.engine.certify import Certifying
from frazil.engine.interrupt import interruptibly
from frazil.engine.run import working_sessions
from frazil.engine.table_upkeep import maintained, tables_to_maintain
from frazil.lake.lock import waiting_lock
from frazil.lake.trouble import translated
from frazil.spec.select import selected

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from frazil.engine.report import MaintainReport
    from frazil.spec import Pipeline


def maintain(
    pipeline: Pipeline,
    spark: SparkSession,
    *,
    select: Sequence[str] = (),
    now: dt.datetime | None = None,
    tell: Callable[[str], None] = lambda _: None,
    wait_seconds: float = 0.0,
) -> list[MaintainReport]:
    """Keep every table of a pipeline in shape.

    Small files and files with many deleted rows are rewritten, many small manifests are merged, old snapshots and
    unreferenced files go, and statistics for query planners are computed. The order is rewrite, stamp, expire: a
    rewrite leaves a snapshot without bookmark on top, and expiring the one below would lose it, so the bookmark is
    written again first. Killed at any instant, the next upkeep or run goes on.

    Args:
        pipeline: the declaration; its ``upkeep`` says how old and how large.
        spark: a session with the pipeline's lake.
        select: as for a run; empty for all tables.
        now: time that ages are counted from; left out, the present.
        tell: called with the name of each table when its turn comes.
        wait_seconds: how long to wait for a run to end.

    Raises:
        BusyError: a run holds the pipeline for longer than that.
    """
    moment = now or dt.datetime.now(dt.UTC)
    selection = selected(pipeline, select)
    with waiting_lock(pipeline, wait_seconds), translated(pipeline), working_sessions(spark, 1) as (session,):
        certifying = Certifying.of(pipeline, "maintain", removes_metadata=True)
        tables = tables_to_maintain(pipeline, {*selection.tables, *selection.gold})
        done = interruptibly(lambda: [*maintained(session, pipeline, tables, moment, tell)], [session])
        if certifying is not None:
            certifying.write_or_tell(tell)
        return done
