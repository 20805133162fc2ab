"""Compute again only those groups of an aggregate that new batches of its mart touched.

The keys of the new changes in silver say which rows of the mart may differ. Those rows, as they were when the aggregate
was computed and as they are now, name the groups: the aggregate's own SELECT over them gives the values. Everything
else of the aggregate stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from frazil.gold.template import render
from frazil.lake.heads import head, is_ancestor
from frazil.older_spark import from_arrow, to_arrow
from frazil.silver.batches import batches
from frazil.spec.sql.incremental import grouped
from frazil.spec.sql.names import backslashes, quote
from frazil.spec.tables import source_tables

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pyspark.sql import Column, DataFrame, SparkSession

    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.plan.policy import Policy
    from frazil.spec import Gold, Pipeline, Table

READ: Final = "read"
"""Key of an aggregate's bookmark that says what it was computed from: see :meth:`Input.point`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """The mart that an incremental aggregate reads.

    Attributes:
        table: the source table.
        name: the mart.
        path: its place in the catalog.
        changes: quoted name of the typed changes that it is made of.
        now: its newest snapshot.
    """

    table: Table
    name: str
    path: tuple[str, ...]
    changes: str
    now: TableSnapshot

    @classmethod
    def of(cls, spark: SparkSession, pipeline: Pipeline, gold: Gold) -> Input:
        """Look up the mart of an aggregate in which nothing keeps it from being incremental."""
        name = grouped(gold.sql).mart
        table, own = next(
            (table, mart)
            for table in pipeline.tables
            for mart in source_tables(pipeline, table).marts
            if mart.name == name
        )
        changes = quote(*source_tables(pipeline, table).changes.path)
        return cls(table=table, name=name, path=own.path, changes=changes, now=head(spark, quote(*own.path)))

    @property
    def point(self) -> dict[str, Any]:
        """Return where the mart stands: its snapshot, its batch, and the run that last computed all of its rows."""
        made_by = self.now.bookmark.get("made_by")
        return {"snapshot": self.now.snapshot_id, "batch": self.now.batch, "made_by": made_by}


def incremental_rows(
    spark: SparkSession, gold: Gold, mart: Input, *, base: TableSnapshot, table: str, policy: Policy
) -> DataFrame | None:
    """Return all rows of an aggregate, of which only the touched groups are computed again.

    Args:
        spark: a session of Frazil's own: the mart's name becomes a view in it for the moment.
        gold: the aggregate.
        mart: what it reads.
        base: the aggregate's newest snapshot.
        table: quoted name of the aggregate.
        policy: thresholds.

    Returns:
        The rows; None where the aggregate has to be computed whole: the mart was rebuilt or has other columns since,
        the snapshot it was computed from is gone, or too many groups were touched.

    Cost: a Spark job that reads the keys and the groups' columns of the mart twice, and one in which the rows that are
    returned read the mart's rows of the touched groups. The names of the groups pass through the driver.
    """
    changed = _changed_rows(spark, mart, base.bookmark.get(READ, {}))
    if changed is None:
        return None
    found = grouped(gold.sql).groups
    view = quote(mart.name)
    changed.createOrReplaceTempView(view)
    try:
        touched = spark.sql(render(backslashes(gold.sql), quote)).select(*map(quote, found)).distinct()
        groups = to_arrow(touched.limit(policy.touched_groups + 1))
    finally:
        spark.catalog.dropTempView(mart.name)
    rows = int(base.summary.get("total-records", 0))
    if groups.num_rows > min(policy.touched_groups, policy.touched_share * rows):
        return None
    names = F.broadcast(from_arrow(spark, groups, touched.schema))
    whole = spark.sql(render(backslashes(gold.sql), lambda _: quote(*mart.path)))
    kept = _matching(spark.table(table), names, found, "left_anti")
    return kept.unionByName(_matching(whole, names, found, "left_semi"))


def _changed_rows(spark: SparkSession, mart: Input, read: Mapping[str, Any]) -> DataFrame | None:
    """Return the mart's rows of all keys with new changes, as they were and as they are; None if that is not known."""
    point = mart.point
    is_known = read.get("snapshot") is not None and read.get("made_by") == point["made_by"] is not None
    if not is_known or read["batch"] >= point["batch"] or not is_ancestor(spark, quote(*mart.path), read["snapshot"]):
        return None
    now = spark.table(quote(*mart.path))
    before = spark.read.option("versionAsOf", read["snapshot"]).table(quote(*mart.path))
    if before.dtypes != now.dtypes:
        return None
    keys = mart.table.keys
    new = batches(spark.table(mart.changes), read["batch"], point["batch"])
    changed = new.select(*map(quote, keys)).distinct()
    return _matching(before, changed, keys, "left_semi").unionAll(_matching(now, changed, keys, "left_semi"))


def _matching(rows: DataFrame, among: DataFrame, names: tuple[str, ...], how: str) -> DataFrame:
    """Join rows with those that have the same values in some columns; NULL equals NULL."""

    def same(name: str) -> Column:
        return F.col(f"l.{quote(name)}").eqNullSafe(F.col(f"r.{quote(name)}"))

    condition = reduce(lambda all_, one: all_ & one, map(same, names))
    return rows.alias("l").join(among.alias("r"), condition, how)
