"""Work on one table outside of a plan: erasing, correcting."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from typing import TYPE_CHECKING

from frazil.catalog.lock import waiting_lock
from frazil.catalog.trouble import translated
from frazil.runner.report.record import run_id
from frazil.runner.report.report import TableReport
from frazil.runner.run import working_sessions
from frazil.runner.table_run import TableRun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline, Table


@contextmanager
def table_session(pipeline: Pipeline, table: Table, spark: SparkSession) -> Iterator[TableRun]:
    """Hold the pipeline's lock, and yield what steps of one table work with.

    Raises:
        BusyError: another run holds the pipeline, for a minute.
    """
    now = dt.datetime.now(dt.UTC)
    with waiting_lock(pipeline), working_sessions(spark, 1) as (session,), translated(pipeline):
        yield TableRun(
            spark=session,
            pipeline=pipeline,
            table=table,
            now=now,
            report=TableReport(table=table.name),
            run_id=run_id(now),
        )
