"""Files of an audit log as a source; each record holds a row as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.errors import HistoryChangedError
from frazil.formats.csv_lines import UNREADABLE
from frazil.formats.json_objects import JsonObjects
from frazil.formats.records import Changed, OwnRecords
from frazil.sources.audit_log.unfold import DELETES, PLACE, TRUNCATES, UPSERTS, Layout, Unfolding
from frazil.sources.base import PlainMeaning, RecordMeaning, stored_path
from frazil.sources.capture import land_file
from frazil.sources.landed_files import lost_files, lost_message, note_landed
from frazil.sources.new_files import Content
from frazil.sources.record_files import RecordFiles
from frazil.spec.location import expand
from frazil.spec.sql.names import literal, quote
from frazil.storage.base import MissingFolderError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from frazil.formats.records import RecordReader
    from frazil.sources.base import FileRecords, NewFile, SourceDelta, SourceFile
    from frazil.sources.ledger import Ledger
    from frazil.spec.model.kinds.audit_log import AuditLog
    from frazil.storage.base import Entry
    from frazil.storage.files import HashedFile

_CLASSES: Final = dict.fromkeys(UPSERTS, "upsert") | dict.fromkeys(DELETES, "delete")
"""Operation -> class of the change of a row."""
NO_LOG: Final = "no_audit_log"
"""Reason for a file without the columns of the log."""


@dataclass(frozen=True)  # no slots: super() needs the class that is written here
class AuditLogSource(RecordFiles):
    """The records of one table in files of a log, ordered by number.

    Bronze has the columns of the log and the fields of the row as text, exactly as in the JSON. A repeated record in
    another file has the same position and changes nothing.
    """

    @property
    def spec(self) -> AuditLog:
        """Return the declared source."""
        return cast("AuditLog", self.table.source)

    def entries(self, declared: str, folder: Path) -> Iterable[Entry]:
        """Find the files at a declared place; empty before the first capture."""
        found = super().entries(declared, folder)
        if self.spec.url is None:
            return found
        try:
            return list(found)
        except MissingFolderError:
            return []

    def find_new(self, folder: Path, ledger: Ledger) -> SourceDelta:
        """Find the files that bronze does not have.

        Raises:
            HistoryChangedError: a landed file was removed before it was taken.
        """
        found = RecordFiles.find_new(self, folder, ledger)
        self.verify_landing(folder, ledger.files, ())
        return found

    def verify_landing(self, folder: Path, taken: Collection[str], new: Collection[str]) -> None:
        """Refuse a landing folder without files that were landed and not taken."""
        del new
        if self.spec.url is None:
            return
        root = folder / expand(self.spec.landing or "", setting="landing", folder=folder)
        if lost := lost_files(root / self.spec.table, taken):
            raise HistoryChangedError(
                lost_message(self.table.name, root / self.spec.table, lost, folder),
                hint="put it back; or, while the log still has its records, let the next run land them again: "
                f"rm '{stored_path(f'{bookmark_path(root, self.spec)}', folder)}'",
            )

    def own_records(self, names: Sequence[str]) -> OwnRecords | None:
        """Return a filter for the records of the declared table."""
        here = {name.lower(): name for name in names}
        schema, table = self.spec.schema_and_table
        fields = [here.get(name.lower(), name) for name in (self.spec.table_name, self.spec.schema_name)]
        return OwnRecords(table=table, schema=schema, exact=True, fields=(fields[0], fields[1]))

    def inspect(self, hashed: HashedFile, file: SourceFile) -> Content:
        """Inspect a file; a file without the columns of the log is broken.

        Cost: one pass over the JSON of all records for the names of the fields.
        """
        content = super().inspect(hashed, file)
        missing = self._missing(content.columns)
        if content.broken or not content.columns or not missing:
            return content
        return replace(content, columns=(), inner=(), broken=f"{NO_LOG}: no column {', '.join(missing)}")

    def _missing(self, columns: Sequence[tuple[str, str]]) -> list[str]:
        carried = {name.lower() for name, _ in columns}
        return [name for name in self.spec.log_fields if name.lower() not in carried]

    def inner_fields(self, file: SourceFile, columns: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Return the columns of the rows in the JSON, of their old keys, and of errors in the JSON."""
        return self._look(file, columns).inner

    def _with_inner(self, content: Content, file: SourceFile) -> Content:
        found = self._look(file, content.columns)
        return replace(content, inner=found.inner, written=found.written)

    def _look(self, file: SourceFile, columns: Sequence[tuple[str, str]]) -> Content:
        """Return the fields in the JSON of a file, and its layout."""
        if not columns or self._missing(columns):
            return Content()
        layout = self._layout(columns)
        found: dict[str, str] = {}
        objects = JsonObjects(layout.column_of)
        reader = self.open(file, tuple(name for name, _ in columns))
        try:
            for parsed in reader:
                if len(parsed.rows):
                    for name in objects.columns_of(layout.documents(parsed.fields)):
                        found.setdefault(name.lower(), name)
        except (UnicodeError, *UNREADABLE):
            pass  # Reading the file stops here too.
        names = (*found.values(), layout.problem, *layout.old_keys.values())
        return Content(inner=tuple((name, "string") for name in names), written=objects.written)

    def _layout(self, columns: Sequence[tuple[str, str]]) -> Layout:
        return Layout.of(self.spec, self.table.keys, [name for name, _ in columns])

    def read(self, file: NewFile, columns: Sequence[str], **limits: int) -> FileRecords:
        """Open a file, not a broken one."""
        opened = super().read(file, columns, **limits)
        return replace(opened, order_field=PLACE) if file.inner else opened

    def unfold(self, reader: RecordReader, file: NewFile, columns: Mapping[str, str]) -> RecordReader:
        """Return a reader that adds the fields of the rows.

        Args:
            reader: reader of the file's own fields.
            file: file of the reader.
            columns: lower-case name of a field -> its column in bronze.
        """
        if not file.inner:
            return reader
        return Changed(reader, Unfolding(self._layout(file.columns), columns, file.written).with_rows)

    def meaning(self, fields: Mapping[str, str], position: str) -> RecordMeaning:
        """Return what operations say, where keys before a change stand, and what came when and from where."""
        del position
        operation, spec = "CAST(NULL AS string)", self.spec
        if spec.operation.lower() in fields:
            said = quote(fields[spec.operation.lower()])
            operation = (
                f"CASE WHEN {said} IN ({_list((*_CLASSES, *TRUNCATES))}) THEN {said} ELSE upper(trim({said})) END"
            )
        names = {key: f"{spec.old_data}_{key}".lower() for key in self.table.keys} if spec.old_data else {}
        problem, told = fields.get(spec.problem_field.lower()), fields.get(spec.timestamp.lower())
        return RecordMeaning(
            operation=operation,
            change_class=(
                f"CASE WHEN _cdc_op IN ({_list(UPSERTS)}) THEN 'upsert' "
                f"WHEN _cdc_op IN ({_list(DELETES)}) THEN 'delete' "
                f"WHEN _cdc_op IN ({_list(TRUNCATES)}) THEN 'truncate' END"
            ),
            old_keys={key: quote(fields[name]) for key, name in names.items()}
            if {*names.values()} <= {*fields}
            else {},
            problem="CAST(NULL AS string)" if problem is None else quote(problem),
            happened="CAST(NULL AS string)" if told is None else quote(told),
            made={
                name: f"CAST({quote(column)} AS string)"
                for name, column in spec.made_columns.items()
                if name not in fields
            },
            plain=self._plain(fields),
        )

    def _plain(self, fields: Mapping[str, str]) -> PlainMeaning | None:
        operation, spec = fields.get(self.spec.operation.lower()), self.spec
        if operation is None or spec.old_data:
            return None
        return PlainMeaning(
            operation=operation,
            classes=_CLASSES,
            problem=fields.get(spec.problem_field.lower()),
            happened=fields.get(spec.timestamp.lower()),
        )

    def reading(self) -> dict[str, Any]:
        """Return the settings that determine the records."""
        columns = {"kind", "table", "event_id", "schema_name", "table_name", "data", "old_data"}
        places = [place for places in self.spec.locations.values() for place in places]
        keys = {"keys": [*self.table.keys]} if self.spec.old_data else {}
        return {
            "path": places,
            "by_place": False,
            **self.spec.model_dump(mode="json", include=columns, exclude_none=True),
            **keys,
        }


def _list(words: Iterable[str]) -> str:
    return ", ".join(map(literal, words))


@dataclass(slots=True)
class Bookmark:
    """Position of the capture of one log.

    Attributes:
        number: number of the last turn that landed files.
        snapshot: text of the snapshot up to which records are landed; empty before the first turn.
        system: identifier of the database cluster; empty if the role must not read it.
        database: name of the database; all databases of a cluster share transaction numbers.
        tables: tables whose records are landed up to the snapshot.
        seen: numbers of landed records whose transactions the snapshot could not decide.
        low: all records up to this number are landed.
        fence: number that becomes ``low`` after all transactions before ``fence_xid`` have ended.
        fence_xid: transaction number drawn one turn after ``fence``; 0 before that.
        greatest: greatest landed number.
        filenode: filenode of the sequence that draws the numbers, or 0. A different one means that the sequence was
            reset.
    """

    number: int = 0
    snapshot: str = ""
    system: str = ""
    database: str = ""
    tables: list[str] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    low: int = 0
    fence: int = 0
    fence_xid: int = 0
    greatest: int = 0
    filenode: int = 0

    @classmethod
    def read(cls, path: Path) -> Bookmark:
        """Read the bookmark; return an empty one before the first turn."""
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else cls()

    def write(self, path: Path) -> None:
        """Write the bookmark atomically."""
        text = json.dumps(asdict(self))
        land_file(path, lambda part: _write(part, text))


def bookmark_path(root: Path, spec: AuditLog) -> Path:
    """Return the path of a log's bookmark."""
    return root / f".{spec.log}.bookmark.json"


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


FILE_RECORDS: Final = 100_000
"""Maximum number of records in a landing file."""


class Writer:
    """Writer of landing files: each table has its folder, each file at most ``FILE_RECORDS`` records."""

    def __init__(self, root: Path, turn: int, columns: Sequence[str]) -> None:
        self._root, self._turn = root, turn
        self._schema = pa.schema([(name, pa.string()) for name in columns])
        self._held: dict[str, list[tuple[str, ...]]] = {}
        self.files = self.records = 0

    def add(self, table: str, row: tuple[str, ...]) -> None:
        """Add a record."""
        held = self._held.setdefault(table, [])
        held.append(row)
        self.records += 1
        if len(held) >= FILE_RECORDS:
            self._write(table)

    def close(self) -> None:
        """Write the remaining records."""
        for table in [*self._held]:
            self._write(table)

    def _write(self, table: str) -> None:
        rows = self._held.pop(table)
        arrays = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)]
        records = pa.Table.from_arrays(arrays, schema=self._schema)
        name = f"{self._turn:09}-{rows[0][0].zfill(20)}.parquet"
        land_file(self._root / table / name, lambda path: pq.write_table(records, path, compression="zstd"))
        note_landed(self._root / table, [name])
        self.files += 1


def turn_of(file: Path) -> int:
    """Return the number of the turn that landed a file."""
    return int(file.name.partition("-")[0])
