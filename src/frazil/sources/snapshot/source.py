"""The differences between dumps as a source."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from frazil.sources.base import Listing, PlainMeaning, RecordMeaning, change_position
from frazil.sources.record_files import PARQUET, RecordFiles, with_types
from frazil.sources.snapshot.dumps import DumpGoneError, landing_folder, unsettled, verify_dumps
from frazil.spec.model.kinds.snapshot import OP, TAKEN_AT
from frazil.spec.sql.names import quote
from frazil.storage.files import find

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from frazil.sources.base import SourceDelta, SourceFile
    from frazil.sources.ledger import Ledger
    from frazil.sources.new_files import Content
    from frazil.storage.base import Entry
    from frazil.storage.files import HashedFile

AFTER = " after "
"""Separator of two dump names in the name of a file of differences; dump names never contain it."""


class SnapshotSource(RecordFiles):
    """Files of differences: op i and u are upserts, d is a delete with the values of the old row."""

    settle_seconds = 0.0

    def entries(self, declared: str, folder: Path) -> Iterable[Entry]:
        """Find the files of differences; empty before the first dump."""
        del declared
        place = landing_folder(self.table, folder)
        return find(f"{place}", folder, PARQUET) if place.is_dir() else ()

    def list(self, folder: Path, ledger: Ledger | None = None) -> Listing:
        """List the files of differences; dumps that may be incomplete are refused with a reason."""
        listing = super().list(folder, ledger)
        return replace(listing, refused=(*listing.refused, *unsettled(self.table, folder)))

    def find_new(self, folder: Path, ledger: Ledger) -> SourceDelta:
        """Find the files that bronze does not have.

        Raises:
            DumpGoneError: bronze has dumps from another landing folder, or from one that was lost.
        """
        found = super().find_new(folder, ledger)
        self.verify_landing(folder, ledger.files, [file.path for file in found.files])
        return found

    def verify_landing(self, folder: Path, taken: Collection[str], new: Collection[str]) -> None:
        """Refuse a folder without differences that were landed and not taken, and a dump compared with none later."""
        verify_dumps(self.table, folder, taken)
        newest = max(map(_dump_of, taken), default=None)
        for path in new:
            is_first = not path.rpartition("/")[2].removesuffix(PARQUET[0]).partition(AFTER)[2]
            # Only the oldest dump is compared with none.
            if newest is not None and is_first and _dump_of(path) > newest:
                raise DumpGoneError(
                    f"table {self.table.name!r}: the lake has dump {newest}, but {_dump_of(path)} was not "
                    f"compared with it: the landing folder {self.table.source.landing} was lost or replaced",
                    hint="restore the landing folder, without newer files; or start over, without the history: "
                    f"frazil drop --select {self.table.name}",
                )

    def inspect(self, hashed: HashedFile, file: SourceFile) -> Content:
        """Inspect a file; dumps of a database have its types."""
        content = super().inspect(hashed, file)
        is_typed = self.table.source.types_fields and not content.broken
        return replace(content, columns=with_types(file, content.columns)) if is_typed else content

    def named_fields(self, file: SourceFile) -> tuple[tuple[str, str], ...] | None:
        """Return the columns that a file names, with the types of the database; None if it cannot be read."""
        named = super().named_fields(file)
        return with_types(file, named) if named is not None and self.table.source.types_fields else named

    def position(self, path: str, name: str) -> str:
        """Return the position of a dump; its differences from any other dump share it."""
        del path
        return change_position(name.partition(AFTER)[0])

    def meaning(self, fields: Mapping[str, str], position: str) -> RecordMeaning:
        """Return the meaning of the op."""
        del position
        said = quote(fields[OP]) if OP in fields else "CAST(NULL AS string)"
        is_upsert = "CASE WHEN _cdc_op IN ('i', 'u') THEN 'upsert' WHEN _cdc_op = 'd' THEN 'delete' END"
        told, classes = fields.get(TAKEN_AT), {"i": "upsert", "u": "upsert", "d": "delete"}
        plain = PlainMeaning(operation=fields.get(OP), classes=classes, happened=told)
        happened = "CAST(NULL AS string)" if told is None else quote(told)
        return RecordMeaning(operation=said, change_class=is_upsert, old_keys={}, happened=happened, plain=plain)

    def reading(self) -> dict[str, Any]:
        """Return the settings that determine the records."""
        source = self.table.source
        # For dumps of a database, the place does not determine the records.
        return {"path": [] if source.path is None else [source.path], "by_place": not self.table.sequence_by}


def _dump_of(path: str) -> str:
    """Return the name of the newer dump of a file of differences."""
    return path.rpartition("/")[2].partition(AFTER)[0]
