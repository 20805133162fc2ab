"""Errors for missing or unreadable files of a table, with the file, the table and the way to repair it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from frazil.errors import StorageError
from frazil.spec.model.pipeline import Namespaces
from frazil.spec.tables import lake_tables

if TYPE_CHECKING:
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
