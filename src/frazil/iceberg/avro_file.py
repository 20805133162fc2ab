"""Read the entries of Iceberg's files of Avro: lists of manifests, and manifests."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

import fastavro

from frazil.errors import StorageError
from frazil.iceberg.damage import DamagedTableError, local_path
from frazil.iceberg.metadata import read_file
from frazil.storage.object_store import StoreAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def entries(location: str, has: str, read: Callable[[str], bytes] = read_file) -> Iterator[dict[str, Any]]:
    """Yield the entries of a file, each of which must have a field ``has``; ``read`` returns its bytes.

    Raises:
        DamagedTableError: the file is missing, cannot be read, or has an entry without that field.
        NotOnThisMachineError: there is no client for its address.
        ObjectStoreError: an object store refuses the request, or does not answer.
    """
    try:
        found: list[Any] = list(fastavro.reader(BytesIO(read(location))))
    except StorageError:
        raise
    except OSError as error:
        raise unreadable(location, error.strerror) from error
    except Exception as error:
        # Bytes that are no Avro, or other ones than were written, can raise whatever their misreading leads to.
        raise unreadable(location, f"{error}" or type(error).__name__) from error
    for entry in found:
        if not isinstance(entry, dict) or has not in entry:
            raise unreadable(location, f"an entry without {has}")
        yield entry


def same_store(location: str, other: str) -> str:
    """Return an address that a file of a table names, reached as the table is."""
    return location.beside(other) if isinstance(location, StoreAddress) else other


def unreadable(location: str, why: str | None) -> DamagedTableError:
    """Return the error for a file that cannot be read."""
    path = local_path(location)
    return DamagedTableError(location if path is None else f"{path}", f"cannot be read: {why}")
