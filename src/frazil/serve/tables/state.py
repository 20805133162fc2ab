"""Where a lake stands and what its sources offer, read without a JVM: what ``plan`` starts from."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from frazil.catalog.catalogs import NoLakeError
from frazil.catalog.trouble import as_frazil_error
from frazil.catalog.warehouse import verify_catalog
from frazil.duck.database import connect
from frazil.duck.sql import scan
from frazil.errors import FrazilError, StorageError
from frazil.iceberg.clock import day_of_horizon, today
from frazil.iceberg.snapshot import verify_bookmark
from frazil.plan.plan import read_only
from frazil.plan.state import (
    State,
    TableState,
    gold_problems,
    gold_state,
    moved_marts,
    table_state,
    with_altered,
    with_fold,
)
from frazil.plan.tables.layout import BRONZE, QUARANTINE, SILVER
from frazil.serve.tables.manifests import verify_manifests
from frazil.serve.tables.tables import read_snapshot, tables
from frazil.sources.base import SourceDelta
from frazil.sources.kinds import source_of
from frazil.sources.ledger import LEDGER_FIELDS, Ledger
from frazil.spec.tables import gold_table, source_tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from frazil.catalog.catalogs import Located
    from frazil.spec import Pipeline, Table
    from frazil.spec.sql.select import Selection

_NONE: Final[Mapping[str, FrazilError]] = MappingProxyType({})


def state(
    pipeline: Pipeline, selection: Selection, uncaptured: Mapping[str, FrazilError] = _NONE, *, rebuild: bool = False
) -> State:
    """Read what a run of some tables and aggregates would start from. A lake that does not exist yet stands nowhere.

    Of tables that are not selected only those are read that a selected aggregate reads, without their sources. A table
    for which that fails (a missing folder, a known file with other content, damaged metadata) is in ``failed`` with the
    error, and stops no other.

    ``uncaptured`` are tables for which nothing could be landed, and why: they fail with that. With ``rebuild`` silver
    and marts may be whatever they are: they are written again.

    Raises:
        StorageError: the catalog cannot be read.
    """
    try:
        located = tables(pipeline)
    except NoLakeError:
        located = {}
    found: dict[str, TableState] = {}
    failed: dict[str, FrazilError] = dict(uncaptured)
    for table in pipeline.tables:
        if table.name not in (*selection.tables, *read_only(pipeline, selection)) or table.name in uncaptured:
            continue
        try:
            found[table.name] = _table(
                pipeline, table, located, is_read=table.name in selection.tables, rebuild=rebuild
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this table's
            failed[table.name] = as_frazil_error(error, pipeline)
    marks = {gold.name: _bookmark(located.get(gold_table(pipeline, gold).key)) for gold in pipeline.gold}
    gold = gold_state(pipeline, marks)
    return State(tables=found, failed=failed | gold_problems(pipeline, found, gold), gold=gold)


def _table(pipeline: Pipeline, table: Table, located: Located, *, is_read: bool, rebuild: bool) -> TableState:
    made = source_tables(pipeline, table)
    bronze = located.get(made.bronze.key)
    verify_catalog(pipeline, table, bronze)
    marts = {mart.name: read_snapshot(located.get(mart.key)) for mart in made.marts}
    stands = {
        BRONZE: read_snapshot(bronze),
        SILVER: read_snapshot(located.get(made.changes.key)),
        QUARANTINE: read_snapshot(located.get(made.quarantine.key)),
        **marts,
    }
    paths = {mart.name: mart.full_name for mart in made.marts}
    paths |= {BRONZE: made.bronze.full_name, SILVER: made.changes.full_name, QUARANTINE: made.quarantine.full_name}
    for name, at in stands.items():
        if not rebuild or name == BRONZE:
            verify_bookmark(paths[name], at, table=table.name, is_bronze=name == BRONZE)
    bookmarks = {name: at.bookmark for name, at in stands.items()}
    moved_marts(pipeline, table, bookmarks)
    taken = SourceDelta()
    if is_read:
        ledger = _ledger(located, bronze) if bronze and bookmarks[BRONZE] else Ledger()
        taken = source_of(table).find_new(pipeline.folder, ledger)
    rows = {name: at.records for name, at in (*marts.items(), (QUARANTINE, stands[QUARANTINE]))}
    columns = {name: at.columns for name, at in stands.items()}
    altered = {name: at.altered for name, at in stands.items()}
    found = table_state(pipeline, table, bookmarks, taken, rows=rows, columns=columns)
    found = with_altered(found, table, bookmarks, columns, altered)
    day = day_of_horizon(today(), stands[SILVER]) if is_read else None
    found = with_fold(found, table, bookmarks, day)
    return replace(found, snapshots={name: at.snapshot_id for name, at in stands.items()})


def _bookmark(location: str | None) -> Mapping[str, Any]:
    """Bookmark of an aggregate; one that cannot be read counts as never computed, and its refresh tells why."""
    try:
        return read_snapshot(location).bookmark
    except StorageError:
        return {}


def _ledger(located: Located, bronze: str) -> Ledger:
    verify_manifests(bronze)
    with connect(located) as database:
        return scan_ledger(database, bronze)


def scan_ledger(database: duckdb.DuckDBPyConnection, bronze: str) -> Ledger:
    """Read which files a bronze table knows; ``bronze`` is the address of its metadata file."""
    fields = ", ".join(f"_cdc_ledger.{name}" for name in LEDGER_FIELDS)
    rows = database.execute(
        f"SELECT _cdc_file, _cdc_position, _cdc_batch, {fields} FROM {scan(bronze)} WHERE _cdc_kind = 'file'"
    ).fetchall()
    return Ledger.of(rows)
