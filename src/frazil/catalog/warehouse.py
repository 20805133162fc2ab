"""What the folders of a warehouse hold, seen without its catalog: whether the catalog is lost, older, or another's.

A table's folder keeps every version of its metadata, ``00007-<uuid>.metadata.json``. A catalog that knows an older
version, or none, was lost or restored; to go on from there would take files twice or lose what is no longer at the
source. Only bronze is looked at: everything else is computed from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from frazil.catalog.catalogs import EmbeddedReader, NoLakeError
from frazil.catalog.trouble import CatalogError
from frazil.errors import HistoryChangedError
from frazil.iceberg.files import damage_of
from frazil.iceberg.metadata import DamagedTableError, local_path, read_metadata
from frazil.iceberg.snapshot import metadata_snapshot
from frazil.spec import EmbeddedCatalog
from frazil.spec.location import embedded_catalog, warehouse
from frazil.spec.tables import lake_tables, source_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from frazil.spec import Pipeline, Table

_METADATA: Final = re.compile(r"(\d+)-[0-9a-f-]+(\.gz)?\.metadata\.json")
_END_BYTES: Final = 64

TornTables: TypeAlias = Mapping[tuple[str, str], DamagedTableError]
"""Namespace and name of tables whose metadata cannot be read -> what is wrong."""


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

    @property
    def batch(self) -> int:
        """The newest batch of bronze that the table holds; 0 if it holds none."""
        return metadata_snapshot(self.metadata).batch

    @property
    def is_view(self) -> bool:
        """Whether it is a view, which has no rows of its own."""
        return "view-uuid" in self.metadata


def verify_place(pipeline: Pipeline) -> None:
    """Refuse a warehouse whose embedded catalog names tables of this pipeline outside of it.

    Raises:
        WarehouseMovedError: the warehouse is a copy, whose commands would change its original, or it was moved.

    Cost: one query of a SQLite file; other catalogs are not checked.
    """
    folder = warehouse(pipeline).path
    if folder is None or not isinstance(pipeline.lake.catalog, EmbeddedCatalog):
        return
    # Other problems of the catalog are reported by later reads.
    with suppress(NoLakeError, CatalogError):
        located = EmbeddedReader(embedded_catalog(pipeline)).tables()
        for table in lake_tables(pipeline):
            path = local_path(located[table.key]) if table.key in located else None
            if path is not None and not path.resolve().is_relative_to(folder):
                raise WarehouseMovedError(folder, path)


def verify_catalog(pipeline: Pipeline, table: Table, location: str | None) -> None:
    """Refuse to continue with a catalog that is older than the warehouse's metadata of a table.

    Args:
        pipeline: the declaration.
        table: one of its tables.
        location: address of the metadata that the catalog has for its bronze table; None if it has none.

    Raises:
        CatalogBehindError: the warehouse holds a later version.
        WarehouseMovedError: the embedded catalog names files outside its own warehouse.

    Cost: lists one folder; warehouses that are not on this machine's disk are not checked.
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
    # An incomplete version is of a killed run, or the table was set back from it after a power cut.
    newest = whole_version(path.parent.parent)
    if newest is None or newest.number <= known:
        return
    if newest.number == known + 1:
        # A run that was killed just before its catalog commit also leaves one version, but no later tables.
        silver = newest_version(folder.joinpath(*made.changes.key))
        if silver is None or silver.batch < newest.batch:
            return
    raise CatalogBehindError(name, f"it knows version {known} of {name}, and {path.parent} has version {newest.number}")


def torn_tables(pipeline: Pipeline) -> TornTables:
    """Return the tables with a missing, empty or cut off metadata file in an embedded catalog.

    Iceberg tries to read such a file for a minute and a half before it gives up.

    Returns:
        Namespace and name of each -> its error; empty for other catalogs than the embedded one.

    Cost: one query, and one read of a file's end for each table.
    """
    catalog, folder = pipeline.lake.catalog, warehouse(pipeline).path
    if folder is None or not isinstance(catalog, EmbeddedCatalog):
        return {}
    found: dict[tuple[str, str], DamagedTableError] = {}
    # Other problems of the catalog are reported by later reads.
    with suppress(NoLakeError, CatalogError):
        for key, location in EmbeddedReader(embedded_catalog(pipeline)).tables().items():
            path = local_path(location)
            if path is not None and path.is_relative_to(folder) and _is_torn(path):
                found[key] = DamagedTableError(f"{path}", "cannot be read", pipeline=pipeline)
    return found


def newest_version(table_folder: Path) -> Version | None:
    """Return the newest readable version of a table's metadata; None if the folder has none.

    A killed run can leave a second file with the same version number: the one that was updated last counts.
    """
    found: list[Version] = []
    for path, number in sorted(_files(table_folder / "metadata"), key=lambda file: -file[1]):
        if found and number < found[0].number:
            break
        if (metadata := _read(path)) is not None:
            found.append(Version(path=path, number=number, metadata=metadata))
    return max(found, key=lambda version: int(version.metadata.get("last-updated-ms", 0)), default=None)


def whole_version(table_folder: Path, accepts: Callable[[Version], bool] = lambda _: True) -> Version | None:
    """Return the newest accepted version of a table with all of its files; None if no version qualifies.

    Of several files with the same version number only the last written counts: the others were never committed.

    Args:
        table_folder: the table's folder, with its ``metadata`` folder.
        accepts: returns whether a version may be chosen.

    Cost: as :func:`frazil.iceberg.files.damage_of`, for each version that is checked.
    """
    files = sorted(_files(table_folder / "metadata"), key=lambda file: file[0].stat().st_mtime_ns)
    last = {number: path for path, number in files}
    for number in sorted(last, reverse=True):
        version = read_version(last[number])
        if version is not None and accepts(version) and damage_of(version.metadata) is None:
            return version
    return None


def read_version(path: Path) -> Version | None:
    """Read a version from its file; None if the file is missing, cut off, or not a table's or view's metadata."""
    number, metadata = _number(path), _read(path)
    if number is None or metadata is None or "format-version" not in metadata:
        return None
    return Version(path=path, number=number, metadata=metadata)


def is_torn(table_folder: Path) -> bool:
    """Return whether a view's last version is unreadable, by the view's folder; False if it has no version."""
    last = max(_files(table_folder / "metadata"), key=lambda file: file[1], default=None)
    return last is not None and read_version(last[0]) is None


def table_folders(warehouse: Path) -> Iterator[tuple[tuple[str, str], Path]]:
    """Yield the namespace and name, and the folder, of each table and view in a warehouse."""
    for folder in sorted(warehouse.glob("*/*/metadata")):
        yield (folder.parent.parent.name, folder.parent.name), folder.parent


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    for path in folder.glob("*.metadata.json"):
        number = _number(path)
        if number is not None:
            yield path, number


def _is_torn(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _END_BYTES, 0))
            end = file.read().rstrip()
            return not (end if path.suffixes[-3:-2] == [".gz"] else end.endswith(b"}"))
    except OSError:
        return True


def _number(path: Path) -> int | None:
    found = _METADATA.fullmatch(path.name)
    return int(found[1]) if found else None


def _read(path: Path) -> Mapping[str, Any] | None:
    try:
        return read_metadata(f"{path}")
    except (OSError, ValueError):
        return None
