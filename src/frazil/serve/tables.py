"""Addresses and snapshots of a lake's tables, now and at a point in the past, and whether their files exist.

DuckDB must not read a damaged manifest: its Avro reader ends the process, or then fails on every other manifest. In an
object store a manifest is complete or missing, and DuckDB's own error says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.catalog.catalogs import Located, NoLakeError, catalog_reader
from frazil.catalog.conf import lake_address
from frazil.catalog.warehouse import verify_catalog
from frazil.iceberg.metadata import (
    DamagedTableError,
    NotOnThisMachineError,
    live_files,
    local_path,
    manifests,
    metadata_of,
    same_store,
    unreadable,
)
from frazil.iceberg.snapshot import TableSnapshot, metadata_snapshot
from frazil.iceberg.time_travel import PointError, cut_names, read_point, snapshot_at
from frazil.spec.model.stores import is_store, split
from frazil.spec.tables import ERASE_UNFINISHED, erased_table
from frazil.storage.object_store import StoreAddress
from frazil.storage.store_client import keys

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from frazil.catalog.catalogs import Located
    from frazil.spec import Pipeline, Table

    Path = tuple[str, str]


def tables(pipeline: Pipeline, *, of_others: bool = False, only: Collection[tuple[str, str]] | None = None) -> Located:
    """List the current tables of a pipeline. A catalog in a database lists tables of other pipelines as well.

    Args:
        pipeline: the declaration.
        of_others: include tables of others in the pipeline's namespaces, also if that takes a request for each table.
        only: (namespace, table) of those that are looked for; None for all.

    Raises:
        NoLakeError: the catalog was never written.
        CatalogBehindError: the embedded catalog is lost, but the warehouse has tables of the pipeline.
        CatalogError: the catalog does not answer.
        CatalogClientError: the catalog is a service, and ``frazil[catalogs]`` is not installed.
    """
    try:
        found = catalog_reader(pipeline).tables(of_others=of_others, only=only)
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
        return metadata_snapshot(metadata_of(location), location, snapshot)
    except (ValueError, LookupError) as error:
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
    found: str | None = metadata_of(location).get("properties", {}).get(ERASE_UNFINISHED)
    return found


def snapshots_at(as_of: str, located: Located, used: Collection[Path]) -> dict[Path, int]:
    """Return the snapshot of each table at a point.

    Args:
        as_of: the point, as text for :func:`frazil.iceberg.time_travel.read_point`.
        located: the tables, each with the address of its metadata.
        used: tables that must have a snapshot of that point; other tables without one are left out.

    Raises:
        PointError: the text is not a point, or is ambiguous; or a table in ``used`` has no snapshot of that point.
        NotOnThisMachineError: no client for a table's address is installed.
        ObjectStoreError: an object store refuses the request, or does not answer.
        DamagedTableError: a metadata file is missing or damaged.
    """
    metadata = {path: metadata_of(location) for path, location in located.items()}
    point = read_point(as_of, cut_names(metadata.values()))
    found: dict[Path, int] = {}
    for path, known in metadata.items():
        try:
            found[path] = snapshot_at(".".join(path), known, point)
        except PointError:
            if path in used:
                raise
    return found


def verify_manifests(location: str, snapshot: int | None = None) -> None:
    """Verify that a table's metadata, manifest list and manifests are complete, before DuckDB scans it.

    Data files are not checked: DuckDB reports a missing one itself.

    Args:
        location: address of the table's metadata file.
        snapshot: one of its snapshots; None for the newest.

    Raises:
        DamagedTableError: a file is missing or has another size than when it was written; the first one is named.
        NotOnThisMachineError: no client for the table's address is installed.

    Cost: reads two small files and the size of each manifest; in an object store only the metadata file.
    """
    if isinstance(location, StoreAddress):
        read_snapshot(location, snapshot)
        return
    for manifest in _listed(location, snapshot):
        _look_at(manifest["manifest_path"], manifest["manifest_length"])


def verify_data_files(location: str) -> None:
    """Verify that every file of a table's newest snapshot exists with its size; read manifests to their end.

    Args:
        location: address of the table's metadata file.

    Raises:
        DamagedTableError: as :func:`verify_manifests`, for data files too; or a manifest cannot be read.
        NotOnThisMachineError: no client for the table's address is installed.

    Cost: reads all manifests, and the size of each data file without opening it. In an object store it lists the
    table's folder.
    """
    sizes = _sizes(location) if isinstance(location, StoreAddress) else None
    for manifest in _listed(location):
        path = manifest["manifest_path"]
        for entry in live_files(same_store(location, path)):
            _look_at(entry["data_file"]["file_path"], entry["data_file"]["file_size_in_bytes"], sizes)


def _sizes(location: StoreAddress) -> dict[str, int]:
    """Return the sizes of the objects below a table's folder, by key."""
    prefix = location.key.rpartition("/metadata/")[0]
    return {one["path"]: one["size"] for some in keys(location.access, prefix) for one in some}


def _listed(location: str, snapshot: int | None = None) -> Iterator[dict[str, Any]]:
    if (listed := read_snapshot(location, snapshot).manifest_list) is not None:
        yield from manifests(same_store(location, listed))


def _look_at(location: str, size_bytes: int, sizes: Mapping[str, int] | None = None) -> None:
    """Verify that a file has its size; ``sizes`` are the sizes in an object store."""
    path = local_path(location)
    if sizes is not None and is_store(location):
        found = sizes.get(split(location)[1])
    elif path is None:
        raise NotOnThisMachineError(location)
    else:
        try:
            found = path.stat().st_size
        except OSError as error:
            raise unreadable(location, error.strerror) from error
    if found is None:
        raise unreadable(location, "no such object")
    if found != size_bytes:
        raise unreadable(location, f"{found} bytes, {size_bytes} were written")
