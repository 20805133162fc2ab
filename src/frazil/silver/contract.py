"""The settled contract of a table: its columns, their types and their fields."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import SchemaError
from frazil.silver.evolution import REFUSED, added, open_name
from frazil.spec import Column, History
from frazil.spec.contract import declared_columns, event_time, final_names, is_closed, previous_keys
from frazil.spec.model.column import COLUMN_RULES
from frazil.spec.model.types import holds, type_after
from frazil.spec.sql.names import quote
from frazil.spec.sql.sql import fields_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from frazil.silver.evolution import Evolved
    from frazil.spec import Current, Rule, Table
    from frazil.spec.model.types import BeyondMicroseconds

_TIMES = ("timestamp", "timestamp_ntz", "date")

LAWS: Final = 1
"""Version of the laws of silver's changes. Silver's bookmark keeps it; silver of an older version is rebuilt.

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
        event_time: the column with the times of history, or None.
        rules: rules over several columns, and over whole marts.
        fields: (name, type) of the source's fields, in order of first appearance.
        blocked: fields whose values send a record to quarantine, in lower case.
        whole: a record that lacks a field of a column goes to quarantine.
        renames: (old name in lower case, current name) of renamed fields.
        ignores_nulls: an upsert does not carry the columns in which it has NULL.
        too_late: SQL condition of a change that can no longer be applied, or None.
        previous: (column, key) of columns with the value of a key before a change of key.
        beyond: policy for digits of a timestamp beyond microseconds.
        unheld: (column, types) of columns whose field the source gave types that the column does not hold, the newest
            last.
        zoned: columns of instants whose field also came as times without a zone: such a time is not taken as UTC.
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
    unheld: tuple[tuple[str, tuple[str, ...]], ...] = ()
    zoned: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the column names in table order."""
        return tuple(column.name for column in self.columns)

    def needs(self, column: Column) -> frozenset[str]:
        """Return the fields of a column, in lower case."""
        names = (column.name,) if column.expr is None else fields_of(column.expr)
        return frozenset(map(str.lower, names))


def settle(table: Table, fields: Mapping[str, str], evolved: Evolved | None = None) -> Contract:
    """Settle the contract of a table against the fields its files have.

    Declared columns come first, with their order and types. Every other field that is not left out follows in order of
    first appearance, with its type in the files and its :func:`frazil.silver.evolution.open_name`. Bookkeeping fields
    of the source, such as an op column, stay in bronze.

    Args:
        table: the declaration.
        fields: name of every known field -> its type (``string`` for CSV).
        evolved: the fields to leave out. With None, a closed contract leaves out all undeclared fields, and an open one
            (no ``columns``, or a last ``"*"``) leaves out none.

    Raises:
        MissingFieldError: no file has the field of a declared column without ``expr``.
    """
    if evolved is not None:
        fields = {name: evolved.types.get(name.lower(), kind) for name, kind in fields.items()}
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
    unheld = () if evolved is None else tuple(_unheld(table, columns, evolved))
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
        unheld=unheld,
        zoned=tuple(
            name
            for name, kinds in unheld
            if types[name] == "timestamp" and "timestamp_ntz" in kinds and name not in declared_columns(table)
        ),
    )


def _unheld(table: Table, columns: Iterable[Column], evolved: Evolved) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the columns that are a field of another type; an expression makes its own type of any field."""
    added_names = added(table)
    named = {open_name(name, added_names).lower(): kinds for name, kinds in evolved.offered.items()}
    declared_names = declared_columns(table)
    for column in columns:
        kinds = (evolved.offered if column.name in declared_names else named).get(column.name.lower(), ())
        is_field = column.expr is None or column.name not in declared_names
        if is_field and not all(holds(column.type, kind) for kind in kinds):
            yield column.name, tuple(kinds)


def retyped_fields(table: Table, contract: Contract, silver: Mapping[str, Any]) -> list[str]:
    """Return why records wait in quarantine for columns that the source gives another type, with the ways out.

    Args:
        table: the declaration.
        contract: its contract.
        silver: silver's bookmark.
    """
    if not silver.get(REFUSED):
        return []
    declared_names, types = declared_columns(table), {column.name: column.type for column in contract.columns}
    found = []
    for name, kinds in contract.unheld:
        *_, newest = (kind for kind in kinds if not holds(types[name], kind))
        has, to = ("has" if newest == kinds[-1] else "had"), type_after(types[name], newest, "evolve")
        way = f"declare it as {to} in columns"
        if name not in declared_names:
            way = f"say evolution: {{on_type_change: evolve}}, which makes it {to}, or {way}"
        found.append(
            f"{name} {has} the type {newest} at the source and is {types[name]} here, so records whose {name} does not "
            f"fit are in quarantine. To take them, {way}; the next run rebuilds the table"
        )
    return found


def _kept_as_text(table: Table, field: str, kind: str) -> str:
    """Return the type of an undeclared column; ``beyond_microseconds: text`` keeps timestamps as text."""
    is_time = kind.startswith("timestamp") and field not in {table.effective_at, *table.source.own_fields}
    return "string" if is_time and table.beyond_microseconds == "text" else kind


def _open_column(field: str, kind: str, *, renames: Collection[str]) -> Column:
    name = open_name(field, renames)
    return Column(name=name, type=kind) if name == field else Column(name=name, type=kind, expr=quote(field))


def declared(table: Table) -> str:
    """Return the fingerprint of the settings of a table's changes; if it differs, silver is rebuilt from bronze."""
    return fingerprint(_table_settings(table))


def declared_mart(table: Table, mart: Current | History) -> str:
    """Return the fingerprint of the settings of a mart's rows; if it differs, the mart is rebuilt from silver."""
    return fingerprint({"table": declared(table), **_mart_settings(mart)})


def settings(table: Table, mart: Current | History | None = None) -> dict[str, str]:
    """Return setting -> fingerprint, for the settings of a table's changes or a mart's rows."""
    chosen = _table_settings(table) | ({} if mart is None else _mart_settings(mart))
    return {name: fingerprint(value)[:8] for name, value in chosen.items()}


def changed_settings(before: Mapping[str, str] | None, table: Table, mart: Current | History | None = None) -> str:
    """Write which settings changed since an earlier run.

    Args:
        before: :func:`settings` of that run; None if it was not kept.
        table: the declaration.
        mart: the mart, for the settings of its rows; None for those of the table's changes.
    """
    now = settings(table, mart)
    changed = [name for name in dict.fromkeys((*now, *(before or ()))) if before and before.get(name) != now.get(name)]
    return f"{', '.join(changed)} changed" if changed else "the declaration changed"


def fingerprint(value: object) -> str:
    """Return a short hash of plain values."""
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
    """Return the settings of a column that changes depend on; rules that warn or fail do not affect silver."""
    settings = column.model_dump(mode="json", include={"name", "type", "nullable", "expr"})
    if column.on_violation != "quarantine":
        return settings | {"nullable": True}
    rules = column.model_dump(mode="json", include={*COLUMN_RULES}, exclude_none=True)
    return settings | rules


def _mart_settings(mart: Current | History) -> dict[str, Any]:
    left_out = {"name", "partition_by", "sort_by", "format_version", "properties", "live_view", "bitemporal"}
    # Only if set: settings that older versions kept do not have this name.
    known = {"bitemporal": True} if isinstance(mart, History) and mart.bitemporal else {}
    return mart.model_dump(mode="json", exclude=left_out) | known
