"""Which snapshot each table of a query had at a point in the past."""

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
    """Return the snapshots that some tables had at a point.

    Args:
        as_of: the point, as :func:`frazil.iceberg.time_travel.read_point` reads it.
        located: the tables, and where their metadata is.
        used: those that have to be readable then; others are left out where they are not.

    Raises:
        PointError: the text is no point, or means two; or one of ``used`` has no snapshot of then.
        NotOnThisMachineError: there is no client for where a table is.
        ObjectStoreError: an object store refuses the request, or does not answer.
        DamagedTableError: a metadata file is gone or damaged.
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
    """Read a table's metadata, as Iceberg's table format has it.

    Raises:
        NotOnThisMachineError: there is no client for the address.
        ObjectStoreError: the object store refuses the request, or does not answer.
        DamagedTableError: the file is gone or damaged.
    """
    try:
        return read_metadata(location)
    except FileNotFoundError as error:
        raise DamagedTableError(location, "is missing") from error
    except (OSError, ValueError) as error:
        raise DamagedTableError(location, "cannot be read") from error
