"""Bytes that a contender's tables gained and gave up, read from the disk and the tables' own metadata.

The count is the same for all contenders, and independent of their own reports. Iceberg tables are known by their
``metadata`` folders, Delta tables by ``_delta_log``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Footprint:
    """A folder of tables at one moment.

    Attributes:
        files: size in bytes of every file, by path.
        replaced: bytes of data and delete files that commits took out of tables so far, by commit.
    """

    files: dict[str, int]
    replaced: dict[str, int]

    def written_since(self, before: Footprint) -> int:
        """Bytes of files that are here and were not before: data, deletes and metadata."""
        return sum(size for path, size in self.files.items() if path not in before.files)

    def replaced_since(self, before: Footprint) -> int:
        """Bytes of files that commits since then took out of their table; they may still be on disk."""
        return sum(size for commit, size in self.replaced.items() if commit not in before.replaced)


def footprint(folder: Path) -> Footprint:
    """Look at all tables below a folder."""
    files = {str(path): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    replaced = dict(_iceberg(folder)) | dict(_delta(folder))
    return Footprint(files, replaced)


def _iceberg(folder: Path) -> Iterator[tuple[str, int]]:
    for metadata in folder.rglob("metadata"):
        newest = max(metadata.glob("*.metadata.json"), key=lambda path: path.stat().st_mtime_ns, default=None)
        if newest is None:
            continue
        for snapshot in json.loads(newest.read_text(encoding="utf-8")).get("snapshots", []):
            size = int(snapshot.get("summary", {}).get("removed-files-size", 0))
            yield f"{metadata}#{snapshot['snapshot-id']}", size


def _delta(folder: Path) -> Iterator[tuple[str, int]]:
    for log in folder.rglob("_delta_log"):
        for commit in log.glob("*.json"):
            lines = commit.read_text(encoding="utf-8").splitlines()
            removed = (json.loads(line).get("remove") for line in lines if line)
            yield str(commit), sum(int(entry.get("size") or 0) for entry in removed if entry)
