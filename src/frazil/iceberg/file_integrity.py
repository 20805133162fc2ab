"""Check by names and sizes that the disk has all files of a table's version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil.iceberg.damage import DamagedTableError, local_path
from frazil.iceberg.metadata import entries
from frazil.iceberg.snapshot import RUN_BRANCH, metadata_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_GONE: Final = 2
"""Status of a manifest entry for a removed file."""


def damage_of(metadata: Mapping[str, Any]) -> DamagedTableError | None:
    """Return the first missing or truncated file of a table's newest snapshot; None if the snapshot is complete.

    Older snapshots, and files that are not on this machine's disk, are not checked.

    Args:
        metadata: the table's metadata, as Iceberg's table format has it.

    Cost: reads all manifests of the newest snapshot, and the size of each data and delete file.
    """
    at = metadata_snapshot(metadata)
    if at.manifest_list is None:
        return None
    try:
        for manifest in _manifests(at.manifest_list):
            for entry in entries(manifest["manifest_path"], "data_file"):
                if entry["status"] != _GONE:
                    _require(entry["data_file"]["file_path"], entry["data_file"]["file_size_in_bytes"])
        for statistics in metadata.get("statistics", ()):
            if statistics["snapshot-id"] == at.snapshot_id:
                _require(statistics["statistics-path"], statistics["file-size-in-bytes"])
    except DamagedTableError as damage:
        return damage
    return None


def torn_snapshots(metadata: Mapping[str, Any]) -> list[int]:
    """Return the unpublished snapshots with a missing or truncated manifest.

    A run writes to a branch and flushes to disk only before it publishes. After a power cut its unpublished snapshots
    may lack manifests, which expiring snapshots and removing orphan files would read.

    Args:
        metadata: the table's metadata, as Iceberg's table format has it.

    Cost: reads the manifest list of each unpublished snapshot, and the sizes of its manifests.
    """
    snapshots = {one["snapshot-id"]: one for one in metadata.get("snapshots", ())}
    published = set[int]()
    for name, ref in metadata.get("refs", {}).items():
        at = None if name.startswith(RUN_BRANCH) else snapshots.get(ref["snapshot-id"])
        while at is not None and at["snapshot-id"] not in published:
            published.add(at["snapshot-id"])
            at = snapshots.get(at.get("parent-snapshot-id"))
    return [number for number, one in snapshots.items() if number not in published and _is_torn(one)]


def _is_torn(snapshot: Mapping[str, Any]) -> bool:
    location = snapshot.get("manifest-list")
    if location is None or local_path(location) is None:
        return False
    try:
        list(_manifests(location))
    except DamagedTableError:
        return True
    return False


def _manifests(location: str) -> Iterator[dict[str, Any]]:
    """Yield the entries of a manifest list, after checking the size of each manifest."""
    for manifest in entries(location, "manifest_path"):
        _require(manifest["manifest_path"], manifest["manifest_length"])
        yield manifest


def _require(location: str, size: int) -> None:
    path = local_path(location)
    if path is None:
        return
    try:
        there = path.stat().st_size
    except OSError as error:
        raise DamagedTableError(f"{path}", "is missing") from error
    if there != size:
        raise DamagedTableError(f"{path}", f"has {there:,} bytes of {size:,}")
