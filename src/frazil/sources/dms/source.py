"""Files of Amazon DMS as a source."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc

from frazil.formats.csv_reader import CsvFile
from frazil.formats.parquet_file import ParquetFile, count_rows
from frazil.formats.records import Changed
from frazil.sources.base import SNAPSHOT, FileRecords, PlainMeaning, RecordMeaning, is_snapshot
from frazil.sources.before_images import classes_of, old_key
from frazil.sources.dms import layout
from frazil.sources.dms.layout import TRANSACTIONS, list_files
from frazil.sources.new_files import (
    Copies,
    FileForm,
    NameOrderError,
    count_csv,
    find_new,
    inspect,
    misordered,
    named_fields,
)
from frazil.spec.model.kinds.dms import FILE, time_in_name, time_in_name_sql
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from frazil.formats.records import Parsed, RecordReader
    from frazil.sources.base import Listing, NewFile, SourceDelta, SourceFile
    from frazil.sources.ledger import Ledger
    from frazil.sources.new_files import Content
    from frazil.spec import Table
    from frazil.storage.files import HashedFile

_DELIMITERS: Final = (";", "|", ",")
"""Common delimiters."""

NO_OP_COLUMN: Final = "no_op_column"
"""Reason for the records of a change file without the op column."""


_PLACE: Final = "_cdc_dms_place"
"""What a reader calls the place of a record; bronze has no such column."""
_DIGITS: Final = 35
"""Digits of a change sequence of DMS."""
_LONGEST: Final = 100
"""Digits of a number that still has an order."""
_DAY_NS: Final = 86_400 * 10**9


def _named_ns(path: str) -> int:
    """Return the time in a file's name, in nanoseconds since 1970; 0 without one."""
    with suppress(ValueError):
        return int(datetime.fromisoformat(f"{time_in_name(path) or ''}Z").timestamp()) * 10**9
    return 0


@dataclass(frozen=True, slots=True)
class Numbered:
    """Adds the place of each record, from its change sequence.

    Positions are compared as text. DMS writes 35 digits, so its own numbers stay as they are. Shorter ones get zeros in
    front, longer ones a colon, which sorts after all digits. Other text is compared as it is.

    Attributes:
        field: column with the change sequence.
    """

    field: str

    def placed(self, parsed: Parsed) -> Parsed:
        """Add the column; a record without a change sequence has NULL there."""
        given = pc.utf8_trim_whitespace(parsed.fields[self.field])
        number = pc.utf8_ltrim(given, "0")
        is_short = pc.less_equal(pc.utf8_length(number), _DIGITS)
        longer = pc.binary_join_element_wise(":", pc.utf8_lpad(number, _LONGEST, "0"), "")
        padded = pc.if_else(is_short, pc.utf8_lpad(number, _DIGITS, "0"), longer)
        place = pc.if_else(pc.match_substring_regex(given, "^[0-9]+$"), padded, given)
        return replace(parsed, fields={**parsed.fields, _PLACE: place})


@dataclass(frozen=True, slots=True)
class DmsSource:
    """Full load and change files of one table. Op I and U are upserts, D is a delete; a full load may leave op out.

    With before-images, a changed key becomes two changes at one position: a delete of the old key and an upsert of the
    new one (KEY-CHANGE).
    """

    table: Table

    def list(self, folder: Path, ledger: Ledger | None = None) -> Listing:
        """List all files: see :func:`frazil.sources.dms.layout.list_files`."""
        return list_files(self.table.source, folder, self.table.stores, ledger)

    def find_new(self, folder: Path, ledger: Ledger) -> SourceDelta:
        """Find the files that bronze does not have.

        Raises:
            NameOrderError: only file names order the changes, and their text order differs from their numbers.
        """
        by_place = not self.table.sequence_by and not self.table.source.change_seq
        found = find_new(
            self.list(folder, ledger),
            ledger,
            self.inspect,
            settle_seconds=self.table.source.settle_seconds,
            copies=Copies(by_place=by_place, named_delivery=self.table.source.named_delivery),
        )
        if by_place:
            newest = max(ledger.places, key=lambda path: ledger.places[path], default="")
            changes = (file.name for file in found.files if not file.load)
            if wrong := misordered((newest.rpartition("/")[2], *changes)):
                hint = "write the numbers with leading zeros, or declare sequence_by; if some of the files were taken, "
                raise NameOrderError(
                    self.table.name, *wrong, hint=f"{hint}then frazil drop --select {self.table.name} and run again"
                )
        return replace(found, notes=self._notes(found.files, ledger))

    def _notes(self, new: Sequence[NewFile], ledger: Ledger) -> tuple[str, ...]:
        """Return a note if a new full load is a day newer than a change file, by the times of the files.

        Copied files have other times than their names say; they prove nothing.
        """
        load = max((file for file in new if file.load), key=lambda file: file.modified_ns, default=None)
        written = {path: file.modified_ns for path, file in ledger.files.items()}
        written |= {file.path: file.modified_ns for file in new if not file.load}
        own = {path: at for path, at in written.items() if abs(at - _named_ns(path)) < _DAY_NS}
        first = min(own, key=lambda path: own[path], default=None)
        if load is None or first is None or load.modified_ns - own[first] < _DAY_NS:
            return ()
        note = (
            f"{load.path} is a full load, and its file is newer than {first}; full loads are ordered before all "
            "changes. If the table was loaded again, take all files from before the load away and begin again: "
            f"frazil drop --select {self.table.name}, then frazil run"
        )
        return (note,)

    def inspect(self, hashed: HashedFile, file: SourceFile) -> Content:
        """Inspect a file."""
        content = inspect(hashed, file, layout.dms_form(file, self.table))
        return replace(content, inner=() if content.broken else layout.old_key_fields(self.table, file))

    def named_fields(self, file: SourceFile) -> tuple[tuple[str, str], ...] | None:
        """Return the columns that a file names."""
        named = named_fields(file, layout.dms_form(file, self.table))
        return None if named is None else (*named, *layout.old_key_fields(self.table, file))

    def columns(self, files: Sequence[NewFile], existing: Sequence[str]) -> tuple[str, ...]:
        """Return bronze's columns."""
        return layout.columns(self.table, files, existing)

    def known_fields(self, existing: Mapping[str, str], named: Sequence[Sequence[tuple[str, str]]]) -> dict[str, str]:
        """Return bronze's columns with their types after some files are taken."""
        return layout.known_fields(self.table, existing, named)

    def read(self, file: NewFile, columns: Sequence[str], **limits: int) -> FileRecords:
        """Open a file that is not broken.

        Args:
            file: file from :meth:`find_new`.
            columns: bronze's columns.
            limits: ``block_bytes`` and ``record_bytes`` of the format, for tests.
        """
        source, names = self.table.source, layout.file_fields(self.table, file, columns)
        here = {name.lower(): name for name in columns}
        op, header = here[source.op.lower()], layout.has_header(file, source)
        lacks_op = None if file.load or op in names else NO_OP_COLUMN
        fields = tuple(name for name in names if name not in layout.TABLE_AND_SCHEMA)
        # In a full load, a record without op means the same as one with a NULL op.
        carried = [*(name for name in fields if name != op), op, *(here[name.lower()] for name, _ in file.inner)]
        order = None if file.load or not source.change_seq else here.get(source.change_seq.lower())
        images = layout.before_images(self.table, here) if file.inner and op in names else None
        reader: RecordReader
        if layout.is_parquet(file.name):
            reader = ParquetFile(file.uri, names, own=images, rejected=lacks_op)
        else:
            own = layout.own_records(self.table) if file.variant == TRANSACTIONS else images
            dialect, rejected = layout.dialect_of(source, load=file.load), lacks_op if header else None
            reader = CsvFile(file.uri, dialect, names, header=header, own=own, rejected=rejected, **limits)
        # An empty file has no header either.
        headers = int(header and bool(file.columns) and isinstance(reader, CsvFile))
        if order in names:
            reader = Changed(reader, Numbered(order).placed)
        return FileRecords(
            reader=reader,
            fields=fields,
            known=None if set(columns) <= {*carried} else carried,
            lists=source.csv_no_sup_value is not None,
            headers=headers,
            order_field=_PLACE if order in names else None,
        )

    def recount(self, uri: str) -> int:
        """Count CSV records by line ends, Parquet records by the footer."""
        if layout.is_parquet(uri):
            return count_rows(uri)
        source = self.table.source
        # The address does not show whether this is a transaction file, which has no header.
        header = source.header and not source.cdc_path
        return count_csv(uri, FileForm(dialect=layout.dialect_of(source), header=header))

    def meaning(self, fields: Mapping[str, str], position: str) -> RecordMeaning:
        """Return the meaning of the op column, and the columns with keys before a change."""
        source, op = self.table.source, "CAST(NULL AS string)"
        if source.op.lower() in fields:
            said = quote(fields[source.op.lower()])
            op = f"CASE WHEN {said} IN ('I', 'U', 'D') THEN {said} ELSE upper(trim({said})) END"
        classes = {"I": "upsert", "U": "upsert", "D": "delete"} | classes_of(source.op)
        whens = " ".join(f"WHEN _cdc_op = {literal(word.upper())} THEN '{name}'" for word, name in classes.items())
        upsert_or_delete = f"CASE {whens} WHEN _cdc_op IS NULL AND {is_snapshot(position)} THEN 'upsert' END"
        old_keys, stamp = self._old_keys(fields), self._time_of_dms(fields)
        plain = PlainMeaning(
            operation=fields.get(source.op.lower()),
            classes=classes,
            unsaid=(SNAPSHOT, "upsert"),
            old_keys=old_keys,
            happened=stamp or FILE,
        )
        return RecordMeaning(
            operation=op,
            change_class=upsert_or_delete,
            old_keys={key: quote(name) for key, name in old_keys.items()},
            happened=time_in_name_sql(FILE) if stamp is None else quote(stamp),
            plain=plain,
        )

    def _time_of_dms(self, fields: Mapping[str, str]) -> str | None:
        """Return the field that ``TimestampColumnName`` adds; DMS puts it before the fields of the table."""
        first = next((name for name in fields if not self.table.source.is_bookkeeping(name)), None)
        types = {column.name.lower(): column.type for column in self.table.columns or () if column.expr is None}
        orders = {name.lower() for name in (*self.table.sequence_by, self.table.effective_at) if name is not None}
        is_stamp = first in orders and types.get(first) == "timestamp" and first not in map(str.lower, self.table.keys)
        return fields[first] if first is not None and is_stamp else None

    def _old_keys(self, fields: Mapping[str, str]) -> dict[str, str]:
        """Return the fields with the keys before a change."""
        prefix = self.table.source.before_image_prefix
        names = {key: (old_key(key) if prefix is None else f"{prefix}{key}").lower() for key in self.table.keys}
        return {key: fields[name] for key, name in names.items()} if {*names.values()} <= {*fields} else {}

    def advice(self, named: Sequence[Sequence[tuple[str, str]]]) -> str | None:
        """Suggest another delimiter if each file has a single field whose name contains one."""
        alone = [columns[0][0] for columns in named if len(columns) == 1]
        if not alone or len(alone) < len(named):
            return None
        used = self.table.source.csv_delimiter
        signs = (sign for sign in _DELIMITERS if sign != used and all(sign in name for name in alone))
        sign = next(signs, None)
        return sign and f'fields seem to be separated by another sign: csv_delimiter: "{sign}" in the source'

    def reading(self) -> dict[str, Any]:
        """Return the settings that determine the records."""
        return layout.reading(self.table)
