"""Register tables in the catalog at other versions, through Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import uuid4

from frazil.catalog.catalogs import forget_view
from frazil.iceberg.snapshot import at_present
from frazil.lake.tables import forget_table, open_catalog
from frazil.runner.steps.alter import keep_live_view
from frazil.sources.capture import land_file
from frazil.spark.gateway import call
from frazil.spark.session import adopt, spark_session
from frazil.spec import CATALOG
from frazil.spec.location import embedded_catalog
from frazil.spec.sql.names import literal, quote
from frazil.spec.tables import source_tables

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.catalog.warehouse import Version
    from frazil.recover.setbacks import Setback
    from frazil.spec import Pipeline


def register(pipeline: Pipeline, due: Sequence[Setback], aside: Path | None, spark: SparkSession | None) -> None:
    """Register tables at their right versions, and create torn live views again.

    Args:
        pipeline: the declaration.
        due: the tables and views to change.
        aside: folder for tables without a complete version; None leaves them where they are.
        spark: a session with the pipeline's lake; None starts one.
    """
    session = spark_session(pipeline, short=True) if spark is None else adopt(spark, pipeline)
    open_catalog(session, quote(CATALOG, pipeline.lake.namespaces.bronze))
    for one in due:
        if one.is_view:
            forget_view(embedded_catalog(pipeline), one.key)
        elif one.is_known:
            forget_table(session, (CATALOG, *one.key))
        _set(session, one, aside)
    _make_views(session, pipeline, {one.key for one in due if one.is_view})


def _set(spark: SparkSession, one: Setback, aside: Path | None) -> None:
    path = (CATALOG, *one.key)
    if one.version is not None:
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote(*path[:-1])}")
        file = _written_now(one.version) if one.is_ahead else one.version.path
        call(spark, path, "register_table", f"metadata_file => {literal(f'file://{file.as_posix()}')}")
    elif aside is not None:
        place = aside.joinpath(*one.key)
        place.parent.mkdir(parents=True, exist_ok=True)
        one.folder.rename(place)


def _written_now(version: Version) -> Path:
    """Write the next version of a table, the same but for times of commits that lie in the future."""
    metadata = at_present(version.metadata)
    before = {"metadata-file": f"file://{version.path.as_posix()}", "timestamp-ms": metadata["last-updated-ms"]}
    metadata["metadata-log"] = [*metadata.get("metadata-log", ()), before]
    path = version.path.with_name(f"{version.number + 1:05}-{uuid4()}.metadata.json")
    land_file(path, lambda hidden: hidden.write_text(json.dumps(metadata), encoding="utf-8"))
    return path


def _make_views(spark: SparkSession, pipeline: Pipeline, keys: Collection[tuple[str, str]]) -> None:
    """Create live views again; the views of missing marts follow when a run creates the mart."""
    for made in (source_tables(pipeline, table) for table in pipeline.tables):
        for mart in made.marts:
            is_due = any(view.key in keys and view.mart == mart.mart for view in made.views)
            if is_due and mart.mart is not None and spark.catalog.tableExists(quote(*mart.path)):
                keep_live_view(spark, mart.path, mart.mart)
