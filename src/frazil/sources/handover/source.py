"""Landed snapshots and changes of another kind as one source, ordered by their times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from frazil.formats.records import Changed
from frazil.sources.base import Listing, RecordMeaning, SourceDelta, change_position
from frazil.sources.capture import VerifiesLanding
from frazil.sources.handover.capture import TakenFieldError, handover_time, snapshots_table
from frazil.sources.record_files import PARQUET, RecordFiles
from frazil.sources.snapshot.source import landing_folder, unsettled, verify_dumps
from frazil.spec.check.composed import changes_table
from frazil.spec.model.kinds.handover import (
    AT,
    BEGINS,
    OF_CHANGE,
    OF_SNAPSHOT,
    OWN,
    PLACE,
    ROW,
    SNAPSHOT,
    STEP,
    TIME_SIGNS,
    time_text,
)
from frazil.spec.sql.names import literal, quote
from frazil.storage.files import find

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from frazil.formats.records import Parsed
    from frazil.sources.base import FileRecords, NewFile, Source, SourceFile
    from frazil.sources.ledger import Ledger
    from frazil.spec import Table
    from frazil.storage.base import Entry

_SNAPSHOTS: Final = "snapshots"
_OWN_PLACE: Final = len("1/") + TIME_SIGNS + len(OF_CHANGE) + 1
"""Index, from 1, in a handover position at which the position among the changes begins."""


@dataclass(frozen=True, slots=True)
class _Landed(RecordFiles):
    """Landed snapshots: a record for the begin of a snapshot, then its rows."""

    def entries(self, declared: str, folder: Path) -> Iterable[Entry]:
        """Find the landing files; empty before the first snapshot."""
        del declared
        place = landing_folder(self.table, folder)
        return find(f"{place}", folder, PARQUET) if place.is_dir() else ()

    def position(self, path: str, name: str) -> str:
        """Return the position of a snapshot: its time, before changes of the same time."""
        del path
        at, snapshot = handover_time(name)
        return change_position(f"{at}{OF_SNAPSHOT}{snapshot}")

    @property
    def settle_seconds(self) -> float:
        """Return 0: landing files are complete."""
        return 0.0

    def reading(self) -> dict[str, Any]:
        """Return that records of snapshots have their own place."""
        return {"by_place": False}


class HandoverSource:
    """Snapshots and changes of one table.

    A snapshot is a truncate followed by its rows, at its time. The position of a change is its time followed by the
    position from its own kind, so that changes of one time keep their order.
    """

    def __init__(self, table: Table, source_of: Callable[[Table], Source]) -> None:
        self.table = table
        of_changes = changes_table(table)
        assert of_changes is not None  # noqa: S101 - it is a handover
        # Times order the changes, not the places of files.
        ordered = of_changes.model_copy(update={"sequence_by": (table.source.time_field,)})
        self.changes = source_of(ordered)
        self.snapshots = _Landed(snapshots_table(table))

    def list(self, folder: Path) -> Listing:
        """List the files of both; snapshots that may be incomplete are refused with a reason."""
        landed, changes = self.snapshots.list(folder), self.changes.list(folder)
        files = [*(replace(file, variant=_SNAPSHOTS) for file in landed.files), *map(_marked, changes.files)]
        return Listing(
            files=tuple(sorted(files, key=lambda file: (file.position, file.path))),
            refused=(*landed.refused, *changes.refused, *unsettled(self.snapshots.table, folder)),
            passed=(*landed.passed, *changes.passed),
        )

    def find_new(self, folder: Path, ledger: Ledger) -> SourceDelta:
        """Find the files that bronze does not have.

        Raises:
            TakenFieldError: a file of changes has a field with a name that Frazil adds.
        """
        verify_dumps(self.snapshots.table, folder, ledger.files)
        landed, changes = self.snapshots.find_new(folder, ledger), self.changes.find_new(folder, ledger)
        for file in changes.files:
            if taken := [name for name, _ in file.fields if name.lower() in OWN]:
                raise TakenFieldError(self.table.name, file.path, taken[0])
        files = [*(replace(file, variant=_SNAPSHOTS) for file in landed.files), *map(_marked, changes.files)]
        return replace(
            changes,
            files=tuple(sorted(files, key=lambda file: (file.position, file.path))),
            duplicates=(
                *(replace(one, variant=_SNAPSHOTS) for one in landed.duplicates),
                *map(_marked, changes.duplicates),
            ),
            deferred=(*landed.deferred, *changes.deferred, *unsettled(self.snapshots.table, folder)),
            known=landed.known + changes.known,
            passed=(*landed.passed, *changes.passed),
        )

    def verify_landing(self, folder: Path, taken: Collection[str], new: Collection[str]) -> None:
        """Refuse missing snapshots, and let the kind of the changes tell whether its landing files go on."""
        verify_dumps(self.snapshots.table, folder, taken)
        if isinstance(self.changes, VerifiesLanding):
            self.changes.verify_landing(folder, taken, new)

    def columns(self, files: Sequence[NewFile], existing: Sequence[str]) -> tuple[str, ...]:
        """Return bronze's columns; the columns that Frazil adds come first."""
        found = tuple(name for name in existing if name not in OWN)
        found = self.changes.columns([_bare(file) for file in files if file.variant != _SNAPSHOTS], found)
        landed = [file for file in files if file.variant == _SNAPSHOTS]
        found = tuple(name for name in self.snapshots.columns(landed, found) if name not in OWN)
        return (*existing, *(name for name in (*OWN, *found) if name not in existing))

    def named_fields(self, file: SourceFile) -> tuple[tuple[str, str], ...] | None:
        """Return the columns of a file as text, because snapshots and changes write values differently."""
        if file.variant == _SNAPSHOTS:
            named = self.snapshots.named_fields(file)
        else:
            named = self.changes.named_fields(_bare(file))
            named = None if named is None else tuple(self.changes.known_fields({}, [named]).items())
        return None if named is None else tuple((name, "string") for name, _ in named)

    def known_fields(self, existing: Mapping[str, str], named: Sequence[Sequence[tuple[str, str]]]) -> dict[str, str]:
        """Return bronze's columns, all text."""
        found = {name.lower(): name for name in existing}
        for fields in named:
            # A file of changes without a header has the declared fields.
            for name, _ in fields or self.changes.known_fields({}, [fields]).items():
                found.setdefault(name.lower(), name)
        return dict.fromkeys((*OWN, *(name for name in found.values() if name not in OWN)), "string") if found else {}

    def read(self, file: NewFile, columns: Sequence[str], **limits: int) -> FileRecords:
        """Open a file that is not broken; each change gets its time and its place.

        Args:
            file: file from :meth:`find_new`.
            columns: bronze's columns.
            limits: ``block_bytes`` and ``record_bytes`` of the format, for tests.
        """
        if file.variant == _SNAPSHOTS:
            return self.snapshots.read(file, columns, **limits)
        bare = _bare(file)
        opened = self.changes.read(bare, [name for name in columns if name not in OWN], **limits)
        placing = Placing(self.table.source.time_field, opened.order_field, bare.position)
        return replace(
            opened,
            reader=Changed(opened.reader, placing.placed),
            known=None if opened.known is None else [*OWN, *opened.known],
            order_field=PLACE,
        )

    def recount(self, uri: str) -> int:
        """Count the records of a file; landed snapshots are ordinary Parquet files."""
        return self.changes.recount(uri)

    def meaning(self, fields: Mapping[str, str], position: str) -> RecordMeaning:
        """Return the meaning of changes from their own kind, and of snapshots as a truncate followed by rows."""
        others = {lower: name for lower, name in fields.items() if lower not in OWN}
        meaning = self.changes.meaning(others, f"substring({position}, {_OWN_PLACE})")
        # The plain meaning of changes does not cover the truncate of a snapshot in the same batch.
        meaning = replace(meaning, plain=None, snapshot=None)
        if STEP not in fields or AT not in fields:
            return meaning
        step, at, name = quote(fields[STEP]), quote(fields[AT]), quote(fields[SNAPSHOT])
        left_out = ", ".join(map(literal, self.table.source.leave_out))
        is_left_out = (
            f"WHEN {name} IN ({left_out}) THEN 'the declaration leaves this snapshot out' " if left_out else ""
        )
        no_time = literal(f"no time in {self.table.source.time_field}")
        return replace(
            meaning,
            operation=f"coalesce({step}, {meaning.operation})",
            change_class=f"CASE WHEN {step} = {literal(ROW)} THEN 'upsert' WHEN {step} = {literal(BEGINS)} "
            f"THEN 'truncate' WHEN {step} IS NULL THEN {meaning.change_class} END",
            happened=at,
            problem=f"CASE {is_left_out}WHEN {at} IS NULL THEN {no_time} ELSE {meaning.problem} END",
        )

    def advice(self, named: Sequence[Sequence[tuple[str, str]]]) -> str | None:
        """Return a likely mistake in the settings of the changes; None without a guess."""
        return self.changes.advice([fields for fields in named if all(name not in OWN for name, _ in fields)])

    def reading(self) -> dict[str, Any]:
        """Return the settings that determine the records: those of the changes, and the field with their time."""
        return {**self.changes.reading(), "by_place": False, "time": self.table.source.time_field}


@dataclass(frozen=True, slots=True)
class Placing:
    """Adds time and place to changes.

    Attributes:
        time_field: field with the time, in any case.
        order_field: column with the place among the changes; None if the place is the file's position.
        position: position of the file.
    """

    time_field: str
    order_field: str | None
    position: str

    def placed(self, parsed: Parsed) -> Parsed:
        """Add the columns; a change without a time gets neither and goes to quarantine."""
        count = len(parsed.rows)
        name = next((name for name in parsed.fields if name.lower() == self.time_field.lower()), None)
        times = [None] * count if name is None else [*map(_moment, parsed.fields[name].to_pylist())]
        own = [self.position] * count
        if self.order_field in parsed.fields:
            places = parsed.fields[self.order_field].to_pylist()
            own = [change_position(place) if place else self.position for place in places]
        places = [None if at is None else f"{at}{OF_CHANGE}{place}" for at, place in zip(times, own, strict=True)]
        none = pa.nulls(count, pa.string())
        added = {AT: pa.array(times, pa.string()), SNAPSHOT: none, STEP: none, PLACE: pa.array(places, pa.string())}
        known = parsed.known
        if known is not None:
            lists = [None if names is None else [*OWN, *names] for names in known.to_pylist()]
            known = pa.array(lists, pa.list_(pa.string()))
        return replace(parsed, fields={**added, **parsed.fields}, known=known)


def _moment(text: str | None) -> str | None:
    """Return a time as sortable text; None for an invalid time."""
    if text is None:
        return None
    try:
        return time_text(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        return None


def _marked(file: Any) -> Any:
    # Times order changes across servers.
    file = replace(file, trail=()) if hasattr(file, "trail") else file
    return replace(file, variant=f"changes\n{file.variant}")


def _bare(file: Any) -> Any:
    return replace(file, variant=file.variant.partition("\n")[2])
