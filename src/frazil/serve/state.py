"""State of a lake and new files of its sources, read without a JVM, as input of ``plan``."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from frazil.catalog.catalogs import NoLakeError
from frazil.catalog.trouble import as_frazil_error
from frazil.catalog.warehouse import verify_catalog
from frazil.duck import connect, scan
from frazil.errors import FrazilError, StorageError
from frazil.iceberg.snapshot import BookmarkLostError, day_of_horizon, today, verify_bookmark
from frazil.plan.layout import BRONZE, QUARANTINE, SILVER
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
from frazil.serve.tables import read_snapshot, tables, verify_manifests
from frazil.sources.base import SourceDelta
from frazil.sources.kinds import source_of
from frazil.sources.ledger import LEDGER_FIELDS, Ledger
from frazil.spec.tables import gold_table, source_tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from frazil.catalog.catalogs import Located
    from frazil.spec import Gold, Pipeline, Table
    from frazil.spec.sql.select import Selection


_NONE: Final[Mapping[str, FrazilError]] = MappingProxyType({})


def state(
    pipeline: Pipeline, selection: Selection, uncaptured: Mapping[str, FrazilError] = _NONE, *, rebuild: bool = False
) -> State:
    """Read the state from which a run of some tables and aggregates would start.

    Tables that are not selected are read only if a selected aggregate reads them, and without their sources. If a
    table cannot be read (missing folder, changed file, damaged metadata), its error is in ``failed`` and the other
    tables are read. A lake that does not exist yet has an empty state.

    Args:
        pipeline: the declaration.
        selection: selected tables and aggregates.
        uncaptured: table -> error with which its capture failed; these tables are in ``failed``.
        rebuild: do not verify silver and marts, because the run replaces them.

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
        except Exception as error:  # noqa: BLE001 - any error fails this table only
            failed[table.name] = as_frazil_error(error, pipeline)
    marks: dict[str, Mapping[str, Any]] = {}
    for one in pipeline.gold:
        try:
            marks[one.name] = _bookmark(pipeline, one, located, rebuild=rebuild)
        except BookmarkLostError as error:
            marks[one.name], failed[f"gold.{one.name}"] = {}, error
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


def _bookmark(pipeline: Pipeline, gold: Gold, located: Located, *, rebuild: bool) -> Mapping[str, Any]:
    """Return an aggregate's bookmark; empty if it cannot be read, so that its refresh runs and reports the error."""
    made = gold_table(pipeline, gold)
    try:
        found = read_snapshot(located.get(made.key))
    except StorageError:
        return {}
    if not rebuild:
        verify_bookmark(made.full_name, found, table=gold.name)
    return found.own_bookmark


def _ledger(located: Located, bronze: str) -> Ledger:
    verify_manifests(bronze)
    with connect(located) as database:
        return scan_ledger(database, bronze)


def scan_ledger(database: duckdb.DuckDBPyConnection, bronze: str) -> Ledger:
    """Read the ledger of a bronze table; ``bronze`` is the address of its metadata file."""
    fields = ", ".join(f"_cdc_ledger.{name}" for name in LEDGER_FIELDS)
    rows = database.execute(
        f"SELECT _cdc_file, _cdc_position, _cdc_batch, {fields} FROM {scan(bronze)} WHERE _cdc_kind = 'file'"
    ).fetchall()
    return Ledger.of(rows)
