"""Set tables to versions that the warehouse holds whole: after a catalog was lost, or files of tables were."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from frazil.catalog.catalogs import forget_view
from frazil.catalog.lock import lock
from frazil.lake.tables import open_catalog
from frazil.recover.setback import setbacks
from frazil.runner.repair import forget_table
from frazil.runner.steps.alter import keep_live_view
from frazil.spark.gateway import call
from frazil.spark.session import adopt, spark_session
from frazil.spec import CATALOG, EmbeddedCatalog
from frazil.spec.location import embedded_catalog, warehouse
from frazil.spec.sql.names import literal, quote
from frazil.spec.tables import source_tables

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Collection
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.recover.setback import Setback
    from frazil.spec import Pipeline


def repair_catalog(pipeline: Pipeline, now: dt.datetime, *, spark: SparkSession | None = None) -> list[str]:
    """Set every table to the version that :func:`frazil.recover.setback.setbacks` finds; the next run goes on from it.

    A version that a killed run wrote just before its commit counts as committed: its rows and its bookmark are one.
    Nothing is deleted: an embedded catalog that cannot be read is set aside beside itself, and tables of which no
    version is whole below ``.frazil/damaged`` in the warehouse. Tables that were dropped and whose files were left come
    back; ``frazil drop`` removes them.

    Args:
        pipeline: the declaration.
        now: time of the repair, for the names of what is set aside.
        spark: a session with the pipeline's lake; left out, one is started.

    Returns:
        The tables that were set, with their namespaces; empty where all was well.

    Raises:
        BusyError: a run holds the pipeline.
        FrazilError: as :func:`frazil.recover.setback.setbacks` raises it.
    """
    adopted = None if spark is None else adopt(spark, pipeline)
    with lock(pipeline):
        due = setbacks(pipeline)
        folder = warehouse(pipeline).path
        aside = None if folder is None else folder / ".frazil" / "damaged" / f"{now:%Y%m%dT%H%M%SZ}"
        if isinstance(pipeline.lake.catalog, EmbeddedCatalog):
            _set_aside(embedded_catalog(pipeline), now)
        if not due:
            return []
        session = adopted or spark_session(pipeline, short=True)
        open_catalog(session, quote(CATALOG, pipeline.lake.namespaces.bronze))
        for one in due:
            if one.is_view:
                forget_view(embedded_catalog(pipeline), one.key)
            elif one.is_known:
                forget_table(session, (CATALOG, *one.key))
            _set(session, one, aside)
        _make_views(session, pipeline, {one.key for one in due if one.is_view})
        return [one.full_name for one in due]


def _set(spark: SparkSession, one: Setback, aside: Path | None) -> None:
    path = (CATALOG, *one.key)
    if one.version is not None:
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote(*path[:-1])}")
        call(spark, path, "register_table", f"metadata_file => {literal(f'file://{one.version.path.as_posix()}')}")
    elif aside is not None:
        place = aside.joinpath(*one.key)
        place.parent.mkdir(parents=True, exist_ok=True)
        one.folder.rename(place)


def _make_views(spark: SparkSession, pipeline: Pipeline, keys: Collection[tuple[str, str]]) -> None:
    """Make live views again; those of marts that are not there any more come with the mart."""
    for made in (source_tables(pipeline, table) for table in pipeline.tables):
        for mart in made.marts:
            is_due = any(view.key in keys and view.mart == mart.mart for view in made.views)
            if is_due and mart.mart is not None and spark.catalog.tableExists(quote(*mart.path)):
                keep_live_view(spark, mart.path, mart.mart)


def _set_aside(catalog: Path, now: dt.datetime) -> None:
    """Move an embedded catalog that cannot be read out of the way, with its log; nothing is deleted."""
    if not catalog.exists() or _is_readable(catalog):
        return
    for path in (catalog, *(catalog.with_name(f"{catalog.name}-{log}") for log in ("wal", "shm"))):
        if path.exists():
            path.rename(path.with_name(f"{path.name}.damaged-{now:%Y%m%dT%H%M%SZ}"))


def _is_readable(catalog: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"{catalog.as_uri()}?mode=ro", uri=True)) as database:
            (verdict,) = database.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.DatabaseError:
        return False
    return bool(verdict == "ok")
