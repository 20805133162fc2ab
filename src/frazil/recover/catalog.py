"""Find the newest intact version of every table, and register it in the catalog."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from frazil.catalog.lock import lock
from frazil.recover.setbacks import setbacks
from frazil.spec import EmbeddedCatalog
from frazil.spec.location import embedded_catalog, warehouse

if TYPE_CHECKING:
    import datetime as dt
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline


def repair_catalog(pipeline: Pipeline, now: dt.datetime, *, spark: SparkSession | None = None) -> list[str]:
    """Register every table at the version that :func:`setbacks` finds; the next run continues from it.

    A version that a killed run wrote just before its commit counts as committed: its rows and its bookmark belong
    together. Nothing is deleted: an unreadable embedded catalog is renamed, and tables without a complete version move
    to ``.frazil/damaged`` in the warehouse. Dropped tables with remaining files return; ``frazil drop`` removes them.

    Args:
        pipeline: the declaration.
        now: time of the repair, for the names of moved files.
        spark: a session with the pipeline's lake; None starts one.

    Returns:
        The changed tables, with their namespaces; empty if the catalog was correct.

    Raises:
        BusyError: a run holds the pipeline.
        FrazilError: as :func:`setbacks` raises it.
    """
    with lock(pipeline):
        due = setbacks(pipeline)
        folder = warehouse(pipeline).path
        aside = None if folder is None else folder / ".frazil" / "damaged" / f"{now:%Y%m%dT%H%M%SZ}"
        if isinstance(pipeline.lake.catalog, EmbeddedCatalog):
            _set_aside(embedded_catalog(pipeline), now)
        if not due:
            return []
        from frazil.recover.register import register  # noqa: PLC0415 - a correct catalog needs no PySpark

        register(pipeline, due, aside, spark)
        return [one.full_name for one in due]


def _set_aside(catalog: Path, now: dt.datetime) -> None:
    """Rename an unreadable embedded catalog and its log; nothing is deleted."""
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
