"""The differences between dumps as a source."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from frazil.sources.base import Listing, PlainMeaning, RecordMeaning, change_position
from frazil.sources.record_files import PARQUET, RecordFiles, with_types
from frazil.sources.snapshot.dumps import DumpGoneError, landing_folder, unsettled
from frazil.spec.model.kinds.snapshot import OP, TAKEN_AT
from frazil.spec.sql.names import quote
from frazil.storage.files import find

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from frazil.sources.base import SourceDelta, SourceFile
    from frazil.sources.ledger import Ledger
    from frazil.sources.new_files import Content
    from frazil.storage.base import Entry
    from frazil.storage.files import HashedFile

AFTER = " after "
"""What stands between the names of two dumps in the name of a file of their differences; no name of a dump has it."""


class SnapshotSource(RecordFiles):
    """Files of differences: op i and u are upserts, d is a delete with the values that the row had."""

    settle_seconds = 0.0

    def entries(self, declared: str, folder: Path) -> Iterable[Entry]:
        """Find the files of differences; none before the first dump was taken."""
        del declared
        place = landing_folder(self.table, folder)
        return find(f"{place}", folder, PARQUET) if place.is_dir() else ()

    def list(self, folder: Path, ledger: Ledger | None = None) -> Listing:
        """List the files of differences; dumps that may still be written wait, and a run says so."""
        listing = super().list(folder, ledger)
        return replace(listing, refused=(*listing.refused, *unsettled(self.table, folder)))

    def find_new(self, folder: Path, ledger: Ledger) -> SourceDelta:
        """Find what bronze does not hold.

        Raises:
            DumpGoneError: bronze has dumps that were landed elsewhere, or in a folder that was lost.
        """
        found = super().find_new(folder, ledger)
        newest = max(map(_dump_of, ledger.files), default=None)
        for file in found.files:
            is_first = not file.name.removesuffix(PARQUET[0]).partition(AFTER)[2]
            # Only the oldest dump is compared with none.
            if newest is not None and is_first and _dump_of(file.path) > newest:
                raise DumpGoneError(
                    f"table {self.table.name!r}: the lake has dump {newest}, and {_dump_of(file.path)} was compared "
                    f"with none: the landing folder {self.table.source.landing} was lost, or is another one",
                    hint="put the folder back, without what came since; or begin again, without the history: "
                    f"frazil drop --select {self.table.name}",
                )
        return found

    def inspect(self, hashed: HashedFile, file: SourceFile) -> Content:
        """Look into a file: its columns have the types of the database, where it has one."""
        content = super().inspect(hashed, file)
        is_typed = self.table.source.types_fields and not content.broken
        return replace(content, columns=with_types(file, content.columns)) if is_typed else content

    def named_fields(self, file: SourceFile) -> tuple[tuple[str, str], ...] | None:
        """Return the columns that a file names, with the types of the database; None if it cannot be read."""
        named = super().named_fields(file)
        return with_types(file, named) if named is not None and self.table.source.types_fields else named

    def position(self, path: str, name: str) -> str:
        """Return the position of a dump: all its differences, from whichever other dump, have the same."""
        del path
        return change_position(name.partition(AFTER)[0])

    def meaning(self, fields: Mapping[str, str], position: str) -> RecordMeaning:
        """Return what the op says."""
        del position
        said = quote(fields[OP]) if OP in fields else "CAST(NULL AS string)"
        is_upsert = "CASE WHEN _cdc_op IN ('i', 'u') THEN 'upsert' WHEN _cdc_op = 'd' THEN 'delete' END"
        told, classes = fields.get(TAKEN_AT), {"i": "upsert", "u": "upsert", "d": "delete"}
        plain = PlainMeaning(operation=fields.get(OP), classes=classes, happened=told)
        happened = "CAST(NULL AS string)" if told is None else quote(told)
        return RecordMeaning(operation=said, change_class=is_upsert, old_keys={}, happened=happened, plain=plain)

    def reading(self) -> dict[str, Any]:
        """Return the settings that records depend on."""
        source = self.table.source
        # Dumps of a database have no place that anything depends on.
        return {"path": [] if source.path is None else [source.path], "by_place": not self.table.sequence_by}


def _dump_of(path: str) -> str:
    """Return the name of the dump that a file of differences leads to."""
    return path.rpartition("/")[2].partition(AFTER)[0]
