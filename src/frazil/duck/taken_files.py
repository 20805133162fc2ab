"""Which files bronze has taken, read without Java."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.bronze import record as r
from frazil.catalog.catalogs import NoLakeError, catalog_reader
from frazil.catalog.conf import lake_address
from frazil.catalog.warehouse import verify_catalog
from frazil.duck.database import connect
from frazil.duck.sql import duck_literal, scan
from frazil.iceberg.damage import DamagedTableError
from frazil.iceberg.files import damage_of
from frazil.iceberg.metadata import read_metadata
from frazil.iceberg.snapshot import metadata_snapshot
from frazil.spec.tables import source_tables
from frazil.storage.object_store import StoreAddress

if TYPE_CHECKING:
    from collections.abc import Collection

    from frazil.spec import Pipeline


def taken_files(pipeline: Pipeline, names: Collection[str]) -> dict[str, list[str]]:
    """Return the paths of the files that bronze has of some source tables; a table without any is left out.

    Raises:
        CatalogBehindError: the embedded catalog is lost, and the warehouse has tables of the pipeline.
        CatalogError: the catalog does not answer.
        CatalogClientError: it is a service and ``frazil[catalogs]`` is not installed.
        DamagedTableError: a file of a bronze table is missing or damaged.
        ObjectStoreError: the object store refuses the request, or does not answer.

    Cost: the catalog, then the ledger of each bronze table.
    """
    try:
        located = catalog_reader(pipeline).tables(of_others=False)
    except NoLakeError:
        located = {}
    found: dict[str, list[str]] = {}
    for table in pipeline.tables:
        if table.name not in names:
            continue
        key = source_tables(pipeline, table).bronze.key
        verify_catalog(pipeline, table, located.get(key))
        if key in located and (paths := _paths(lake_address(pipeline, located[key]))):
            found[table.name] = paths
    return found


def _paths(bronze: str) -> list[str]:
    """Return the files in the ledger of a table; ``bronze`` is the address of its metadata file."""
    try:
        metadata = read_metadata(bronze)
    except (OSError, ValueError) as error:
        raise DamagedTableError(bronze, "cannot be read") from error
    if metadata_snapshot(metadata).manifest_list is None:
        return []
    # DuckDB's reader must not meet a damaged manifest: it ends the process.
    if not isinstance(bronze, StoreAddress) and (damage := damage_of(metadata)):
        raise damage
    with connect({("", ""): bronze}) as database:
        sql = f"SELECT {r.FILE} FROM {scan(bronze)} WHERE {r.KIND} = {duck_literal(r.LEDGER_ROW)}"
        return [path for (path,) in database.execute(sql).fetchall()]
