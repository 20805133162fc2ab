"""The contract of a table, settled: which columns, of which type, from which fields."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import SchemaError
from frazil.silver.evolution import added, open_name
from frazil.spec import Column, History
from frazil.spec.contract import declared as declared_columns
from frazil.spec.contract import event_time, final_names, is_closed, previous_keys
from frazil.spec.model.rule import COLUMN_RULES
from frazil.spec.sql.names import quote
from frazil.spec.sql.sql import fields_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from frazil.silver.evolution import Evolved
    from frazil.spec import Current, Rule, Table
    from frazil.spec.model.types import BeyondMicroseconds

_TIMES = ("timestamp", "timestamp_ntz", "date")

LAWS: Final = 1
"""Number of the laws that silver's changes follow. Silver keeps it; one of older laws is made from bronze again.

1: a delete has the source's own time.
"""


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
        rules: what rows keep over several columns, and what whole marts keep.
        fields: the source's fields with their types, in order of first appearance.
        blocked: fields of which a value sends a record to quarantine, in lower case.
        whole: a record that lacks a field of a column goes to quarantine.
        renames: old name of a field, in lower case, and the one that it has now.
        ignores_nulls: an upsert does not carry the columns in which it has NULL.
        too_late: SQL condition of a change that can no longer be applied; None for none.
        previous: column with the value that a key had before it was changed, and the column of the key.
        beyond: what becomes of the digits of a timestamp beyond microseconds.
    """

    columns: tuple[Column, ...]
    keys: tuple[str, ...]
    sequence_by: tuple[str, ...]
    event_time: str | None
    rules: tuple[Rule, ...] = ()
    fields: tuple[tuple[str, str], ...]
    blocked: tuple[str, ...] = ()
    whole: bool = False
    renames: tuple[tuple[str, str], ...] = ()
    ignores_nulls: bool = False
    too_late: str | None = None
    previous: tuple[tuple[str, str], ...] = ()
    beyond: BeyondMicroseconds = "truncate"

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in table order."""
        return tuple(column.name for column in self.columns)

    def needs(self, column: Column) -> frozenset[str]:
        """Fields that a column is made of, lower case."""
        names = (column.name,) if column.expr is None else fields_of(column.expr)
        return frozenset(map(str.lower, names))


def settle(table: Table, fields: Mapping[str, str], evolved: Evolved | None = None) -> Contract:
    """Settle the contract of a table against the fields its files have.

    Declared columns keep their order and types. Every other field that is not left out follows with the type the file
    gives it, in order of first appearance, under its :func:`frazil.silver.evolution.open_name`; what the source keeps
    its own books with, such as an op column, stays in bronze.

    Args:
        table: the declaration.
        fields: name of every field seen so far -> its type (``string`` for CSV).
        evolved: which of them are left out; None for all others in a closed contract, and for none in an open one (no
            ``columns``, or a last ``"*"``).

    Raises:
        MissingFieldError: a declared column without ``expr`` is a field of no file.
    """
    declared = [*declared_columns(table).values()]
    previous = {name: key for name, key in previous_keys(table).items() if name.lower() not in map(str.lower, fields)}
    seen = {name.lower() for name in (*fields, *table.source.made_columns, *previous)}
    for column in declared:
        if column.expr is None and fields and column.name.lower() not in seen:
            raise MissingFieldError(
                f"table {table.name!r}: column {column.name!r} is a field of no file",
                hint=f"the files have {', '.join(fields)}; name a field, or give the column an expr",
            )
    columns = list(declared)
    left_out = evolved.left_out if evolved is not None else frozenset()
    if evolved is not None or not is_closed(table):
        taken = {column.name.lower() for column in declared}
        columns += [
            _open_column(name, _kept_as_text(table, name, kind), renames=added(table))
            for name, kind in fields.items()
            if name.lower() not in left_out
            and not {name.lower(), open_name(name, added(table)).lower()} & taken
            and not table.source.is_bookkeeping(name)
        ]
    types = {column.name: column.type for column in columns}
    times = [name for name in table.sequence_by if types.get(name) in _TIMES]
    return Contract(
        columns=tuple(columns),
        keys=table.keys,
        sequence_by=table.sequence_by,
        event_time=event_time(table) or (times[0] if times else None),
        rules=table.rules,
        fields=tuple(fields.items()),
        blocked=tuple(sorted(evolved.blocked)) if evolved is not None else (),
        whole=table.evolution.on_missing_column == "quarantine",
        renames=tuple(final_names(table).items()),
        ignores_nulls=table.ignore_null_updates,
        previous=tuple(previous.items()),
        beyond=table.beyond_microseconds or "truncate",
    )


def _kept_as_text(table: Table, field: str, kind: str) -> str:
    """Return the type of a column that nobody declared: with ``text``, timestamps keep all of their digits."""
    is_time = kind.startswith("timestamp") and field not in {table.effective_at, *table.source.own_fields}
    return "string" if is_time and table.beyond_microseconds == "text" else kind


def _open_column(field: str, kind: str, *, renames: Collection[str]) -> Column:
    name = open_name(field, renames)
    return Column(name=name, type=kind) if name == field else Column(name=name, type=kind, expr=quote(field))


def declared(table: Table) -> str:
    """Fingerprint of what a table's changes depend on; when it differs, silver is rebuilt from bronze."""
    return fingerprint(_table_settings(table))


def declared_mart(table: Table, mart: Current | History) -> str:
    """Fingerprint of what a mart's rows depend on; when it differs, the mart is rebuilt from silver."""
    return fingerprint({"table": declared(table), **_mart_settings(mart)})


def settings(table: Table, mart: Current | History | None = None) -> dict[str, str]:
    """Return a fingerprint of each setting that a table's changes, or a mart's rows, depend on, by its name."""
    chosen = _table_settings(table) | ({} if mart is None else _mart_settings(mart))
    return {name: fingerprint(value)[:8] for name, value in chosen.items()}


def changed_settings(before: Mapping[str, str] | None, table: Table, mart: Current | History | None = None) -> str:
    """Return which settings differ from ``before``, what :func:`settings` gave in an earlier run, if it was kept."""
    now = settings(table, mart)
    changed = [name for name in dict.fromkeys((*now, *(before or ()))) if before and before.get(name) != now.get(name)]
    return f"{', '.join(changed)} changed" if changed else "the declaration changed"


def fingerprint(value: object) -> str:
    """Shorten plain values to a text that differs when they do."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _table_settings(table: Table) -> dict[str, Any]:
    renames = {} if is_closed(table) or not added(table) else {"added": added(table)}
    own = [name for name in declared_columns(table) if name not in {column.name for column in table.columns or ()}]
    implied = {"own": own} if own else {}
    meaning: dict[str, Any] = table.source.meaning
    own_settings = table.model_dump(mode="json", include={"keys", "sequence_by", "columns", "effective_at"})
    if table.columns is not None:
        own_settings["columns"] = [*map(_column_settings, table.columns)]
    rules = [[rule.name, rule.expr] for rule in table.rules if rule.on_violation == "quarantine"]
    whole = {"on_missing_column": "quarantine"} if table.evolution.on_missing_column == "quarantine" else {}
    renamed = {"renames": table.renames} if table.renames else {}
    nulls = {"ignore_null_updates": True} if table.ignore_null_updates else {}
    beyond = table.beyond_microseconds or "truncate"
    digits = {} if beyond == "truncate" else {"beyond_microseconds": beyond}
    told = {"rules": rules} if rules else {}
    return own_settings | meaning | renames | implied | whole | renamed | nulls | digits | told


def _column_settings(column: Column) -> dict[str, Any]:
    """Return what changes depend on of a column. Rules that only warn or stop a run leave silver as it is."""
    settings = column.model_dump(mode="json", include={"name", "type", "nullable", "expr"})
    if column.on_violation != "quarantine":
        return settings | {"nullable": True}
    rules = column.model_dump(mode="json", include={*COLUMN_RULES}, exclude_none=True)
    return settings | rules


def _mart_settings(mart: Current | History) -> dict[str, Any]:
    left_out = {"name", "partition_by", "sort_by", "format_version", "properties", "live_view", "bitemporal"}
    # Only where it is set: the settings of histories that older versions made have no such name.
    known = {"bitemporal": True} if isinstance(mart, History) and mart.bitemporal else {}
    return mart.model_dump(mode="json", exclude=left_out) | known
