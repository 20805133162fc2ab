"""Maintain, at the end of a run, the tables that are due."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING

from frazil.audit.certify import Certifying
from frazil.catalog.trouble import as_frazil_error
from frazil.iceberg.metadata import expirable
from frazil.runner.upkeep.table_upkeep import maintained, tables_to_maintain
from frazil.spark.gateway import java_class, java_table
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyspark.sql import SparkSession

    from frazil.runner.report.report import RunReport
    from frazil.spec import Pipeline, Upkeep
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
    days = pipeline.upkeep.after_run_days
    if days is None:
        return
    certifying: Certifying | None = None
    for made in tables_to_maintain(pipeline, made_of):
        try:
            if not _is_due(spark, made, pipeline.upkeep, days, now):
                continue
            certifying = certifying or Certifying.of(pipeline, "maintain", removes_metadata=True)
            report.maintained += maintained(spark, pipeline, [made], now, tell)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run has done what it was for
            failure = as_frazil_error(error, pipeline)
            report.warnings.append(
                f"{made.full_name} is not maintained: [{failure.code}] {failure.message}. It holds what it should; "
                "frazil maintain tries again"
            )
    if certifying is not None:
        certifying.write_or_tell(report.warnings.append)


def _is_due(spark: SparkSession, made: LakeTable, upkeep: Upkeep, days: float, now: dt.datetime) -> bool:
    if not spark.catalog.tableExists(quote(*made.path)):
        return False
    table = java_table(spark, quote(*made.path))
    if table is None:
        return False
    parser = java_class(spark, "org.apache.iceberg.TableMetadataParser")
    metadata = json.loads(parser.toJson(table.operations().current()))
    before = now - dt.timedelta(days=upkeep.expire_after_days)
    gone = expirable(metadata, older_than_ms=round(before.timestamp() * 1000), retain_last=upkeep.retain_last)
    return bool(gone) and gone[0] <= (before - dt.timedelta(days=days)).timestamp() * 1000
