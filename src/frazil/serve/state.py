"""Where a lake stands and what its sources offer, read without a JVM: what ``plan`` starts from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.errors import FrazilError, StorageError
from frazil.lake.catalogs import NoLakeError
from frazil.lake.trouble import explained
from frazil.lake.warehouse import verify_catalog
from frazil.plan.state import (
    BRONZE,
    QUARANTINE,
    SILVER,
    State,
    TableState,
    gold_problems,
    gold_state,
    moved_marts,
    table_state,
)
from frazil.serve.duck import connect, scan
from frazil.serve.manifests import verify_manifests
from frazil.serve.tables import read_snapshot, tables
from frazil.sources.offer import LEDGER_FIELDS, Ledger, offer
from frazil.spec.tables import gold_table, source_tables

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from frazil.lake.catalogs import Located
    from frazil.spec import Pipeline, Table


def state(pipeline: Pipeline, names: Collection[str] | None = None) -> State:
    """Read what a run of some tables, by default all, would start from. A lake that does not exist yet stands nowhere.

    A table for which that fails (a missing folder, a known file with other content, damaged metadata) is in
    ``failed`` with the error, and stops no other.

    Raises:
        StorageError: the catalog cannot be read.
    """
    try:
        located = tables(pipeline)
    except NoLakeError:
        located = {}
    found: dict[str, TableState] = {}
    failed: dict[str, FrazilError] = {}
    for table in pipeline.tables:
        if names is not None and table.name not in names:
            continue
        try:
            found[table.name] = _table(pipeline, table, located)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this table's
            failed[table.name] = explained(error, pipeline)
    marks = {gold.name: _bookmark(located.get(gold_table(pipeline, gold).key)) for gold in pipeline.gold}
    gold = gold_state(pipeline, marks)
    return State(tables=found, failed=failed | gold_problems(pipeline, found, gold), gold=gold)


def _table(pipeline: Pipeline, table: Table, located: Located) -> TableState:
    made = source_tables(pipeline, table)
    bronze = located.get(made.bronze.key)
    verify_catalog(pipeline, table, bronze)
    marts = {mart.name: read_snapshot(located.get(mart.key)) for mart in made.marts}
    bookmarks = {
        BRONZE: read_snapshot(bronze).bookmark,
        SILVER: read_snapshot(located.get(made.changes.key)).bookmark,
        QUARANTINE: read_snapshot(located.get(made.quarantine.key)).bookmark,
    } | {name: mart.bookmark for name, mart in marts.items()}
    moved_marts(pipeline, table, bookmarks)
    ledger = _ledger(located, bronze) if bronze and bookmarks[BRONZE] else Ledger()
    rows = {name: mart.records for name, mart in marts.items()}
    return table_state(pipeline, table, bookmarks, offer(table, pipeline.folder, ledger), rows)


def _bookmark(location: str | None) -> Mapping[str, Any]:
    """Bookmark of an aggregate; one that cannot be read counts as never computed, and its refresh tells why."""
    try:
        return read_snapshot(location).bookmark
    except StorageError:
        return {}


def _ledger(located: Located, bronze: str) -> Ledger:
    fields = ", ".join(f"_cdc_ledger.{name}" for name in LEDGER_FIELDS)
    verify_manifests(bronze)
    with connect(located) as database:
        rows = database.execute(
            f"SELECT _cdc_file, _cdc_position, _cdc_batch, {fields} FROM {scan(bronze)} WHERE _cdc_kind = 'file'"
        ).fetchall()
    return Ledger.of(rows)
