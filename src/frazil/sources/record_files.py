"""Shared reading of files whose records name their fields: CSV with a header, JSON lines and Parquet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from frazil.errors import SourceError
from frazil.formats.csv_lines import UNREADABLE, CsvDialect, is_gzip, open_text
from frazil.formats.csv_reader import CsvFile
from frazil.formats.json_lines import JsonLinesFile, fields_in
from frazil.formats.parquet_file import ParquetFile, count_rows, opened
from frazil.formats.records import file_columns
from frazil.sources.base import FileRecords, Listing, SourceFile, change_position, stored_path
from frazil.sources.capture import TYPE_KEY
from frazil.sources.ledger import Ledger, Unchanged
from frazil.sources.new_files import Content, Copies, FileForm, count_csv, find_new, inspect, named_fields
from frazil.spec.model.types import type_after
from frazil.storage.base import Found, Passed, Refused
from frazil.storage.files import find

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from frazil.formats.records import OwnRecords, RecordReader
    from frazil.sources.base import NewFile, SourceDelta
    from frazil.spec import Table
    from frazil.storage.base import Entry
    from frazil.storage.files import HashedFile

CSV: Final = (".csv", ".csv.gz")
JSON_LINES: Final = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
PARQUET: Final = (".parquet",)
_DIALECT: Final = CsvDialect(",", None, "", no_text=r"\N")
"""CSV as PostgreSQL's COPY and most tools write it: doubled quotes, and an empty unquoted field for NULL."""
_LINE_ENDS: Final = (b"\n", b"\r")


@dataclass(frozen=True, slots=True)
class RecordReading:
    """Inspects and reads CSV files with a header, JSON lines and Parquet files; the file ending decides the format."""

    def inspect(self, hashed: HashedFile, file: SourceFile) -> Content:
        """Inspect a file: its fields, including fields inside other fields, and whether it is complete."""
        if not file.name.lower().endswith(JSON_LINES):
            content = inspect(hashed, file, file_form(file))
            return content if content.broken else self._with_inner(content, file)
        return self._with_inner(self._inspect_json(hashed, file), file)

    def _inspect_json(self, hashed: HashedFile, file: SourceFile) -> Content:
        """Inspect a file of JSON lines.

        Cost: parses every line.
        """
        last = b""
        while data := hashed.read():
            last = data[-1:]
        try:
            with open_text(file.uri) as lines:
                content = self.json_content(file, lines)
        except (OSError, UnicodeError, *UNREADABLE) as error:
            return Content(broken=f"unreadable: {error}", unfinished="the file breaks off")
        unfinished = None if last in _LINE_ENDS or not last or is_gzip(file.name) else "no line end at its end"
        return replace(content, unfinished=unfinished)

    def json_content(self, file: SourceFile, lines: Iterable[bytes]) -> Content:
        """Return the columns of a JSON file, and the servers that wrote its records."""
        return Content(self.json_columns(file, lines))

    def json_columns(self, file: SourceFile, lines: Iterable[bytes]) -> tuple[tuple[str, str], ...]:
        """Return the columns that the lines of a JSON file name, with their types.

        Cost: parses every line.
        """
        del file
        return file_columns((name, "string") for name in fields_in(lines))

    def _with_inner(self, content: Content, file: SourceFile) -> Content:
        inner = self.inner_fields(file, content.columns)
        return replace(content, inner=inner)

    def inner_fields(self, file: SourceFile, columns: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Return the columns that :meth:`unfold` adds for a file; empty by default.

        Args:
            file: a readable file.
            columns: (column, type) of its own fields.
        """
        del file, columns
        return ()

    def unfold(self, reader: RecordReader, file: NewFile, columns: Mapping[str, str]) -> RecordReader:
        """Return a reader that adds the inner fields to each record.

        Args:
            reader: reader of the file's own fields.
            file: file of the reader.
            columns: lower-case name of a field -> its column in bronze.
        """
        del file, columns
        return reader

    def order_field(self) -> str | None:
        """Return the field with the ``place`` of each record; None if only files order records."""
        return None

    def named_fields(self, file: SourceFile) -> tuple[tuple[str, str], ...] | None:
        """Return the columns that a file names; None if it cannot be read."""
        if not file.name.lower().endswith(JSON_LINES):
            own = named_fields(file, file_form(file))
        else:
            try:
                with open_text(file.uri) as lines:
                    own = self.json_columns(file, lines)
            except (OSError, UnicodeError, *UNREADABLE):
                return None
        return None if own is None else (*own, *self.inner_fields(file, own))

    def read(self, file: NewFile, columns: Sequence[str], **limits: int) -> FileRecords:
        """Open a file that is not broken.

        Args:
            file: file from :meth:`find_new`.
            columns: bronze's columns.
            limits: ``block_bytes`` and ``record_bytes`` of the format, for tests.
        """
        here = {name.lower(): name for name in columns}
        own = tuple(here[name.lower()] for name, _ in file.columns)
        carried = [here[name.lower()] for name, _ in file.fields]
        reader, order = self.open(file, own, **limits), self.order_field()
        return FileRecords(
            reader=self.unfold(reader, file, here),
            fields=own,
            known=None if {*columns} <= {*carried} else carried,
            lists=file.name.lower().endswith(JSON_LINES) or bool(file.inner),
            headers=int(isinstance(reader, CsvFile) and bool(file.columns)),
            order_field=here.get(order.lower()) if order is not None else None,
        )

    def open(self, file: SourceFile, names: tuple[str, ...], **limits: int) -> RecordReader:
        """Open a file without its inner fields.

        Args:
            file: file to open.
            names: columns of its own fields, in file order.
            limits: as for :meth:`read`.
        """
        own = self.own_records(names)
        if file.name.lower().endswith(JSON_LINES):
            return JsonLinesFile(file.uri, {name.lower(): name for name in names}, own, **limits)
        if (dialect := file_form(file).dialect) is None:
            return ParquetFile(file.uri, names, own=own)
        return CsvFile(file.uri, dialect, names, header=True, own=own, rejected=None, **limits)

    def own_records(self, names: Sequence[str]) -> OwnRecords | None:
        """Return a filter for the table's records if files hold records of many tables; None takes all records.

        Args:
            names: columns of the fields of a file.
        """
        del names
        return None


@dataclass(frozen=True, slots=True)
class RecordFiles(RecordReading, ABC):
    """A source of such files, without the meaning of records.

    A kind overrides :meth:`entries` for the places of its files and :meth:`inner_fields` for fields inside others. File
    names order the records; a kind whose records carry their own place overrides :meth:`order_field`.
    """

    table: Table

    endings: ClassVar[tuple[str, ...]] = (*CSV, *JSON_LINES, *PARQUET)
    """Endings of the file names."""

    def list(self, folder: Path, ledger: Ledger | None = None) -> Listing:
        """List all files, ordered by name; folders and times do not matter."""
        files: dict[str, SourceFile] = {}
        refused: dict[str, str] = {}
        passed: dict[str, str] = {}
        places = [place for some in self.table.source.locations.values() for place in some]
        unchanged = Unchanged(ledger or Ledger(), several=len(places) > 1)
        for declared in places:
            for entry in self.entries(declared, folder):
                path = stored_path(entry.uri, folder)
                match entry:
                    case Found() if unchanged.has(path, entry.size_bytes, entry.modified_ns):
                        pass
                    case Found():
                        files.setdefault(path, self._source_file(path, entry))
                    case Refused():
                        refused.setdefault(path, entry.reason)
                    case Passed():
                        passed.setdefault(path, self.why_passed(path))
        by_position = sorted(files.values(), key=lambda file: (file.position, file.path))
        others = sorted((path, why) for path, why in passed.items() if path not in files and path not in refused)
        return Listing(tuple(by_position), tuple(sorted(refused.items())), tuple(others), unchanged.count)

    def entries(self, declared: str, folder: Path) -> Iterable[Entry]:
        """Find the files at a declared place."""
        return find(declared, folder, self.endings, self.table.stores)

    def why_passed(self, path: str) -> str:
        """Return why a file is ignored, based on its name."""
        del path
        return f"not {' or '.join(self.endings)}"

    def _source_file(self, path: str, found: Found) -> SourceFile:
        return SourceFile(
            path=path,
            uri=found.uri,
            name=found.name,
            size_bytes=found.size_bytes,
            modified_ns=found.modified_ns,
            load=False,
            position=self.position(path, found.name),
        )

    def position(self, path: str, name: str) -> str:
        """Return the position of records without a place of their own."""
        return change_position(f"{name}/{path}")

    def find_new(self, folder: Path, ledger: Ledger) -> SourceDelta:
        """Find the files that bronze does not have."""
        return find_new(
            self.list(folder, ledger),
            ledger,
            self.inspect,
            settle_seconds=self.settle_seconds,
            copies=Copies(by_place=bool(self.reading()["by_place"]), named_delivery=self.table.source.named_delivery),
            emptied_from=self.emptied_from,
        )

    def emptied_from(self, uri: str) -> str | None:
        """Return the hash that bronze has for a file that an erase has emptied since; None for any other file."""
        del uri
        return None

    @property
    def settle_seconds(self) -> float:
        """Return the age from which an incomplete file is taken; a younger one waits for a later run."""
        return 60.0

    def columns(self, files: Sequence[NewFile], existing: Sequence[str]) -> tuple[str, ...]:
        """Return bronze's columns: existing columns, then new ones as they appear."""
        names = {name.lower(): name for name in existing}
        for file in files:
            for name, _ in file.fields:
                names.setdefault(name.lower(), name)
        return tuple(names.values())

    def known_fields(self, existing: Mapping[str, str], named: Sequence[Sequence[tuple[str, str]]]) -> dict[str, str]:
        """Return bronze's columns with their types after some files are taken."""
        known = {name.lower(): (name, kind) for name, kind in existing.items()}
        for columns in named:
            for name, kind in columns:
                first, have = known.setdefault(name.lower(), (name, kind))
                known[name.lower()] = (first, type_after(have, kind, self.table.evolution.on_type_change))
        return dict(known.values())

    def recount(self, uri: str) -> int:
        """Count records by line ends, or by the Parquet footer."""
        name = uri.lower()
        if name.endswith(PARQUET):
            return count_rows(uri)
        if not name.endswith(JSON_LINES):
            return count_csv(uri, FileForm(dialect=_DIALECT))
        try:
            with open_text(uri) as lines:
                return sum(bool(line.strip()) for line in lines)
        except (UnicodeError, *UNREADABLE):
            return 1

    def advice(self, named: Sequence[Sequence[tuple[str, str]]]) -> str | None:
        """Return None: these files describe their own format."""
        del named
        return None

    @abstractmethod
    def reading(self) -> dict[str, Any]:
        """Return the settings that determine the records: see :meth:`frazil.sources.base.Source.reading`."""


def file_form(file: SourceFile) -> FileForm:
    """Return the format of a CSV or Parquet file."""
    return FileForm(dialect=None if file.name.lower().endswith(PARQUET) else _DIALECT)


def with_types(file: SourceFile, columns: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the columns with the types that a capture stored in the metadata of the Parquet fields."""
    try:
        with closing(opened(file.uri)) as parquet:
            fields = parquet.schema_arrow
    except (pa.ArrowException, OSError):
        return tuple(columns)
    kinds = file_columns((field.name, (field.metadata or {}).get(TYPE_KEY, b"string").decode()) for field in fields)
    return kinds if [name for name, _ in kinds] == [name for name, _ in columns] else tuple(columns)


NAMES: Final = "tables"
"""Key of bronze's bookmark."""

ALL: Final = "*"
"""Value of ``table`` that takes the records of every table."""

_SHOWN: Final = 5


class SecondTableError(SourceError):
    """The records of a source belong to several tables."""

    code = "FZ215"
    retryable = False

    def __init__(self, table: str, names: list[str]) -> None:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        super().__init__(
            f"table {table!r}: its records are of several tables: {', '.join(names[:_SHOWN])}{more}; nothing was taken",
            hint=f"declare the one that is meant: table: {names[0]}; or, if all are parts of one table: table: '{ALL}'",
        )


def known_names(table: Table, bronze: Mapping[str, Any], files: Iterable[NewFile]) -> dict[str, list[str]]:
    """Return the table names in bronze's records and in new files.

    Args:
        table: the declaration.
        bronze: bronze's bookmark; may be empty.
        files: new files.

    Returns:
        Shard, or empty text -> the one name of its records. Shards without a name are left out.

    Raises:
        SecondTableError: records have different names, and the source does not declare ``table``.
    """
    names: dict[str, list[str]] = {variant: [*known] for variant, known in bronze.get(NAMES, {}).items()}
    for file in files:
        if file.tables:
            found = names.setdefault(file.variant, [])
            found += [name for name in file.tables if name not in found]
    for found in names.values():
        if len(found) > 1:
            raise SecondTableError(table.name, found)
    return names
