"""Where the tables of a lake are, and where each of them stands: from the catalog and the metadata files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.errors import StorageError
from frazil.lake.catalogs import Located, NoLakeError, catalog_reader
from frazil.lake.damage import DamagedTableError, local_path
from frazil.lake.metadata import read_metadata
from frazil.lake.snapshot import TableSnapshot, metadata_snapshot
from frazil.lake.warehouse import verify_catalog

if TYPE_CHECKING:
    from frazil.spec import Pipeline


class NotOnThisMachineError(StorageError):
    """Metadata that is not a file of this machine."""

    code = "FZ305"
    retryable = False

    def __init__(self, location: str) -> None:
        super().__init__(
            f"{location} is not on this machine; plan, status, check, query and key read local disks only",
            hint="nothing was written; ask Spark, Trino or DuckDB with the store's credentials: see 'Reading' in "
            "docs/operating.md. frazil run, rebuild and maintain work on it",
        )


def tables(pipeline: Pipeline) -> Located:
    """List all tables of the catalog, those of other pipelines included, as they are at this moment.

    Raises:
        NoLakeError: the catalog was never written.
        CatalogBehindError: the embedded one is lost, and the warehouse has tables of the pipeline.
        CatalogError: it does not answer.
        CatalogClientError: it is a service and ``frazil[catalogs]`` is not installed.
    """
    try:
        return catalog_reader(pipeline).tables()
    except NoLakeError:
        for table in pipeline.tables:
            verify_catalog(pipeline, table, None)
        raise


def read_snapshot(location: str | None, snapshot: int | None = None) -> TableSnapshot:
    """Read where a table stands, or stood.

    Args:
        location: address of the metadata file; None for a table that does not exist, which stands nowhere.
        snapshot: one of its snapshots; the newest of main by default.

    Raises:
        NotOnThisMachineError: the address is in an object store.
        DamagedTableError: the file is gone or damaged.
    """
    if location is None:
        return TableSnapshot()
    path = local_path(location)
    if path is None:
        raise NotOnThisMachineError(location)
    try:
        return metadata_snapshot(read_metadata(path), location, snapshot)
    except (OSError, ValueError, LookupError) as error:
        raise DamagedTableError(location, "cannot be read" if path.exists() else "is missing") from error
