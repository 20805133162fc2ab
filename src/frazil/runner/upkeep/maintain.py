"""Maintain the tables of a lake when somebody asks for it."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING, Final

from frazil.audit.certify import Certifying
from frazil.catalog.lock import TURN_SECONDS, waiting_lock
from frazil.catalog.trouble import translated
from frazil.runner.interrupt import interruptibly
from frazil.runner.run import working_sessions
from frazil.runner.upkeep.table_upkeep import maintained, tables_to_maintain
from frazil.spec.sql.select import selected

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from frazil.runner.report.report import MaintainReport
    from frazil.spec import Pipeline
    from frazil.spec.tables import LakeTable

_WAY_SECONDS: Final = 0.75
"""For so long the pipeline is free between two tables: a watch that waits for it looks three times."""


def maintain(
    pipeline: Pipeline,
    spark: SparkSession,
    *,
    select: Sequence[str] = (),
    now: dt.datetime | None = None,
    tell: Callable[[str], None] = lambda _: None,
    wait_seconds: float = TURN_SECONDS,
) -> list[MaintainReport]:
    """Keep every table of a pipeline in shape.

    Small files and files with many deleted rows are rewritten, many small manifests are merged, old snapshots and
    unreferenced files go, and statistics for query planners are computed. The order is rewrite, stamp, expire: a
    rewrite leaves a snapshot without bookmark on top, and expiring the one below would lose it, so the bookmark is
    written again first. Killed at any instant, the next upkeep or run goes on.

    Between two tables a run that waits goes first, so the longest that it waits is one table.

    Args:
        pipeline: the declaration; its ``upkeep`` says how old and how large.
        spark: a session with the pipeline's lake.
        select: as for a run; empty for all tables.
        now: time that ages are counted from; left out, the present.
        tell: called with the name of each table when its turn comes.
        wait_seconds: how long to wait for a run to end, before each table.

    Raises:
        BusyError: a run holds the pipeline for longer than that; the tables before are maintained.
    """
    moment = now or dt.datetime.now(dt.UTC)
    selection = selected(pipeline, select)
    done: list[MaintainReport] = []
    for made in tables_to_maintain(pipeline, {*selection.tables, *selection.gold}):
        if done:
            time.sleep(_WAY_SECONDS)
        with waiting_lock(pipeline, wait_seconds), translated(pipeline):
            done += _maintain_one(pipeline, spark, made, moment, tell)
    return done


def _maintain_one(
    pipeline: Pipeline, spark: SparkSession, made: LakeTable, now: dt.datetime, tell: Callable[[str], None]
) -> list[MaintainReport]:
    with working_sessions(spark, 1) as (session,):
        certifying = Certifying.of(pipeline, "maintain", removes_metadata=True)
        done = interruptibly(lambda: [*maintained(session, pipeline, [made], now, tell)], [session])
        if certifying is not None:
            certifying.write_or_tell(tell)
        return done
