"""Make a lost, emptied or older catalog again from the metadata that the warehouse holds."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from frazil.errors import DeclarationError
from frazil.lake.damage import local_path
from frazil.lake.heads import head
from frazil.lake.lock import lock
from frazil.lake.procedure import call
from frazil.lake.session import spark_session
from frazil.lake.tables import open_catalog
from frazil.lake.warehouse import table_folders
from frazil.spec import CATALOG, EmbeddedCatalog
from frazil.spec.location import embedded_catalog, warehouse
from frazil.spec.names import literal, quote

if TYPE_CHECKING:
    import datetime as dt
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.lake.warehouse import Version
    from frazil.spec import Pipeline


def repair_catalog(pipeline: Pipeline, now: dt.datetime, *, spark: SparkSession | None = None) -> list[str]:
    """Register the newest version of every table in the warehouse that the catalog does not know or knows an older of.

    A version that a killed run wrote just before its commit counts as committed: its rows and its bookmark are one.
    An embedded catalog that cannot be read is set aside first, beside itself. Tables that were dropped and whose files
    were left come back; ``frazil drop`` removes them. The next run goes on from there.

    Args:
        pipeline: the declaration.
        now: time of the repair, for the name of a catalog that is set aside.
        spark: a session with the pipeline's lake; left out, one is started.

    Returns:
        The tables that were registered, with their namespaces; empty where the catalog knew them all.

    Raises:
        DeclarationError: the warehouse is not on this machine's disk.
        BusyError: a run holds the pipeline.
    """
    folder = warehouse(pipeline).path
    if folder is None:
        raise DeclarationError(
            f"lake.warehouse: {pipeline.lake.warehouse} is not on this machine's disk",
            hint="register its tables with Iceberg's procedure register_table",
        )
    with lock(pipeline):
        if isinstance(pipeline.lake.catalog, EmbeddedCatalog):
            _set_aside(embedded_catalog(pipeline), now)
        session = spark or spark_session(pipeline, short=True)
        open_catalog(session, quote(CATALOG, pipeline.lake.namespaces.bronze))
        return [
            f"{namespace}.{name}"
            for namespace, name, version in table_folders(folder)
            if _register(session, (CATALOG, namespace, name), version)
        ]


def _register(spark: SparkSession, path: tuple[str, str, str], version: Version) -> bool:
    at = head(spark, quote(*path), rebuilt=True)
    if at.location is not None:
        known = local_path(at.location)
        if known is None or known.resolve() == version.path.resolve() or known.parent != version.path.parent:
            return False
        if int(known.name.partition("-")[0]) >= version.number:
            return False
        spark.sql(f"DROP TABLE {quote(*path)}")
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote(*path[:-1])}")
    call(spark, path, "register_table", f"metadata_file => {literal(f'file://{version.path.as_posix()}')}")
    return True


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
