"""Whether the disk has all files of a version of a table, as far as their names and sizes tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil.lake.avro_file import entries
from frazil.lake.damage import DamagedTableError, local_path
from frazil.lake.snapshot import metadata_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

_GONE: Final = 2
"""Status of an entry of a manifest that says which file went."""


def damage_of(metadata: Mapping[str, Any]) -> DamagedTableError | None:
    """Return the first file of a table's newest rows that is not there whole; None if all are.

    Older snapshots are not looked at, nor files that are not on this machine's disk.

    Args:
        metadata: the table's metadata, as Iceberg's table format has it.

    Cost: reads all manifests of the newest snapshot, and looks at each file of rows and deletes without opening it.
    """
    at = metadata_snapshot(metadata)
    if at.manifest_list is None:
        return None
    try:
        for manifest in entries(at.manifest_list, "manifest_path"):
            _require(manifest["manifest_path"], manifest["manifest_length"])
            for entry in entries(manifest["manifest_path"], "data_file"):
                if entry["status"] != _GONE:
                    _require(entry["data_file"]["file_path"], entry["data_file"]["file_size_in_bytes"])
        for statistics in metadata.get("statistics", ()):
            if statistics["snapshot-id"] == at.snapshot_id:
                _require(statistics["statistics-path"], statistics["file-size-in-bytes"])
    except DamagedTableError as damage:
        return damage
    return None


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
