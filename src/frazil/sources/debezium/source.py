"""Files of Debezium's events as a source; a capture of a topic lands such files."""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import HistoryChangedError
from frazil.formats.csv_lines import UNREADABLE, open_text
from frazil.formats.json_lines import JsonLinesFile, NoObjectError, lines_form
from frazil.sources.base import (
    EventMeaning,
    LoadMeaning,
    NewFile,
    PlainMeaning,
    RecordMeaning,
    SnapshotMeaning,
    stored_path,
)
from frazil.sources.debezium.forms import CUT_BEFORE_UPDATE, OtherFormError, RecordFormError
from frazil.sources.debezium.place import BEFORE_CHANGES, READS_FIRST, event_of
from frazil.sources.debezium.record import CLASSES, DELETES, Records, change_class
from frazil.sources.eras import without_era
from frazil.sources.landed_files import LANDED, lost_files, lost_message
from frazil.sources.new_files import Content, NameOrderError, misordered
from frazil.sources.record_files import JSON_LINES, RecordFiles
from frazil.sources.trail import Trail
from frazil.spec.location import locate
from frazil.spec.model.kinds.debezium import BEFORE, END, OP, POSITION, TIME
from frazil.spec.sql.names import quote
from frazil.storage.base import Found, MissingFolderError, Passed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from frazil.formats.records import RecordReader
    from frazil.sources.base import SourceDelta, SourceFile
    from frazil.sources.ledger import Ledger
    from frazil.spec import Table
    from frazil.storage.base import Entry

_BESIDE: Final = re.compile(r"\.(keys|headers)\.[a-z]+(\.gz)?$")
"""Names of the files that Kafka Connect writes for keys and headers (``store.kafka.keys``)."""


@dataclass(frozen=True, slots=True)
class DebeziumSource(RecordFiles):
    """Files of JSON lines, one event each."""

    endings = JSON_LINES

    @property
    def settle_seconds(self) -> float:
        """Return the age from which an incomplete file is taken."""
        return float(self.table.source.settle_seconds)

    def find_new(self, folder: Path, ledger: Ledger) -> SourceDelta:
        """Find the files that bronze does not have.

        Raises:
            LostOffsetsError: messages of a captured topic are missing between bronze's files and the new ones.
            NameOrderError: only file names order the changes, and their text order differs from their numbers.
        """
        found = RecordFiles.find_new(self, folder, ledger)
        self._verify_names(found.files, ledger)
        self.verify_landing(folder, ledger.files, [file.path for file in (*found.files, *found.duplicates)])
        return found

    def entries(self, declared: str, folder: Path) -> Iterable[Entry]:
        """Find the files, without those of keys and headers beside the records; a topic has none before its capture."""
        try:
            found = [*RecordFiles.entries(self, declared, folder)]
        except MissingFolderError:
            if self.table.source.topic is None:
                raise
            return
        for entry in found:
            yield Passed(entry.uri) if isinstance(entry, Found) and _BESIDE.search(entry.name) else entry

    def why_passed(self, path: str) -> str:
        """Return why a file is ignored."""
        beside = "keys or headers, which say nothing without the records beside them; a topic has both"
        return beside if _BESIDE.search(path) else RecordFiles.why_passed(self, path)

    def _verify_names(self, files: Sequence[NewFile], ledger: Ledger) -> None:
        """Refuse names that order flat rows without a place in another way than their numbers."""
        if self.table.source.form != "flat" or self.table.source.topic is not None or self.table.sequence_by:
            return
        newest = max(ledger.places, key=lambda path: ledger.places[path], default="").rpartition("/")[2]
        wrong = misordered((newest, *(file.name for file in files)))
        if wrong is not None and any(file.name in wrong and self._lacks_place(file) for file in files):
            hint = "write the numbers with leading zeros, or let records say their place, such as __source_ts_ms"
            raise NameOrderError(self.table.name, *wrong, hint=f"{hint}; then frazil drop, and run again")

    def _lacks_place(self, file: NewFile) -> bool:
        """Return whether the first record of a file has no position of its own."""
        records = Records(self.table, file.name)
        try:
            with open_text(file.uri) as lines:
                for line in lines:
                    with suppress(NoObjectError, UnicodeDecodeError):
                        if (found := records.fields(line.decode())) is not None:
                            return found[POSITION] is None
        except (OSError, UnicodeError, *UNREADABLE):
            pass
        return False

    def verify_landing(self, folder: Path, taken: Collection[str], new: Collection[str]) -> None:
        """Refuse messages of a captured topic that do not go on where those end that bronze has, or lack some."""
        if self.table.source.topic is not None:
            verify_messages(self.table, folder, taken)
            verify_offsets(self.table.name, taken, new)

    def json_columns(self, file: SourceFile, lines: Iterable[bytes]) -> tuple[tuple[str, str], ...]:
        """Return the columns of the rows in events, with their types.

        Raises:
            RecordFormError: no record has the declared form and some have another one.
        """
        return self.json_content(file, lines).columns

    def json_content(self, file: SourceFile, lines: Iterable[bytes]) -> Content:
        """Return the same columns, and which servers and tables the events are of; raise the same."""
        trail = Trail()
        records, is_any, other, first = Records(self.table, file.name, trail=trail), False, None, ""
        is_array = False
        for line in lines:
            try:
                is_any |= records.fields(line.decode()) is not None
            except OtherFormError as error:
                other = other or error.form
            except NoObjectError as error:
                # A value that is wrong leaves the record its key.
                is_any |= bool(error.said)
                first = first or (line.decode() if f"{error}".startswith("malformed_json") else "")
                # The last object of an array has no comma behind it, and would be the only record.
                is_array |= line.strip() == b"[" and not records.types.keys() - self.table.source.own_fields.keys()
            except UnicodeDecodeError:
                continue
        other = other or lines_form(first)
        if records.ends_before_update and self.table.source.topic is None:
            raise RecordFormError(file.path, CUT_BEFORE_UPDATE)
        if other is not None and (is_array or not is_any):
            raise RecordFormError(file.path, other)
        return Content(tuple(records.types.values()), trail=trail.all(), tables=tuple(trail.tables))

    def open(self, file: SourceFile, names: tuple[str, ...], **limits: int) -> RecordReader:
        """Open a file.

        Args:
            file: file to open.
            names: columns of its fields, in file order.
            limits: as for :meth:`read`.
        """
        columns = {name.lower(): name for name in names}
        turns = dict(file.turns) if isinstance(file, NewFile) else {}
        return JsonLinesFile(file.uri, columns, None, Records(self.table, file.name, turns).fields, **limits)

    def order_field(self) -> str:
        """Return the field with the place of each event."""
        return POSITION

    def meaning(self, fields: Mapping[str, str], position: str) -> RecordMeaning:
        """Return the meaning of events."""
        # All reads of one snapshot share a place in the log. If places are times, snapshots cannot be distinguished.
        read = f"regexp_extract({position}, '^(.*?/0/)', 1)"
        snapshot = f"CASE WHEN {read} <> '' AND NOT contains({read}, '{READS_FIRST}') THEN {read} END"
        event = event_of(position)
        before = {key: f"{BEFORE}{key}".lower() for key in self.table.keys}
        old = {key: fields[name] for key, name in before.items() if name in fields}
        old = old if len(old) == len(before) else {}
        told = fields.get(TIME)
        operation = quote(fields[OP]) if OP in fields else "CAST(NULL AS string)"
        return RecordMeaning(
            operation=operation,
            change_class=change_class("_cdc_op"),
            old_keys={key: quote(name) for key, name in old.items()},
            happened="CAST(NULL AS string)" if told is None else quote(told),
            event=EventMeaning(place=event, operation=fields[OP], deletes=DELETES) if OP in fields else None,
            plain=PlainMeaning(operation=fields.get(OP), classes=CLASSES, old_keys=old, happened=told),
            load=None if OP not in fields else self._load_meaning(fields, position, snapshot),
            snapshot=self._snapshot_meaning(fields, snapshot),
        )

    def _load_meaning(self, fields: Mapping[str, str], position: str, snapshot: str) -> LoadMeaning:
        # Where the source moved to another server, positions begin with a number of the server.
        part = f"regexp_extract({position}, '^(.*?){READS_FIRST}([0-9]{{20}})', "
        time = f"nullif(concat({part}1), {part}2)), '')"
        return LoadMeaning(
            operation=fields[OP],
            reads=("r", "read"),
            name=snapshot,
            ends=END in fields or self.table.source.snapshots == "partial",
            time=time,
            is_read=f"contains({position}, '{READS_FIRST}') OR contains({position}, '{BEFORE_CHANGES}')",
        )

    def _snapshot_meaning(self, fields: Mapping[str, str], place: str) -> SnapshotMeaning | None:
        source = self.table.source
        if END not in fields or TIME not in fields or source.snapshots == "partial":
            return None
        return SnapshotMeaning(
            end=fields[END],
            time=fields[TIME],
            place=place,
            name=without_era(place),
            is_whole=True if source.snapshots == "whole" else None,
            limit=source.max_delete_fraction,
        )

    def reading(self) -> dict[str, Any]:
        """Return the settings that determine the records."""
        source = self.table.source
        read = source.model_dump(mode="json", include={"table", "form", "op", "encodings", "unavailable"})
        read |= {"names": source.names} if source.names else {}
        paths = [path for places in source.locations.values() for path in places]
        return {"path": paths, "by_place": False, "keys": [*self.table.keys], **read}


NAME: Final = re.compile(r"(\d{20})-(\d{20})\.jsonl(\.gz)?")
"""First offset, offset after the last message, and ``.gz`` if compressed."""


class LostOffsetsError(HistoryChangedError):
    """A topic lost messages after the last landed one, or was replaced by another topic with its name."""

    code = "FZ707"


def verify_messages(table: Table, folder: Path, taken: Collection[str]) -> None:
    """Refuse a landing folder without messages that were landed and not taken.

    Messages that were landed again, in a file of other offsets, are not missing.

    Args:
        table: a table of a topic.
        folder: folder of the declaration.
        taken: paths of the files that bronze has.

    Raises:
        LostOffsetsError: the message names the first file.
    """
    root = locate(table.source.landing, setting="landing", folder=folder).path
    noted = [] if root is None else sorted((root / str(table.source.topic)).glob(f"*/*/{LANDED}"))
    for place in (found.parent for found in noted):
        lost = lost_files(place, taken, depth=2)
        if not lost:
            continue
        below = "/".join(place.parts[-2:])
        here = [f"{below}/{file.name}" for file in place.iterdir()]
        ranges = _ranges([*here, *(path for path in taken if path.rpartition("/")[0].endswith(below))])
        if lost := [name for name in lost if not _is_covered(name, sorted((first, upto) for _, first, upto in ranges))]:
            gap = stored_path(f"{place / lost[0].removesuffix('.gz')}", folder)
            raise LostOffsetsError(
                lost_message(table.name, place, lost, folder),
                hint="put it back; or let Debezium read the table again (a blocking snapshot finds deleted rows too), "
                f"then continue after the gap: touch '{gap}'",
            )


def _is_covered(name: str, ranges: Iterable[tuple[int, int]]) -> bool:
    """Return True if sorted ranges of offsets have all those of a landing file."""
    found = NAME.fullmatch(name)
    if found is None:
        return False
    reached, end = int(found[1]), int(found[2])
    for first, upto in ranges:
        if first <= reached:
            reached = max(reached, upto)
    return reached >= end


def verify_offsets(table: str, known: Iterable[str], new: Iterable[str]) -> None:
    """Refuse new files of a partition if messages between them and bronze's files are missing.

    This happens if the landing folder was lost or belongs to another host, and the topic has discarded the messages.

    Args:
        table: name of the table.
        known: paths of files that bronze has.
        new: paths of new files.

    Raises:
        LostOffsetsError: messages are missing; the error names the offsets.
    """
    ends: defaultdict[str, int] = defaultdict(lambda: -1)
    for folder, _, upto in _ranges(known):
        ends[folder] = max(ends[folder], upto)
    for folder, first, upto in sorted(_ranges(new)):
        end = ends[folder]
        if 0 <= end < first:
            raise LostOffsetsError(
                f"table {table!r}: the lake has {folder} up to offset {end}, but the next landed offset is {first}: "
                "messages are missing, because the landing folder was lost or replaced",
                hint="restore the landing folder; or let Debezium read the table again (a blocking snapshot finds "
                f"deleted rows too), then continue after the gap: touch '{folder}/{end:020}-{first:020}.jsonl'",
            )
        ends[folder] = max(end, upto)


def _ranges(paths: Iterable[str]) -> list[tuple[str, int, int]]:
    found = ((path.rpartition("/")[0], NAME.fullmatch(path.rpartition("/")[2])) for path in paths)
    return [(folder, int(name[1]), int(name[2])) for folder, name in found if name]
