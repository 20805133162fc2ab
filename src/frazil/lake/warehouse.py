"""What the folders of a warehouse hold, seen without its catalog: whether the catalog is lost, older, or another's.

A table's folder keeps every version of its metadata, ``00007-<uuid>.metadata.json``. A catalog that knows an older
version, or none, was lost or restored; to go on from there would take files twice or lose what is no longer at the
source. Only bronze is looked at: everything else is computed from it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import HistoryChangedError
from frazil.lake.damage import local_path
from frazil.lake.metadata import read_metadata
from frazil.lake.snapshot import metadata_snapshot
from frazil.spec import EmbeddedCatalog
from frazil.spec.location import warehouse
from frazil.spec.tables import source_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from frazil.spec import Pipeline, Table

_METADATA: Final = re.compile(r"(\d+)-[0-9a-f-]+(\.gz)?\.metadata\.json")


class CatalogBehindError(HistoryChangedError):
    """The warehouse holds tables, or versions of them, that its catalog does not know."""

    code = "FZ703"

    def __init__(self, name: str, what: str) -> None:
        self.name = name
        super().__init__(
            f"the catalog is lost, emptied or older than its warehouse: {what}",
            hint="frazil doctor --repair registers the newest version of every table in the warehouse; or restore the "
            "catalog that belongs to it",
        )


class WarehouseMovedError(HistoryChangedError):
    """The catalog of a warehouse names files of another warehouse."""

    code = "FZ704"

    def __init__(self, folder: Path, location: Path) -> None:
        self.folder, self.location = folder, location
        super().__init__(
            f"the warehouse {folder} was copied or moved: its catalog names files such as {location}",
            hint="Iceberg's files have absolute addresses: move the folder back to where it was, or begin in an empty "
            "folder and let a run take all files of the sources again",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version of a table's metadata.

    Attributes:
        path: its file.
        number: the version.
        metadata: what it says, as Iceberg's table format has it.
    """

    path: Path
    number: int
    metadata: Mapping[str, Any]

    @property
    def bookmark(self) -> Mapping[str, Any]:
        """The bookmark of the newest snapshot that carries one; empty for a table that nothing was committed to."""
        return metadata_snapshot(self.metadata).bookmark


def verify_catalog(pipeline: Pipeline, table: Table, location: str | None) -> None:
    """Refuse to go on from a catalog that does not know what the warehouse holds of a table.

    Args:
        pipeline: the declaration.
        table: one of its tables.
        location: address of the metadata that the catalog names for its bronze table; None where it names none.

    Raises:
        CatalogBehindError: the warehouse holds a later version.
        WarehouseMovedError: the embedded catalog names files outside its own warehouse.

    Cost: the listing of one folder; warehouses that are not on this machine's disk are not looked at.
    """
    folder = warehouse(pipeline).path
    if folder is None:
        return
    made = source_tables(pipeline, table)
    name = made.bronze.full_name
    if location is None:
        newest = newest_version(folder.joinpath(*made.bronze.key))
        if newest is not None and newest.bookmark:
            raise CatalogBehindError(name, f"it knows no table {name}, and {newest.path.parent} has one")
        return
    path = local_path(location)
    if path is None:
        return
    if isinstance(pipeline.lake.catalog, EmbeddedCatalog) and not path.resolve().is_relative_to(folder):
        raise WarehouseMovedError(folder, path)
    known, top = _number(path), max((number for _, number in _files(path.parent)), default=0)
    if known is None or top <= known:
        return
    # What cannot be read is half a file that a killed run was writing: no catalog ever had it.
    newest = newest_version(path.parent.parent)
    if newest is None or newest.number <= known:
        return
    if newest.number == known + 1:
        # A run that was killed just before the catalog had its commit leaves one version too; nothing came after it.
        silver = newest_version(folder.joinpath(*made.changes.key))
        batches = [int(version.bookmark.get("batch", 0)) if version else 0 for version in (newest, silver)]
        if batches[1] < batches[0]:
            return
    raise CatalogBehindError(name, f"it knows version {known} of {name}, and {path.parent} has version {newest.number}")


def newest_version(table_folder: Path) -> Version | None:
    """Return the newest version of a table's metadata, None for a folder without any that can be read.

    Of two versions of one number, one of which a killed run left behind, the one that was written last.
    """
    found: list[Version] = []
    for path, number in sorted(_files(table_folder / "metadata"), key=lambda file: -file[1]):
        if found and number < found[0].number:
            break
        if (metadata := _read(path)) is not None:
            found.append(Version(path=path, number=number, metadata=metadata))
    return max(found, key=lambda version: int(version.metadata.get("last-updated-ms", 0)), default=None)


def table_folders(warehouse: Path) -> Iterator[tuple[str, str, Version]]:
    """Find the tables of a warehouse by their folders: namespace, name and newest version. Views are passed over."""
    for folder in sorted(warehouse.glob("*/*/metadata")):
        version = newest_version(folder.parent)
        if version is not None and "format-version" in version.metadata and "view-uuid" not in version.metadata:
            yield folder.parent.parent.name, folder.parent.name, version


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    for path in folder.glob("*.metadata.json"):
        number = _number(path)
        if number is not None:
            yield path, number


def _number(path: Path) -> int | None:
    found = _METADATA.fullmatch(path.name)
    return int(found[1]) if found else None


def _read(path: Path) -> Mapping[str, Any] | None:
    try:
        return read_metadata(f"{path}")
    except (OSError, ValueError):
        return None
