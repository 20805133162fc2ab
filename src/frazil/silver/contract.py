"""The contract of a table, settled: which columns, of which type, from which fields."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.errors import SchemaError
from frazil.spec import Column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.spec import Current, History, Table

_TIMES = ("timestamp", "timestamp_ntz", "date")


class MissingFieldError(SchemaError):
    """A declared column has no field in any file."""

    code = "FZ502"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The columns of silver and marts, without ``*``.

    Attributes:
        columns: in table order; a column without ``expr`` is the field of its own name.
        keys: names of the columns that name a row.
        sequence_by: names of the columns that order the changes of a key.
        event_time: the column history takes its times from, or None.
        fields: the source's fields with their types, in order of first appearance.
    """

    columns: tuple[Column, ...]
    keys: tuple[str, ...]
    sequence_by: tuple[str, ...]
    event_time: str | None
    fields: tuple[tuple[str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in table order."""
        return tuple(column.name for column in self.columns)

    def needs(self, column: Column) -> frozenset[str]:
        """Fields that a column is made of, lower case."""
        if column.expr is None:
            return frozenset({column.name.lower()})
        import sqlglot  # noqa: PLC0415 - a third of a second that only expressions pay
        from sqlglot import exp  # noqa: PLC0415

        tree = sqlglot.parse_one(column.expr, dialect="spark")
        return frozenset(found.name.lower() for found in tree.find_all(exp.Column))


def settle(table: Table, fields: Mapping[str, str]) -> Contract:
    """Settle the contract of a table against the fields its files have.

    Declared columns keep their order and types. Where the contract is open (no ``columns``, or a last
    ``"*"``) every other field follows with the type the file gives it, in order of first appearance; the op
    column, the change sequence and before-images stay in bronze.

    Args:
        table: the declaration.
        fields: name of every field seen so far -> its type (``string`` for CSV).

    Raises:
        MissingFieldError: a declared column without ``expr`` is a field of no file.
    """
    source = table.source
    declared = [column for column in table.columns or () if column.name != "*"]
    is_open = table.columns is None or any(column.name == "*" for column in table.columns)
    seen = {name.lower(): name for name in fields}
    for column in declared:
        if column.expr is None and fields and column.name.lower() not in seen:
            raise MissingFieldError(
                f"table {table.name!r}: column {column.name!r} is a field of no file",
                hint=f"the files have {', '.join(fields)}; name a field, or give the column an expr",
            )
    columns = list(declared)
    if is_open:
        taken = {column.name.lower() for column in declared} | {source.op.lower()}
        if source.change_seq:
            taken.add(source.change_seq.lower())
        prefix = source.before_image_prefix
        columns += [
            Column(name=name, type=kind)
            for name, kind in fields.items()
            if name.lower() not in taken and not (prefix and name.startswith(prefix))
        ]
    types = {column.name: column.type for column in columns}
    times = [name for name in table.sequence_by if types.get(name) in _TIMES]
    return Contract(
        columns=tuple(columns),
        keys=table.keys,
        sequence_by=table.sequence_by,
        event_time=table.effective_at or (times[0] if times else None),
        fields=tuple(fields.items()),
    )


def declared(table: Table) -> str:
    """Fingerprint of what a table's changes depend on; when it differs, silver is made anew from bronze."""
    return fingerprint(
        table.model_dump(mode="json", include={"keys", "sequence_by", "columns", "effective_at"})
        | table.source.model_dump(mode="json", include={"kind", "op", "change_seq", "before_image_prefix"})
    )


def declared_mart(table: Table, mart: Current | History) -> str:
    """Fingerprint of what a mart's rows depend on; when it differs, the mart is made anew from silver."""
    rows = mart.model_dump(
        mode="json", exclude={"name", "partition_by", "sort_by", "format_version", "properties", "live_view"}
    )
    return fingerprint({"table": declared(table), **rows})


def fingerprint(value: object) -> str:
    """Shorten plain values to a text that differs when they do."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
