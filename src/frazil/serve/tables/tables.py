"""Where the tables of a lake are, and where each of them stands: from the catalog and the metadata files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.catalog.catalogs import Located, NoLakeError, catalog_reader
from frazil.catalog.store_conf import lake_address
from frazil.catalog.warehouse import verify_catalog
from frazil.iceberg.damage import DamagedTableError
from frazil.iceberg.metadata import read_metadata
from frazil.iceberg.snapshot import TableSnapshot, metadata_snapshot
from frazil.spec.tables import ERASE_UNFINISHED, erased_table

if TYPE_CHECKING:
    from frazil.spec import Pipeline, Table


def tables(pipeline: Pipeline, *, of_others: bool = False) -> Located:
    """List the tables of a pipeline as they are at this moment; a catalog that is a database gives those of others too.

    Args:
        pipeline: the declaration.
        of_others: also tables of others in the pipeline's namespaces, where a service has to be asked for each.

    Raises:
        NoLakeError: the catalog was never written.
        CatalogBehindError: the embedded one is lost, and the warehouse has tables of the pipeline.
        CatalogError: it does not answer.
        CatalogClientError: it is a service and ``frazil[catalogs]`` is not installed.
    """
    try:
        found = catalog_reader(pipeline).tables(of_others=of_others)
    except NoLakeError:
        for table in pipeline.tables:
            verify_catalog(pipeline, table, None)
        raise
    return {path: lake_address(pipeline, location) for path, location in found.items()}


def read_snapshot(location: str | None, snapshot: int | None = None) -> TableSnapshot:
    """Read where a table stands, or stood.

    Args:
        location: address of the metadata file; None for a table that does not exist, which stands nowhere.
        snapshot: one of its snapshots; the newest of main by default.

    Raises:
        DamagedTableError: the file is gone or damaged.
        NotOnThisMachineError: there is no client for its address.
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
    """Return the name of an erase of a source table that was killed, or is at work; None for none.

    Raises:
        DamagedTableError, NotOnThisMachineError, ObjectStoreError: as for :func:`read_snapshot`.

    Cost: a metadata file, where anything was ever erased.
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
