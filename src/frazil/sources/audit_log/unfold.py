"""Unfold the JSON in the records of an audit log into columns next to those of the log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.json_objects import JsonObjects
from frazil.formats.records import safe_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frazil.formats.json_objects import Objects
    from frazil.formats.records import Parsed
    from frazil.spec.model.kinds.audit_log import AuditLog

PLACE: Final = "_cdc_place"
"""Field with the place of a record; bronze stores it in the position."""

UPSERTS: Final = ("I", "U", "INSERT", "UPDATE")
DELETES: Final = ("D", "DELETE")
TRUNCATES: Final = ("T", "TRUNCATE")
"""What a log calls its operations, in capitals: a letter, or PostgreSQL's TG_OP."""

_DIGITS: Final = 20
_ROW: Final = "row_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The bronze columns of the parts of a record.

    Attributes:
        event_id, operation, data, old_data: columns of the log, or None for a missing ``old_data``.
        problem: column with the reason if the row cannot be read.
        old_keys: lower-case name of a key field -> column of its value before the change.
        reserved: lower-case names that fields of the row must not take.
        reserved_prefix: prefix of further such names; may be empty.
    """

    event_id: str
    operation: str
    data: str
    old_data: str | None
    problem: str
    old_keys: Mapping[str, str]
    reserved: frozenset[str]
    reserved_prefix: str

    @classmethod
    def of(cls, spec: AuditLog, keys: Sequence[str], columns: Sequence[str]) -> Layout:
        """Return the layout of a file.

        Args:
            spec: declared source.
            keys: key columns of the table.
            columns: bronze columns of the file's own fields.
        """
        here = {name.lower(): name for name in columns}
        prefix = f"{spec.old_data}_" if spec.old_data else ""
        return cls(
            event_id=here[spec.event_id.lower()],
            operation=here[spec.operation.lower()],
            data=here[spec.data.lower()],
            old_data=here.get(spec.old_data.lower()) if spec.old_data else None,
            problem=spec.problem_field,
            old_keys={key.lower(): f"{prefix}{key}" for key in keys} if spec.old_data else {},
            reserved=spec.reserved | {*here},
            reserved_prefix=prefix.lower(),
        )

    def column_of(self, field: str) -> str:
        """Return the column of a field of the row: its name, with the prefix ``row_`` if the log has that name.

        Only the name decides, so that two fields never share a column.
        """
        name = safe_name(field)
        bare = name.lower()
        while bare.startswith(_ROW):
            bare = bare.removeprefix(_ROW)
        is_taken = bare in self.reserved or (self.reserved_prefix and bare.startswith(self.reserved_prefix))
        return f"{_ROW}{name}" if is_taken else name

    def says(self, fields: Mapping[str, Any], operations: Sequence[str]) -> Any:
        """Return for each record whether its operation is one of some, in any case."""
        said = pc.utf8_upper(pc.utf8_trim(fields[self.operation], characters=" "))
        return pc.fill_null(pc.is_in(said, pa.array(operations, pa.string())), fill_value=False)

    def documents(self, fields: Mapping[str, Any]) -> Any:
        """Return the JSON of each record's row; for a delete it may be the old row."""
        data = fields[self.data]
        if self.old_data is None or not data.null_count:
            return data
        old = pc.if_else(self.says(fields, DELETES), fields[self.old_data], None)
        return pc.coalesce(data, old)


class Unfolding:
    """Adds the fields of rows to the records of a file.

    Args:
        layout: bronze columns of the parts of a record.
        columns: lower-case name of a field -> its column in bronze.
        written: layout of the JSON objects if all are alike; empty if they differ or were not inspected.
    """

    def __init__(self, layout: Layout, columns: Mapping[str, str], written: tuple[str, ...] = ()) -> None:
        self._layout, self._columns = layout, columns
        self._objects = JsonObjects(layout.column_of, written)
        self._old = JsonObjects(str.lower)

    def with_rows(self, parsed: Parsed) -> Parsed:
        """Return the records with the fields of their rows, old keys, problems and places."""
        layout, fields = self._layout, dict(parsed.fields)
        documents = layout.documents(fields)
        objects = self._objects.split(documents)
        place, no_number = _places(fields[layout.event_id])
        problems = [no_number, objects.problems]
        if documents.null_count:
            lacks_row = pc.and_(documents.is_null(), pc.invert(layout.says(fields, TRUNCATES)))
            problems.append(pc.if_else(lacks_row, f"{layout.data} is NULL", None))
        if layout.old_data is not None:
            problems.append(self._add_old_keys(fields, fields[layout.old_data], objects))
        told = [problem for problem in problems if problem is not None]
        fields[self._columns[layout.problem.lower()]] = (
            pc.coalesce(*told) if told else pa.nulls(len(parsed.rows), pa.string())
        )
        fields |= {self._columns[name.lower()]: values for name, values in objects.columns.items()}
        fields[PLACE] = place
        return replace(parsed, fields=fields, known=self._known(parsed, objects))

    def _add_old_keys(self, fields: dict[str, Any], documents: Any, objects: Objects) -> Any:
        """Add the keys before each change, and return problems. A key missing in the old image did not change."""
        old, has_old = self._old.split(documents), documents.is_valid()
        new = {name.lower(): values for name, values in objects.columns.items()}
        nothing = pa.nulls(len(has_old), pa.string())
        for key, column in self._layout.old_keys.items():
            before = old.columns.get(key, nothing)
            same = new.get(self._layout.column_of(key).lower(), nothing)
            fields[self._columns[column.lower()]] = pc.if_else(has_old, pc.coalesce(before, same), None)
        if old.problems is None:
            return None
        return pc.binary_join_element_wise(f"{self._layout.old_data}, ", old.problems, "")

    def _known(self, parsed: Parsed, objects: Objects) -> Any:
        """List the columns that each record carries; None if every record carries all columns of bronze."""
        own = [name for name in parsed.fields if name in self._columns.values()]
        rows = [[self._columns[name.lower()] for name in shape] for shape in objects.shapes]
        bookkeeping = [self._columns[name.lower()] for name in (self._layout.problem, *self._layout.old_keys.values())]
        if parsed.known is not None:
            carried = zip(parsed.known.to_pylist(), objects.shape_of.to_pylist(), strict=True)
            return pa.array([[*its, *rows[shape], *bookkeeping] for its, shape in carried], pa.list_(pa.string()))
        everything = {*self._columns.values()}
        lists = [[*own, *row, *bookkeeping] for row in rows]
        if all(everything <= {*some} for some in lists):
            return None
        return pa.array(lists, pa.list_(pa.string())).take(objects.shape_of)


def _places(numbers: Any) -> tuple[Any, Any]:
    """Return the record numbers as sortable text, and a problem for each value that is not a number."""
    is_number = pc.fill_null(pc.match_substring_regex(numbers, rf"^[0-9]{{1,{_DIGITS}}}$"), fill_value=False)
    if pc.all(is_number).as_py():
        return pc.utf8_lpad(numbers, _DIGITS, "0"), None
    shown = pc.binary_join_element_wise("no number of a record: ", pc.fill_null(numbers, "NULL"), "")
    return pc.if_else(is_number, pc.utf8_lpad(numbers, _DIGITS, "0"), None), pc.if_else(is_number, None, shown)
