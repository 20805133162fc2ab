"""Refresh an aggregate, in one commit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from frazil.catalog.trouble import as_frazil_error
from frazil.errors import Failure
from frazil.failpoints import failpoint
from frazil.gold.template import declared_gold, render
from frazil.lake.commit import TableTransaction
from frazil.lake.heads import head
from frazil.lake.replace import replace_table
from frazil.lake.tables import ensure, table_fits
from frazil.plan.identity import belongs
from frazil.plan.policy import DEFAULT_POLICY
from frazil.plan.tables.layout import TableLayout
from frazil.runner.steps.gold_increment import READ, Input, incremental_rows
from frazil.spark.expression import SqlError, user_sql
from frazil.spec import CATALOG
from frazil.spec.contract import repeated
from frazil.spec.sql.names import backslashes, quote
from frazil.spec.tables import gold_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.errors import FrazilError
    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.plan.policy import Policy
    from frazil.runner.report.report import GoldReport
    from frazil.spec import Pipeline
    from frazil.steps import RefreshGold


def refresh(
    spark: SparkSession,
    pipeline: Pipeline,
    step: RefreshGold,
    made: GoldReport,
    *,
    run_id: str,
    policy: Policy = DEFAULT_POLICY,
) -> list[FrazilError]:
    """Refresh an aggregate and report it; return what failed."""
    began, gold = time.monotonic(), next(gold for gold in pipeline.gold if gold.name == step.name)
    name = gold_table(pipeline, gold).full_name
    try:
        published = refresh_gold(spark, pipeline, step, run_id=run_id, policy=policy)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this aggregate's
        failure = as_frazil_error(error)
        made.outcome = "failed"
        made.errors.append(Failure.of(name, failure))
        return [failure]
    finally:
        made.seconds = time.monotonic() - began
    made.outcome = "done"
    made.rows = int(published.summary.get("total-records", 0))
    made.strategy = "incremental" if published.summary.get("frazil.strategy") == "incremental" else "replace"
    if published.snapshot_id is not None:
        made.commits[name] = published.snapshot_id
    return []


def refresh_gold(
    spark: SparkSession,
    pipeline: Pipeline,
    step: RefreshGold,
    *,
    run_id: str = "",
    policy: Policy = DEFAULT_POLICY,
) -> TableSnapshot:
    """Replace an aggregate's rows by what its SELECT gives now, in one commit.

    The bookmark names the batch of every mart the rows come from. Of an incremental aggregate only the groups are
    computed that the marts' new batches touched, where :func:`frazil.runner.steps.gold_increment.incremental_rows` can.

    Returns:
        Where the aggregate stands now.

    Raises:
        OtherOwnerError: the table belongs to another pipeline, or is no aggregate.
        SqlError: Spark refuses the SELECT, it fails on a value, or its rows cannot be a table.
    """
    gold = next(gold for gold in pipeline.gold if gold.name == step.name)
    made, spaces = gold_table(pipeline, gold), pipeline.lake.namespaces
    aggregates = {one.name for one in pipeline.gold}
    whose = f"sql of gold {gold.name!r}"

    def table(name: str) -> str:
        return quote(CATALOG, spaces.gold if name in aggregates else spaces.marts, name)

    with user_sql(whose, gold.sql):
        rows = spark.sql(render(backslashes(gold.sql), table))
    _check_columns(whose, rows)
    columns = {field.name: field.dataType.simpleString() for field in rows.schema}
    layout = TableLayout(path=made.path, columns=columns)
    base = head(spark, quote(*made.path))
    belongs(made, base.bookmark, pipeline=pipeline.pipeline)
    bookmark = {
        "pipeline": pipeline.pipeline,
        "gold": gold.name,
        "role": made.role,
        "declared": declared_gold(pipeline, gold),
        "batch": max(n for _, n in step.inputs),
        "inputs": dict(step.inputs),
    }
    mart = Input.of(spark, pipeline, gold) if gold.materialized == "incremental" else None
    if mart is not None:
        bookmark[READ] = mart.point
    with user_sql(whose, gold.sql):
        if not table_fits(spark, layout):
            failpoint("gold.before_publish")
            published = replace_table(spark, layout, base, bookmark, rows, run_id=run_id)
            failpoint("gold.after_publish")
            return published
    ensure(spark, layout)
    with TableTransaction(spark, made.path, base, bookmark, run_id=run_id) as batch:
        with user_sql(whose, gold.sql):
            increment = None
            if mart is not None and step.is_incremental:
                increment = incremental_rows(spark, gold, mart, base=base, table=quote(*made.path), policy=policy)
            batch.note(strategy="replace" if increment is None else "incremental")
            batch.replace(rows if increment is None else increment)
        failpoint("gold.before_publish")
        published = batch.publish()
    failpoint("gold.after_publish")
    return published


def _check_columns(whose: str, rows: DataFrame) -> None:
    for name in repeated(rows.columns):
        raise SqlError(f"{whose}: it has two columns '{name}'", hint="give one of them another name with AS")
    for column in rows.schema:
        kind = column.dataType.simpleString()
        if kind == "void" or kind.startswith("interval"):
            raise SqlError(
                f"{whose}: column '{column.name}' is of type {kind}, which no table can hold",
                hint="cast it: CAST(… AS string)",
            )
