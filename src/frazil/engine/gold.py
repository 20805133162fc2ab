"""Compute an aggregate anew, in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.failpoints import failpoint
from frazil.gold.template import declared_gold, render
from frazil.lake.commit import Batch
from frazil.lake.heads import head
from frazil.lake.tables import TableLayout, ensure
from frazil.spec import CATALOG
from frazil.spec.names import backslashes, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline
    from frazil.steps import RefreshGold


def refresh_gold(spark: SparkSession, pipeline: Pipeline, step: RefreshGold) -> None:
    """Replace an aggregate's rows by what its SELECT gives now.

    The bookmark names the batch of every mart the rows come from.
    """
    gold = next(gold for gold in pipeline.gold if gold.name == step.name)
    names = pipeline.lake.namespaces
    rows = spark.sql(render(backslashes(gold.sql), lambda mart: quote(CATALOG, names.marts, mart)))
    path = (CATALOG, names.gold, gold.name)
    columns = {field.name: field.dataType.simpleString() for field in rows.schema}
    ensure(spark, TableLayout(path=path, columns=columns))
    base = head(spark, quote(*path))
    bookmark = {
        "pipeline": pipeline.pipeline,
        "gold": gold.name,
        "declared": declared_gold(pipeline, gold),
        "batch": max(n for _, n in step.inputs),
        "inputs": dict(step.inputs),
    }
    with Batch(spark, path, base, bookmark) as batch:
        batch.replace(rows)
        failpoint("gold.before_publish")
        batch.publish()
    failpoint("gold.after_publish")
