"""Addresses and newest snapshots of a lake's tables, from the catalog and the metadata files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.catalog.catalogs import Located, NoLakeError, catalog_reader
from frazil.catalog.conf import lake_address
from frazil.catalog.warehouse import verify_catalog
from frazil.iceberg.damage import DamagedTableError
from frazil.iceberg.metadata import read_metadata
from frazil.iceberg.snapshot import TableSnapshot, metadata_snapshot
from frazil.spec.tables import ERASE_UNFINISHED, erased_table

if TYPE_CHECKING:
    from frazil.spec import Pipeline, Table


def tables(pipeline: Pipeline, *, of_others: bool = False) -> Located:
    """List the current tables of a pipeline. A catalog in a database lists tables of other pipelines as well.

    Args:
        pipeline: the declaration.
        of_others: include tables of others in the pipeline's namespaces, also if that takes a request for each table.

    Raises:
        NoLakeError: the catalog was never written.
        CatalogBehindError: the embedded catalog is lost, but the warehouse has tables of the pipeline.
        CatalogError: the catalog does not answer.
        CatalogClientError: the catalog is a service, and ``frazil[catalogs]`` is not installed.
    """
    try:
        found = catalog_reader(pipeline).tables(of_others=of_others)
    except NoLakeError:
        for table in pipeline.tables:
            verify_catalog(pipeline, table, None)
        raise
    return {path: lake_address(pipeline, location) for path, location in found.items()}


def read_snapshot(location: str | None, snapshot: int | None = None) -> TableSnapshot:
    """Read a table's snapshot.

    Args:
        location: address of the metadata file; None for a table that does not exist, whose snapshot is empty.
        snapshot: one of its snapshots; None for the newest of main.

    Raises:
        DamagedTableError: the file is missing or damaged.
        NotOnThisMachineError: no client for its address is installed.
        ObjectStoreError: the object store refuses the request, or does not answer.
    """
    if location is None:
        return TableSnapshot()
    try:
        return metadata_snapshot(read_metadata(location), location, snapshot)
    except FileNotFoundError as error:
        raise DamagedTableError(location, "is missing") from error
    except (OSError, ValueError, LookupError) as error:
        raise DamagedTableError(location, "cannot be read") from error


def unfinished_erase(pipeline: Pipeline, table: Table, located: Located) -> str | None:
    """Return the name of a source table's erase that is running or was killed; None without one.

    Raises:
        DamagedTableError, NotOnThisMachineError, ObjectStoreError: as for :func:`read_snapshot`.

    Cost: reads one metadata file if anything was ever erased.
    """
    location = located.get(erased_table(pipeline, table).key)
    if location is None:
        return None
    try:
        found: str | None = read_metadata(location).get("properties", {}).get(ERASE_UNFINISHED)
    except FileNotFoundError as error:
        raise DamagedTableError(location, "is missing") from error
    except (OSError, ValueError, LookupError) as error:
        raise DamagedTableError(location, "cannot be read") from error
    return found
