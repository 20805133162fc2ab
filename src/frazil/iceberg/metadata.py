"""Read metadata files, manifest lists and manifests, wherever they are, and say which of them are damaged."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import fastavro

from frazil.errors import StorageError
from frazil.iceberg.snapshot import ancestors, known_snapshots
from frazil.spec.model.pipeline import Namespaces
from frazil.spec.model.stores import is_store
from frazil.spec.tables import lake_tables
from frazil.storage.files import storage_of
from frazil.storage.object_store import StoreAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from frazil.spec import Pipeline


_FILE: Final = re.compile(
    r"(?:[a-z][a-z0-9+.-]*:)?/+[^\n]*?/(?:metadata|data)/[^\n\"']*?\.(?:metadata\.json|avro|parquet|puffin|orc|stats)"
)
_TABLE: Final = re.compile(r".*/([^/]+)/([^/]+)/(?:metadata|data)/")


class DamagedTableError(StorageError):
    """A file of a table is missing, cut off or has unexpected content.

    Attributes:
        table: the table with its namespace, such as ``marts.hosts``.
        path: the file, as the table's metadata names it.
    """

    code = "FZ306"
    retryable = False

    def __init__(self, path: str, why: str, *, pipeline: Pipeline | None = None) -> None:
        found = _TABLE.match(path)
        self.path, self.table = path, f"{found[1]}.{found[2]}" if found else "a table"
        super().__init__(f"{self.table} is damaged: {path} {why}")
        self.advise(pipeline)

    def advise(self, pipeline: Pipeline | None) -> None:
        """Write the hint for a pipeline: which tables to rebuild, or that bronze cannot be rebuilt."""
        namespace, _, name = self.table.rpartition(".")
        self.hint = _cure(namespace, name, pipeline, is_here=local_path(self.path) is not None)


def damaged(text: str, *, pipeline: Pipeline | None = None) -> DamagedTableError | None:
    """Return the error for the first table file that a message names; None if it names none.

    The type of an error says that a file could not be read; only the message says which file.
    """
    named = _FILE.search(text)
    if named is None:
        return None
    path = local_path(named[0])
    gone = path is not None and not path.exists()
    return DamagedTableError(named[0], "is missing" if gone else "cannot be read", pipeline=pipeline)


def local_path(location: str) -> Path | None:
    """Return the path of an address on this machine's disk; None for another address.

    Addresses are not percent-encoded.
    """
    if re.match(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:", location):
        return None
    return Path(re.sub(r"^file:(//[^/]*(?=/))?", "", location))


def folder_addresses(location: str) -> tuple[str, ...]:
    """Return a table's folder in every spelling that Iceberg's metadata may use.

    Args:
        location: address of its metadata file.
    """
    path = local_path(location)
    if path is None:
        scheme, sign, rest = location.partition("://")
        folder = f"{rest.rpartition('/metadata/')[0]}/"
        names = ("s3", "s3a", "s3n") if scheme in {"s3", "s3a", "s3n"} else (scheme,)
        return tuple(f"{name}{sign}{folder}" for name in names)
    folder = f"{path.parent.parent}/"
    return folder, f"file:{folder}", f"file://{folder}"


def _cure(namespace: str, name: str, pipeline: Pipeline | None, *, is_here: bool) -> str:
    back = "go back to the newest version that is whole: frazil doctor --repair; or " if is_here else ""
    known = {made.key: made for made in lake_tables(pipeline)} if pipeline else {}
    made = known.get((namespace, name))
    spaces = pipeline.lake.namespaces if pipeline else Namespaces()
    if made.role == "bronze" if made else namespace == spaces.bronze:
        return (
            f"{back}restore the file from a backup of the lake; bronze holds what came and nothing can make it again: "
            "see 'A damaged table' in docs/recovery.md"
        )
    select = f" --select {made.made_of}" if made and made.role != "gold" else ""
    again = f"make the table again from bronze: frazil run --full-refresh{select}"
    return f"{back}restore the file from a backup of the lake, or {again}"


class NotOnThisMachineError(StorageError):
    """The metadata's address can only be read by Spark."""

    code = "FZ305"
    retryable = False

    def __init__(self, location: str) -> None:
        super().__init__(
            f"{location} is neither on this machine nor in a store that plan, status, check, query and key can read",
            hint="nothing was written; ask Spark or Trino: see 'Reading' in docs/tables.md. frazil run, rebuild and "
            "maintain work on it",
        )


def read_metadata(location: str) -> dict[str, Any]:
    """Read a table's metadata file, as Iceberg's table format has it.

    Args:
        location: its address, or path.

    Raises:
        OSError: the file does not exist.
        ValueError: the file is cut off, or is not metadata.
        NotOnThisMachineError: Frazil has no client for its address.
        ObjectStoreError: an object store refuses the request, or does not answer.
    """
    content = read_file(location)
    try:
        found = json.loads(gzip.decompress(content) if ".gz.metadata" in location else content)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{location}: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{location}: no object")  # noqa: TRY004 - a damaged file, not a wrong argument
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


def read_file(location: str) -> bytes:
    """Return the bytes of a metadata file, by its address or path.

    Raises:
        OSError: the file does not exist.
        NotOnThisMachineError: Frazil has no client for its address.
        ObjectStoreError: an object store refuses the request, or does not answer.
    """
    path = local_path(location)
    if path is None and not is_store(location):
        raise NotOnThisMachineError(location)
    with storage_of(location).open(location) if path is None else path.open("rb") as file:
        return file.read()


_REMOVED: Final = 2
"""Status of a manifest's entry for a file that the table no longer has."""


def manifests(manifest_list: str, read: Callable[[str], bytes] = read_file) -> Iterator[dict[str, Any]]:
    """Yield the entries of a manifest list, one for each manifest.

    Args:
        manifest_list: its address.
        read: returns the bytes of a file.

    Raises:
        DamagedTableError: the file is missing, cannot be read, or has an entry without an address.
        NotOnThisMachineError: Frazil has no client for its address.
        ObjectStoreError: an object store refuses the request, or does not answer.
    """
    return _entries(manifest_list, "manifest_path", read)


def live_files(manifest: str, read: Callable[[str], bytes] = read_file) -> Iterator[dict[str, Any]]:
    """Yield the entries of a manifest, one for each data or delete file that the table still has.

    Args:
        manifest: its address.
        read: returns the bytes of a file.

    Raises:
        As :func:`manifests`.
    """
    return (entry for entry in _entries(manifest, "data_file", read) if entry["status"] != _REMOVED)


def _entries(location: str, has: str, read: Callable[[str], bytes]) -> Iterator[dict[str, Any]]:
    """Yield the entries of an Avro file; each must have the field ``has``."""
    try:
        found: list[Any] = list(fastavro.reader(BytesIO(read(location))))
    except StorageError:
        raise
    except OSError as error:
        raise unreadable(location, error.strerror) from error
    except Exception as error:
        # Bytes that are not Avro, or were damaged, can raise any error.
        raise unreadable(location, f"{error}" or type(error).__name__) from error
    for entry in found:
        if not isinstance(entry, dict) or has not in entry:
            raise unreadable(location, f"an entry without {has}")
        yield entry


def same_store(location: str, other: str) -> str:
    """Return an address from a table's file, with the credentials of the table's own address."""
    return location.beside(other) if isinstance(location, StoreAddress) else other


def unreadable(location: str, why: str | None) -> DamagedTableError:
    """Return the error for a file that cannot be read."""
    path = local_path(location)
    return DamagedTableError(location if path is None else f"{path}", f"cannot be read: {why}")


def expirable(metadata: Mapping[str, Any], *, older_than_ms: int, retain_last: int) -> list[int]:
    """Return the commit times of the snapshots that may expire, in milliseconds since 1970, oldest first.

    The rules are those of Iceberg's ``expire_snapshots``: heads of branches and tags stay. A branch also keeps its
    ``retain_last`` newest snapshots and the ones that are not older than the limit. Retention settings of a branch
    itself take precedence.

    Args:
        metadata: the table's metadata file, as Iceberg's table format has it.
        older_than_ms: only snapshots from before this time may expire.
        retain_last: number of newest snapshots that each branch keeps at any age.
    """
    snapshots = known_snapshots(metadata)
    kept: set[int] = set()
    for ref in metadata.get("refs", {}).values():
        if ref.get("type") == "tag":
            kept.add(ref["snapshot-id"])
            continue
        least = ref.get("min-snapshots-to-keep", retain_last)
        age_ms = ref.get("max-snapshot-age-ms")
        since = older_than_ms if age_ms is None else metadata["last-updated-ms"] - age_ms
        for number, snapshot in enumerate(ancestors(ref["snapshot-id"], snapshots.get)):
            if number >= least and snapshot["timestamp-ms"] < since and number:
                break
            kept.add(snapshot["snapshot-id"])
    return sorted(
        snapshot["timestamp-ms"]
        for name, snapshot in snapshots.items()
        if name not in kept and snapshot["timestamp-ms"] < older_than_ms
    )
