"""Hashes of all files of a table's newest snapshot.

A snapshot names its manifest list, the list names manifests, and manifests name data and delete files. Files never
change, so only the files that no certificate covers yet need to be read.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from frazil.host import usable_cores
from frazil.iceberg.damage import local_path
from frazil.iceberg.metadata import entries, read_metadata, same_store, unreadable
from frazil.iceberg.snapshot import spark_columns
from frazil.storage.files import sha256_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_DELETED: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHistory:
    """A table's snapshots, seen from its newest one or an older one.

    Attributes:
        location: address of the metadata file.
        snapshot: None for a table without one.
        snapshots: all that can still be read, by id, as Iceberg writes them to JSON.
        columns: names and types.
        folder: address of the table's folder.
    """

    location: str
    snapshot: int | None
    snapshots: Mapping[int, Mapping[str, Any]]
    columns: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""

    def since(self, older: int | None) -> list[Mapping[str, Any]] | None:
        """Return the snapshots after an older one, oldest first; None if the older one is not a known ancestor."""
        found: list[Mapping[str, Any]] = []
        at = self.snapshot
        while at is not None and at != older:
            if at not in self.snapshots:
                return None  # an ancestor has expired, so the snapshots in between are unknown
            found.append(self.snapshots[at])
            at = self.snapshots[at].get("parent-snapshot-id")
        return found[::-1] if at == older else None

    @property
    def newest(self) -> Mapping[str, Any]:
        """The snapshot, as Iceberg writes it to JSON; empty for none."""
        return {} if self.snapshot is None else self.snapshots[self.snapshot]

    @property
    def rows(self) -> int:
        """Rows that can be read, by the snapshot's summary: no row is deleted twice."""
        summary = self.newest.get("summary", {})
        return int(summary.get("total-records", 0)) - int(summary.get("total-position-deletes", 0))

    def short(self, address: str) -> str:
        """Return a file's address from the table's folder on."""
        file, folder = (f"{local_path(one) or one.partition('://')[2]}".rstrip("/") for one in (address, self.folder))
        return file.removeprefix(folder).lstrip("/")


def read_table_history(location: str) -> TableHistory:
    """Read a table's metadata file.

    Raises:
        DamagedTableError: it is gone or damaged.
        NotOnThisMachineError, ObjectStoreError: it cannot be reached.
    """
    try:
        metadata = read_metadata(location)
        schemas = {schema["schema-id"]: schema["fields"] for schema in metadata.get("schemas", ())}
        snapshots = {one["snapshot-id"]: one for one in metadata.get("snapshots", ())}
        head = metadata.get("refs", {}).get("main", {}).get("snapshot-id", metadata.get("current-snapshot-id"))
        columns = spark_columns(schemas.get(metadata.get("current-schema-id"), ()))
        folder = f"{metadata['location']}"
    except FileNotFoundError as error:
        raise unreadable(location, "no such file") from error
    except (OSError, ValueError, LookupError) as error:
        raise unreadable(location, f"{error}") from error
    known = head if head in snapshots else None
    return TableHistory(location=location, snapshot=known, snapshots=snapshots, columns=columns, folder=folder)


def snapshot_files(table: TableHistory, new: Collection[int] | None = None) -> tuple[list[str], list[str]]:
    """List the files of a table's newest snapshot by address: its list of manifests and manifests, then all others.

    Args:
        table: the table.
        new: ids of snapshots: only what these have added; all by default.

    Cost: reads the list, and each manifest that one of these snapshots has written.
    """
    listed = table.newest.get("manifest-list")
    if listed is None:
        return [], []
    above, rows = [listed], []
    for manifest in entries(same_store(table.location, listed), "manifest_path"):
        added_by = manifest.get("added_snapshot_id")
        if new is not None and added_by not in new:
            continue
        above.append(manifest["manifest_path"])
        for entry in entries(same_store(table.location, manifest["manifest_path"]), "data_file"):
            by = added_by if entry.get("snapshot_id") is None else entry["snapshot_id"]
            if entry["status"] != _DELETED and (new is None or by in new):
                rows.append(entry["data_file"]["file_path"])
    return above, rows


def file_hashes(table: TableHistory, addresses: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of files, by their addresses from the table's folder on.

    Raises:
        DamagedTableError: a file is missing or cannot be read.
    """

    def one(address: str) -> tuple[str, str]:
        path = local_path(address)
        try:
            return table.short(address), sha256_of(same_store(table.location, address) if path is None else f"{path}")
        except OSError as error:
            raise unreadable(address, error.strerror or f"{error}") from error

    with ThreadPoolExecutor(usable_cores()) as pool:
        return dict(pool.map(one, addresses))
