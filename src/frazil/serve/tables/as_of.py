"""Snapshots of tables at a point in the past."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.iceberg.damage import DamagedTableError
from frazil.iceberg.metadata import read_metadata
from frazil.iceberg.time_travel import PointError, cut_names, read_point, snapshot_at

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from frazil.catalog.catalogs import Located

    Path = tuple[str, str]


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


def metadata_of(location: str) -> Mapping[str, Any]:
    """Read a table's metadata file, in Iceberg's JSON form.

    Raises:
        NotOnThisMachineError: no client for the address is installed.
        ObjectStoreError: the object store refuses the request, or does not answer.
        DamagedTableError: the file is missing or damaged.
    """
    try:
        return read_metadata(location)
    except FileNotFoundError as error:
        raise DamagedTableError(location, "is missing") from error
    except (OSError, ValueError) as error:
        raise DamagedTableError(location, "cannot be read") from error
