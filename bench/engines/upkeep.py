"""Maintenance of the marts of a lake by each engine that has any."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from bench.engines.orders import COLUMNS
from frazil import api
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from bench.engines.asking import PyIceberg, Trino
    from bench.engines.lakes import Lake


def by_spark(lake: Lake) -> None:
    """Do what ``frazil maintain`` does: rewrite, expire all snapshots that may go, remove orphans, statistics."""
    pipeline = api.load(lake.folder)
    api.maintain(pipeline, spark=spark_session(pipeline))


def by_pyiceberg(engine: PyIceberg) -> None:
    """Expire all snapshots but the newest."""
    for mart in COLUMNS:
        engine.table(mart).maintenance.expire_snapshots().older_than(dt.datetime.now(dt.UTC)).commit()


def by_trino(engine: Trino) -> None:
    """Expire all snapshots but the newest, merge files, compute statistics."""
    for mart in COLUMNS:
        engine.ask(
            "SET SESSION lake.expire_snapshots_min_retention = '0s'",
            f"ALTER TABLE {mart} EXECUTE expire_snapshots(retention_threshold => '0s')",
            f"ALTER TABLE {mart} EXECUTE optimize",
            f"ANALYZE {mart}",
        )
