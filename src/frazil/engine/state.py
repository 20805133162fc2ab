"""Read where a lake stands and what its sources offer."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.lake.heads import head
from frazil.plan.state import SILVER, TableState, Taken
from frazil.silver.contract import declared, declared_mart
from frazil.sources import dms
from frazil.sources.files import KnownFile
from frazil.spec import CATALOG
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from frazil.engine.context import Context
    from frazil.spec import Pipeline


def table_state(context: Context) -> TableState:
    """Read where the tables of one source table stand, and list what is new at the source."""
    spark, table = context.spark, context.table
    bronze = head(spark, quote(*context.bronze))
    silver = head(spark, quote(*context.changes))
    known, places = _ledger(spark, quote(*context.bronze)) if bronze.batch else ({}, {})
    marts = {table.mart_name(mart): head(spark, quote(*context.mart_path(mart))) for mart in table.marts}
    redeclared = {
        table.mart_name(mart)
        for mart in table.marts
        if _differs(marts[table.mart_name(mart)].bookmark, declared_mart(table, mart))
    }
    if _differs(silver.bookmark, declared(table)):
        redeclared.add(SILVER)
    return TableState(
        bronze=bronze.batch,
        silver=silver.batch,
        marts={name: stand.batch for name, stand in marts.items()},
        taken=_taken(context, known, places),
        redeclared=frozenset(redeclared),
    )


def gold_state(spark: SparkSession, pipeline: Pipeline) -> dict[str, Mapping[str, int]]:
    """Read which batches of which marts the aggregates were computed from."""
    space = pipeline.lake.namespaces.gold
    return {gold.name: head(spark, quote(CATALOG, space, gold.name)).bookmark.get("inputs", {}) for gold in pipeline.gold}


def _differs(bookmark: Mapping[str, object], fingerprint: str) -> bool:
    return bool(bookmark) and bookmark.get("declared") != fingerprint


def _ledger(spark: SparkSession, bronze: str) -> tuple[dict[str, KnownFile], dict[str, str]]:
    """Read the files that bronze knows, a set and never a high-water mark, and where each of them with records stands."""
    ledger = F.col(r.LEDGER)
    rows = (
        spark.table(bronze)
        .where(F.col(r.KIND) == r.LEDGER_ROW)
        .select(r.FILE, r.POSITION, *(ledger[name] for name in ("size_bytes", "modified_ns", "sha256", "same_as", "rows")))
        .toArrow()
    )
    known, places = {}, {}
    for path, position, size, modified, sha, same_as, count in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        known[path] = KnownFile(size_bytes=size, modified_ns=modified, sha256=sha, same_as=same_as)
        if count:
            places[path] = position
    return known, places


def _taken(context: Context, known: Mapping[str, KnownFile], places: Mapping[str, str]) -> Taken:
    table, source = context.table, context.table.source
    listing = dms.list_files(source, context.pipeline.folder)
    contents = {file.sha256: path for path, file in known.items() if file.same_as is None}
    take = dms.take(listing, known, contents, source, time.time())
    new, duplicates = take.new, take.duplicates
    if not table.sequence_by and not source.change_seq:
        # Only their place tells two files apart: the same bytes may well be another change.
        again = tuple(replace(file, same_as=None) for file in duplicates)
        new, duplicates = tuple(sorted((*new, *again), key=lambda file: file.position)), ()
    return Taken(
        files=new,
        duplicates=duplicates,
        deferred=(*take.deferred, *listing.refused),
        reorders=any(file.same_as in places and file.position < places[file.same_as] for file in duplicates),
    )
