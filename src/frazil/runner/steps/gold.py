"""Refresh an aggregate, in one commit."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from frazil.catalog.trouble import as_frazil_error
from frazil.errors import Failure
from frazil.failpoints import failpoint
from frazil.gold import declared_gold, render
from frazil.iceberg.metadata import DamagedTableError
from frazil.lake.commit import TableTransaction
from frazil.lake.refs import head, is_ancestor
from frazil.lake.tables import ensure, replace_table, table_fits
from frazil.older_spark import from_arrow, to_arrow
from frazil.plan.layout import TableLayout
from frazil.plan.policy import DEFAULT_POLICY
from frazil.silver.changes import rows_of_batches
from frazil.spark.expressions import SqlError, user_sql
from frazil.spec import CATALOG
from frazil.spec.contract import repeated
from frazil.spec.sql.names import backslashes, quote
from frazil.spec.sql.sql import grouped
from frazil.spec.tables import belongs, gold_table, source_tables

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pyspark.sql import Column, DataFrame, SparkSession

    from frazil.errors import FrazilError
    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.plan.policy import Policy
    from frazil.runner.report import GoldReport
    from frazil.spec import Gold, Pipeline, Table
    from frazil.steps import RefreshGold

READ: Final = "read"
"""Key of an aggregate's bookmark: the point of its mart that it was computed from, see :meth:`Input.point`."""


def refresh(
    spark: SparkSession,
    pipeline: Pipeline,
    step: RefreshGold,
    made: GoldReport,
    *,
    run_id: str,
    policy: Policy = DEFAULT_POLICY,
) -> list[FrazilError]:
    """Refresh an aggregate and report it.

    Args:
        spark: a session with the lake.
        pipeline: the declaration.
        step: the aggregate and its inputs.
        made: report to fill.
        run_id: id of the run.
        policy: thresholds.

    Returns:
        The failures.
    """
    began, gold = time.monotonic(), next(gold for gold in pipeline.gold if gold.name == step.name)
    name = gold_table(pipeline, gold).full_name
    try:
        published = _refreshed(spark, pipeline, step, run_id=run_id, policy=policy)
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


def _refreshed(spark: SparkSession, pipeline: Pipeline, step: RefreshGold, **settings: Any) -> TableSnapshot:
    """Refresh an aggregate; once more where files of its marts are gone.

    An erase or a maintenance on another host may have removed them meanwhile: then the marts have others now.
    """
    try:
        return refresh_gold(spark, pipeline, step, **settings)
    except Exception as error:  # the type shows only after the translation
        if not isinstance(as_frazil_error(error), DamagedTableError):
            raise
    return refresh_gold(spark, pipeline, step, **settings)


def refresh_gold(
    spark: SparkSession,
    pipeline: Pipeline,
    step: RefreshGold,
    *,
    run_id: str = "",
    policy: Policy = DEFAULT_POLICY,
) -> TableSnapshot:
    """Replace an aggregate's rows by the current result of its SELECT, in one commit.

    The bookmark has the batch of every mart that the rows come from. An incremental aggregate recomputes only the
    groups that new batches touched, if :func:`incremental_rows` can.

    Args:
        spark: a session with the lake.
        pipeline: the declaration.
        step: the aggregate and its inputs.
        run_id: id of the run.
        policy: thresholds.

    Returns:
        The aggregate's newest snapshot.

    Raises:
        OtherOwnerError: the table belongs to another pipeline, or is not an aggregate.
        BookmarkLostError: the table has rows and no bookmark, and no rebuild was asked for.
        SqlError: Spark refuses the SELECT, it fails on a value, or a table cannot store its rows.
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
    base = head(spark, quote(*made.path), rebuilt=step.rebuild)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """The mart that an incremental aggregate reads.

    Attributes:
        table: the source table.
        name: name of the mart.
        path: its path in the catalog.
        changes: quoted name of its silver table.
        now: its newest snapshot.
    """

    table: Table
    name: str
    path: tuple[str, ...]
    changes: str
    now: TableSnapshot

    @classmethod
    def of(cls, spark: SparkSession, pipeline: Pipeline, gold: Gold) -> Input:
        """Return the mart of an aggregate that the declaration allows to be incremental.

        Args:
            spark: a session with the lake.
            pipeline: the declaration.
            gold: the aggregate.
        """
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
        """Return the point of the mart: its snapshot, its batch, and the run that last computed all its rows."""
        made_by = self.now.bookmark.get("made_by")
        return {"snapshot": self.now.snapshot_id, "batch": self.now.batch, "made_by": made_by}


def incremental_rows(
    spark: SparkSession, gold: Gold, mart: Input, *, base: TableSnapshot, table: str, policy: Policy
) -> DataFrame | None:
    """Return all rows of an aggregate, recomputing only the touched groups.

    Args:
        spark: one of Frazil's own sessions; it temporarily has a view with the mart's name.
        gold: the aggregate.
        mart: the mart it reads.
        base: the aggregate's newest snapshot.
        table: quoted name of the aggregate.
        policy: thresholds.

    Returns:
        The rows. None if the aggregate needs a full computation: another engine changed its rows, the mart was rebuilt
        or has other columns, the snapshot of the last computation has expired, or too many groups were touched.

    Cost: a Spark job that reads the keys and group columns of the mart twice; reading the result also reads the mart's
    rows of the touched groups. The names of the groups pass through the driver.
    """
    changed = None if base.foreign else _changed_rows(spark, mart, base.bookmark.get(READ, {}))
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
    """Return the mart's old and new rows of all keys with new changes; None if they are unknown."""
    point = mart.point
    is_known = read.get("snapshot") is not None and read.get("made_by") == point["made_by"] is not None
    if not is_known or read["batch"] >= point["batch"] or not is_ancestor(spark, quote(*mart.path), read["snapshot"]):
        return None
    now = spark.table(quote(*mart.path))
    before = spark.read.option("versionAsOf", read["snapshot"]).table(quote(*mart.path))
    if before.dtypes != now.dtypes:
        return None
    keys = mart.table.keys
    new = rows_of_batches(spark.table(mart.changes), read["batch"], point["batch"])
    changed = new.select(*map(quote, keys)).distinct()
    return _matching(before, changed, keys, "left_semi").unionAll(_matching(now, changed, keys, "left_semi"))


def _matching(rows: DataFrame, among: DataFrame, names: tuple[str, ...], how: str) -> DataFrame:
    """Join rows that have equal values in some columns; NULL equals NULL."""

    def same(name: str) -> Column:
        return F.col(f"l.{quote(name)}").eqNullSafe(F.col(f"r.{quote(name)}"))

    condition = reduce(lambda all_, one: all_ & one, map(same, names))
    return rows.alias("l").join(among.alias("r"), condition, how)
