"""Where the tables of a lake are, and where each of them stands: from the catalog and the metadata files."""

from __future__ import annotations

import gzip
import json
import sqlite3
import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote as percent_encoded

from frazil.errors import StorageError
from frazil.lake.catalog_conf import embedded_catalog
from frazil.lake.damage import DamagedTableError, local_path
from frazil.lake.heads import BOOKMARK
from frazil.lake.trouble import CatalogError
from frazil.lake.warehouse import verify_catalog
from frazil.spec import CATALOG, EmbeddedCatalog

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from frazil.spec import Pipeline

Located = dict[tuple[str, str], str]
"""(namespace, table) -> address of the table's newest metadata file."""

TABLES_SQL: Final = (
    "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables "
    f"WHERE catalog_name = '{CATALOG}' AND COALESCE(iceberg_type, 'TABLE') = 'TABLE'"
)
"""What Iceberg's JDBC catalog knows of tables; views are kept in the same place."""


class NoLakeError(StorageError):
    """Nothing was written yet."""

    code = "FZ304"
    retryable = False

    def __init__(self, where: str) -> None:
        super().__init__(f"no lake yet at {where}", hint="make it: frazil run")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """Where a table stands: the newest snapshot of its main branch.

    Attributes:
        snapshot_id: None for a table without a snapshot.
        bookmark: what the newest bookmark in the snapshot's ancestry says; empty for none.
        columns: names of the table's columns now, with Iceberg's names of their types.
        snapshots: how many snapshots can still be read.
        records: rows in data files, those that delete files take away included.
        position_deletes: rows that delete files take away; a row taken away twice counts twice.
        size_bytes: of data and delete files.
        committed_at: time of the newest snapshot, None for a table without one.
    """

    snapshot_id: int | None = None
    bookmark: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    snapshots: int = 0
    records: int = 0
    position_deletes: int = 0
    data_files: int = 0
    delete_files: int = 0
    size_bytes: int = 0
    committed_at: datetime | None = None

    @property
    def batch(self) -> int:
        """The batch of bronze the table stands at; 0 for none."""
        return int(self.bookmark.get("batch", 0))


def tables(pipeline: Pipeline) -> Located:
    """Find all tables of the catalog, those of other pipelines included, as they are at this moment.

    Raises:
        NoLakeError: the embedded catalog was never written.
        CatalogBehindError: it is lost, and the warehouse has tables of the pipeline.
        CatalogError: the catalog does not answer.
        SetupError: the catalog is a service and ``frazil[catalogs]`` is not installed.
    """
    if isinstance(pipeline.lake.catalog, EmbeddedCatalog):
        try:
            return _embedded(embedded_catalog(pipeline))
        except NoLakeError:
            for table in pipeline.tables:
                verify_catalog(pipeline, table, None)
            raise
    from frazil.serve.catalogs import catalog_tables  # noqa: PLC0415 - its libraries are slow, and optional

    return catalog_tables(pipeline)


def stand(location: str | None) -> Stand:
    """Read where a table stands.

    Args:
        location: address of the metadata file; None for a table that does not exist, which stands nowhere.

    Raises:
        NotOnThisMachineError: the address is in an object store.
        DamagedTableError: the file is gone or damaged.
    """
    if location is None:
        return Stand()
    metadata = _metadata(location)
    snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.get("snapshots", ())}
    newest = metadata.get("refs", {}).get("main", {}).get("snapshot-id", metadata.get("current-snapshot-id"))
    columns = {field["name"]: str(field["type"]) for field in _schema(metadata)["fields"]}
    if newest not in snapshots:
        return Stand(columns=columns, snapshots=len(snapshots))
    summary = snapshots[newest].get("summary", {})
    return Stand(
        snapshot_id=newest,
        bookmark=_bookmark(snapshots, newest),
        columns=columns,
        snapshots=len(snapshots),
        records=int(summary.get("total-records", 0)),
        position_deletes=int(summary.get("total-position-deletes", 0)),
        data_files=int(summary.get("total-data-files", 0)),
        delete_files=int(summary.get("total-delete-files", 0)),
        size_bytes=int(summary.get("total-files-size", 0)),
        committed_at=datetime.fromtimestamp(snapshots[newest]["timestamp-ms"] / 1000, UTC),
    )


def manifest_list(location: str) -> str | None:
    """Find the address of the file that lists the manifests of a table's newest snapshot; None without a snapshot.

    Raises:
        NotOnThisMachineError, DamagedTableError: as :func:`stand`.
    """
    metadata = _metadata(location)
    newest = metadata.get("refs", {}).get("main", {}).get("snapshot-id", metadata.get("current-snapshot-id"))
    listed: dict[int, str] = {
        snapshot["snapshot-id"]: snapshot["manifest-list"] for snapshot in metadata.get("snapshots", ())
    }
    return listed.get(newest)


def damage(location: str) -> DamagedTableError:
    """Build the error for a file of a table that cannot be read."""
    path = local_path(location)
    gone = path is not None and not path.exists()
    return DamagedTableError(location, "is missing" if gone else "cannot be read")


def _embedded(file: Path) -> Located:
    if not file.is_file():
        raise NoLakeError(f"{file.parent}")
    try:
        rows = _rows(file, "ro")
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            raise NoLakeError(f"{file.parent}") from None
        # SQLite reads a log only where it may write beside it; without a log the file alone is the truth.
        if file.with_name(f"{file.name}-wal").exists():
            raise CatalogError(f"the catalog {file} cannot be read: {error}") from error
        rows = _rows(file, "ro&immutable=1")
    except sqlite3.DatabaseError as error:
        raise CatalogError(
            f"the catalog {file} cannot be read: {error}",
            hint="restore it; or let frazil doctor --repair make it again from the warehouse",
        ) from error
    return {(namespace, name): location for namespace, name, location in rows}


def _rows(file: Path, mode: str) -> list[tuple[str, str, str]]:
    connection = sqlite3.connect(f"file:{percent_encoded(f'{file}')}?mode={mode}", uri=True, timeout=30)
    try:
        return connection.execute(TABLES_SQL).fetchall()
    finally:
        connection.close()


def _metadata(location: str) -> dict[str, Any]:
    path = local_path(location)
    if path is None:
        raise NotOnThisMachineError(location)
    try:
        content = path.read_bytes()
        found: dict[str, Any] = json.loads(gzip.decompress(content) if ".gz.metadata" in path.name else content)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise damage(location) from error
    return found


def _schema(metadata: Mapping[str, Any]) -> dict[str, Any]:
    schemas: dict[int, dict[str, Any]] = {schema["schema-id"]: schema for schema in metadata["schemas"]}
    return schemas[metadata["current-schema-id"]]


def _bookmark(snapshots: Mapping[int, Any], newest: int) -> dict[str, Any]:
    at: int | None = newest
    while at is not None and at in snapshots:
        if text := snapshots[at].get("summary", {}).get(BOOKMARK):
            found: dict[str, Any] = json.loads(text)
            return found
        at = snapshots[at].get("parent-snapshot-id")
    return {}
