"""Land whole snapshots, each as a truncate followed by all rows at the time of the snapshot."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.errors import SourceError
from frazil.sources.audit_log.capture import log_rows
from frazil.sources.base import snapshot_position
from frazil.sources.capture import Landed, land_file
from frazil.sources.dms.source import DmsSource
from frazil.sources.landed_files import note_landed
from frazil.sources.postgres.errors import require_driver
from frazil.sources.snapshot.capture import SnapshotCapture, load_rows, loaded_texts, open_scratch
from frazil.sources.snapshot.source import (
    DumpReader,
    UnreadableDumpError,
    dumps_of,
    inspected,
    landing_folder,
    record_batches,
)
from frazil.sources.snapshot.taken import CONTENT, content_of, verify_content
from frazil.spec.check.composed import changes_table
from frazil.spec.model.kinds.audit_log import AuditLog
from frazil.spec.model.kinds.dms import DmsFiles
from frazil.spec.model.kinds.handover import AT, BEGINS, OWN, ROW, SNAPSHOT, STEP, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from frazil.sources.comparison import SourceRows
    from frazil.sources.snapshot.source import Dump
    from frazil.spec import Pipeline, Table


class LoadReader:
    """Reader of a full load of Amazon DMS: rows as text without the op column, with the same columns for all files."""

    def __init__(self, dump: Dump, table: Table, folder: Path) -> None:
        self._source, self._op = DmsSource(table), table.source.op.lower()
        self.files = [
            inspected(file, folder, self._source.inspect, snapshot_position(file.name)) for file in dump.files
        ]
        self._all = self._source.columns(self.files, ())
        self.columns: tuple[str, ...] = tuple(name for name in self._all if name.lower() != self._op)
        """Names of the fields, in order of first appearance."""
        self.types: dict[str, str] = {}
        """Empty: a handover takes types from the declaration."""
        self.unreadable: UnreadableDumpError | None = None

    def batches(self, names: Sequence[str], schema: Any) -> Iterator[Any]:
        """Yield the rows as record batches, as :meth:`frazil.sources.snapshot.source.DumpReader.batches`."""
        opened = ((file.path, self._source.read(file, self._all).reader) for file in self.files)
        try:
            yield from record_batches(opened, names, schema)
        except UnreadableDumpError as error:
            self.unreadable = error


_NAME: Final = "%Y-%m-%dT%H%M%S.%fZ"
_LANDED: Final = (AT, SNAPSHOT, STEP)


class UnknownTimeError(SourceError):
    """The time of a snapshot is unknown or impossible."""

    code = "FZ223"
    retryable = False


class LostFieldError(SourceError):
    """A snapshot lacks a field of a column that an earlier snapshot has."""

    code = "FZ225"
    retryable = False


class TakenFieldError(SourceError):
    """A record has a field with a name that Frazil adds to records of a handover."""

    code = "FZ224"
    retryable = False

    def __init__(self, table: str, where: str, name: str) -> None:
        super().__init__(
            f"table {table!r}: {where} has a field {name!r}, and records of a handover get one of that name",
            hint="rename it at the source, or leave it out",
        )


def snapshots_table(table: Table) -> Table:
    """Return the declared table with the snapshots of a handover as its source."""
    return table.model_copy(update={"source": table.source.dumps})


def handover_time(name: str) -> tuple[str, str]:
    """Return the time, as sortable text, and the snapshot from the name of a landing file."""
    at, _, snapshot = name.removesuffix(".parquet").partition(" ")
    return time_text(datetime.strptime(at, _NAME).replace(tzinfo=UTC)), snapshot


@dataclass(frozen=True, slots=True)
class HandoverCapture(SnapshotCapture):
    """The capture of one table's snapshots; each is landed completely, once.

    Attributes:
        handover: declared table; ``table`` has only the snapshots as its source.
    """

    handover: Table = field(kw_only=True)

    def landed_names(self, folder: Path) -> set[str]:
        """Return the names of landed snapshots."""
        files = landing_folder(self.table, folder).glob("* *.parquet")
        return {handover_time(file.name)[1] for file in files}

    def land_new(self, folder: Path, progress: Callable[[str], None]) -> Landed:
        """Land the new snapshots.

        Raises:
            UnknownTimeError: a snapshot has no time, or a time after the modification of its files.
            DumpChangedError: a landed snapshot has other content now.
            LostFieldError: a snapshot lacks a field that an earlier one has.
        """
        left_out = {*self.handover.source.leave_out}
        place, files, records = landing_folder(self.table, folder), 0, 0
        landed = {handover_time(file.name)[1]: file for file in place.glob("* *.parquet")}
        for dump in dumps_of(self.table, folder):
            if unquote(dump.name) in left_out:
                continue
            if dump.name not in landed:
                progress(f"copy {dump.name}")
                records += self._land_whole(dump, folder)
                files += 1
            elif self.table.source.path is not None:
                verify_content(self.table.name, dump, [landed[dump.name]])
        return Landed(files=files, records=records)

    def _begins(self, dump: Dump) -> datetime:
        """Return the time from which changes are newer than a snapshot."""
        source, name, whose = self.handover.source, unquote(dump.name), f"table {self.table.name!r}"
        at: datetime | None = source.at.get(name)
        if at is None and dump.taken_at is None:
            raise UnknownTimeError(
                f"{whose}: nothing says when snapshot {name} was taken",
                hint="give it a name with a time, such as 2026-01-31T0500, or write in the source "
                f'at: {{"{name}": 2026-01-31T05:00:00Z}}',
            )
        if at is None:
            at = _taken_by_name(dump)
        written = datetime.fromtimestamp(dump.modified_ns / 1e9, UTC)
        if at > written:
            raise UnknownTimeError(
                f"{whose}: snapshot {name} was taken at {time_text(at)}, and its files are from {time_text(written)}",
                hint="times are in UTC, and a snapshot has the one at which it began; changes up to then would be lost",
            )
        return at - timedelta(seconds=source.overlap_seconds)

    def _land_whole(self, dump: Dump, folder: Path) -> int:
        at = self._begins(dump)
        reader = self._reader(dump, folder)
        if taken := [name for name in reader.columns if name.lower() in OWN]:
            raise TakenFieldError(self.table.name, f"snapshot {unquote(dump.name)}", taken[0])
        keys = self._keys(reader.columns, dump)
        self._verify_fields(reader, dump, folder)
        names = [*keys, *(name for name in reader.columns if name not in keys)]
        kinds = self._key_types(keys, reader.types)
        with tempfile.TemporaryDirectory(prefix="frazil-snapshot-") as scratch:
            database = open_scratch(scratch)
            try:
                load_rows(database, "new_rows", reader, names, kinds)
                self._verify_keys(database, dump, kinds)
                (count,) = database.execute("SELECT count(*) FROM new_rows").fetchone()
                file = landing_folder(self.table, folder) / f"{at.strftime(_NAME)} {dump.name}.parquet"
                land_file(
                    file,
                    lambda path: _write(path, database, dump.name, (time_text(at), names, content_of(reader.files))),
                )
                note_landed(file.parent, [file.name])
            finally:
                database.close()
        return int(count) + 1

    def _verify_fields(self, reader: DumpReader | LoadReader, dump: Dump, folder: Path) -> None:
        """Refuse a snapshot without a field that an earlier one had: its column would become NULL in every row."""
        if isinstance(reader, DumpReader) and reader.omits_nulls:
            return
        here = {name.lower() for name in reader.columns}
        declared = {column.name.lower() for column in self.handover.columns or () if column.expr is None} - here
        for file in landing_folder(self.table, folder).glob("* *.parquet") if declared else ():
            if unquote(handover_time(file.name)[1]) in self.handover.source.leave_out:
                continue
            lost = declared & {name.lower() for name in pq.read_schema(file).names} - set(OWN)
            if lost:
                name = min(lost)
                raise LostFieldError(
                    f"table {self.table.name!r}: snapshot {unquote(dump.name)} has no field {name!r}, and snapshot "
                    f"{unquote(handover_time(file.name)[1])} has: the column would become NULL in every row",
                    hint="write the snapshot with it, or list it in leave_out; if the source has no such column any "
                    "more, take it out of the declaration",
                )

    def _reader(self, dump: Dump, folder: Path) -> DumpReader | LoadReader:
        snapshots = self.handover.source.snapshots
        if isinstance(snapshots, DmsFiles):
            return LoadReader(dump, self.handover.model_copy(update={"source": snapshots}), folder)
        return DumpReader(dump, self.table, folder)


def handover_captures(pipeline: Pipeline, tables: Sequence[Table]) -> list[HandoverCapture]:
    """Return one capture for each table."""
    del pipeline
    return [HandoverCapture(snapshots_table(table), handover=table) for table in tables]


def _taken_by_name(dump: Dump) -> datetime:
    try:
        # Dumps that Frazil takes have microseconds.
        return datetime.strptime(dump.name, _NAME).replace(tzinfo=UTC)
    except ValueError:
        return datetime.fromisoformat(f"{dump.taken_at}").replace(tzinfo=UTC)


def _write(path: Path, database: Any, snapshot: str, what: tuple[str, Sequence[str], str]) -> None:
    at, names, content = what
    # Two snapshots may be equal, and equal bytes would count as a duplicate.
    fields = [(name, pa.string()) for name in (*_LANDED, *names)]
    schema = pa.schema(fields, metadata={"frazil.snapshot": snapshot, "frazil.at": at, CONTENT: content})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        begins = [pa.array([text], pa.string()) for text in (at, unquote(snapshot), BEGINS)]
        begins += [pa.nulls(1, pa.string()) for _ in names]
        writer.write_batch(pa.RecordBatch.from_arrays(begins, schema=schema))
        for batch in loaded_texts(database, "new_rows", len(names)):
            if batch.num_rows:
                own = [pa.repeat(pa.scalar(text, pa.string()), batch.num_rows) for text in (at, unquote(snapshot), ROW)]
                columns = [column.cast(pa.string()) for column in batch.columns]
                writer.write_batch(pa.RecordBatch.from_arrays([*own, *columns], schema=schema))


def compared_table(table: Table) -> Table | None:
    """Return the part of a handover with access to the database: its log or its snapshots; None for files only."""
    changes = changes_table(table)
    if changes is None:
        return None
    if isinstance(changes.source, AuditLog) and changes.source.url is not None:
        return changes
    snapshots = snapshots_table(table)
    return None if snapshots.source.url is None else snapshots


@contextmanager
def handover_rows(pipeline: Pipeline, table: Table) -> Iterator[SourceRows]:
    """Open the current rows of the logged or dumped table."""
    part = compared_table(table)
    assert part is not None  # noqa: S101 - others are not opened
    if part.source.kind == AuditLog.model_fields["kind"].default:
        with log_rows(pipeline, part) as rows:
            yield rows
        return
    require_driver()
    from frazil.sources.snapshot.database import database_rows  # noqa: PLC0415 - needs the driver

    with database_rows(pipeline, part, _unknown) as rows:
        yield rows


def _unknown(into: Path, position: int) -> str:
    del into, position
    return "only the sender knows the changes that are not delivered yet"
