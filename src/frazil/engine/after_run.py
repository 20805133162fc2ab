"""Maintain, at the end of a run, the tables that are due."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING

from frazil.engine.certify import Certifying
from frazil.engine.table_upkeep import maintained, tables_to_maintain
from frazil.lake.expiry import expirable
from frazil.lake.gateway import java_class, java_table
from frazil.lake.heads import is_missing
from frazil.lake.trouble import explained
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyspark.sql import SparkSession

    from frazil.engine.report import RunReport
    from frazil.spec import Pipeline
    from frazil.spec.tables import LakeTable


def keep_up(
    spark: SparkSession,
    pipeline: Pipeline,
    made_of: Collection[str],
    report: RunReport,
    *,
    now: dt.datetime,
    tell: Callable[[str], None],
) -> None:
    """Maintain the tables that are due, and add to the report what that took.

    A table is due when it has a snapshot that has been allowed to go for ``after_run_days``: what it holds tells when
    it was maintained last, and nothing else has to be remembered. Maintenance that fails is a warning: the tables hold
    what they should.

    Args:
        spark: a session with the pipeline's lake.
        pipeline: the declaration; nothing is done where its ``upkeep`` does not ask for it.
        made_of: the source tables and aggregates that the run has written.
        report: gets the reports and the warnings.
        now: time that ages are counted from.
        tell: called with the name of each table when its turn comes.
    """
    if pipeline.upkeep.after_run_days is None:
        return
    due = [made for made in tables_to_maintain(pipeline, made_of) if _is_due(spark, pipeline, made, now)]
    if not due:
        return
    certifying = Certifying.of(pipeline, "maintain", removes_metadata=True)
    for made in due:
        try:
            report.maintained += maintained(spark, pipeline, [made], now, tell)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run has done what it was for
            failure = explained(error, pipeline)
            report.warnings.append(
                f"{made.full_name} is not maintained: [{failure.code}] {failure.message}. It holds what it should; "
                "frazil maintain tries again"
            )
    if certifying is not None:
        certifying.write_or_tell(report.warnings.append)


def _is_due(spark: SparkSession, pipeline: Pipeline, made: LakeTable, now: dt.datetime) -> bool:
    upkeep = pipeline.upkeep
    try:
        table = java_table(spark, quote(*made.path))
    except Exception as error:
        if is_missing(error):
            return False
        raise
    if table is None or upkeep.after_run_days is None:
        return False
    parser = java_class(spark, "org.apache.iceberg.TableMetadataParser")
    metadata = json.loads(parser.toJson(table.operations().current()))
    before = now - dt.timedelta(days=upkeep.expire_after_days)
    gone = expirable(metadata, older_than_ms=round(before.timestamp() * 1000), retain_last=upkeep.retain_last)
    return bool(gone) and gone[0] <= (before - dt.timedelta(days=upkeep.after_run_days)).timestamp() * 1000
