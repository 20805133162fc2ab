"""The settled ``evolution`` of a table: which fields of a changed source become columns.

The first batch of a field, or in the first batch its file, decides whether it is new. Silver's bookmark keeps the
decision for earlier fields, so a rebuild makes the same columns.

Bronze keeps every record under its original names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from frazil.bronze import record as r
from frazil.errors import SchemaError
from frazil.spec.amount import counted
from frazil.spec.contract import added_columns, declared_columns, final_names, is_closed, on_new_column
from frazil.spec.model.types import holds, type_after
from frazil.spec.sql.names import literal, quote
from frazil.spec.sql.sql import fields_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from frazil.sources.base import NewFile
    from frazil.spec import Table

OFFERED: Final = "offered"
"""Key of bronze's bookmark: see :func:`offered_types`."""
REFUSED: Final = "refused"
"""Key of silver's bookmark: records wait in quarantine because their field has a type that its column does not hold."""
TYPES: Final = "types"
"""Key of silver's bookmark: types of fields that a changed ``on_type_change`` has made."""

_SHOWN = 10
_SOURCE = "source_"


class EvolutionError(SchemaError):
    """The source changed shape, and the declaration says ``fail``."""

    code = "FZ506"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evolved:
    """Decisions on undeclared fields; names are in lower case.

    Attributes:
        closed: the contract lists its columns.
        left_out: fields that do not become columns.
        followed: new fields that became columns of a closed contract.
        blocked: fields that do not become columns and whose values send a record to quarantine.
        new: fields that are newer than silver's bookmark.
        renamed: fields that become columns of a closed contract under another name, see
            :func:`open_name`.
        types: field -> its type, where ``on_type_change`` makes another one of it than bronze's bookmark has.
        offered: field -> the types that the source gave it and that its type does not hold, the newest last.
    """

    closed: bool
    left_out: frozenset[str] = frozenset()
    followed: frozenset[str] = frozenset()
    blocked: frozenset[str] = frozenset()
    new: frozenset[str] = frozenset()
    renamed: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    offered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def in_bookmark(self) -> dict[str, Any]:
        """Return the entries for silver's bookmark."""
        taken = {"followed": sorted(self.followed)} if self.closed else {"left_out": sorted(self.left_out)}
        return {
            "closed": self.closed,
            **taken,
            "blocked": sorted(self.blocked),
            "renamed": [*self.renamed],
            **({TYPES: dict(self.types)} if self.types else {}),
        }


def evolved(
    table: Table, bronze: Mapping[str, Any], silver: Mapping[str, Any], coming: Mapping[str, str] | None = None
) -> Evolved:
    """Decide which fields become columns, and their types.

    Args:
        table: the declaration.
        bronze: bronze's bookmark; empty if never written.
        silver: silver's bookmark; empty if never written.
        coming: all fields with their types once the new files are in bronze; None without new files.
    """
    since = {name.lower(): batch for name, batch in bronze.get("since", {}).items()}
    known = {name.lower() for name in bronze.get("fields", {}) if not table.source.is_bookkeeping(name)}
    fields = bronze.get("fields", {}) if coming is None else coming
    fresh = {name.lower() for name in fields if not table.source.is_bookkeeping(name)} - known
    columns = declared_columns(table).values()
    own = {column.name.lower() for column in columns}
    came = {*_called_now(table, bronze.get("later", ())), *since} & (known | fresh)
    read = {name.lower() for column in columns if column.expr is not None for name in fields_of(column.expr)}
    batch = int(silver.get("batch", 0))
    # Fields that exist when silver is first built are not new.
    new = (fresh | {name for name in known if since.get(name, 0) > batch}) - own if batch else set[str]()
    noted = silver if silver.get("closed") == is_closed(table) else {}
    left_out, followed, blocked = (
        _called_now(table, noted.get(name, ())) - own for name in ("left_out", "followed", "blocked")
    )
    blocked -= read
    match on_new_column(table):
        case "evolve":
            left_out, followed, blocked = set(), followed | new | blocked | (came - own), set()
        case "keep":
            left_out, blocked = left_out | new, set()
        case "quarantine":
            left_out, blocked = left_out | new, blocked | (new - read)
        case _:
            pass  # what is new stops the run
    if is_closed(table):
        left_out = (known | fresh) - own - followed
    types, unheld = _evolved_types(table, fields, bronze.get(OFFERED, {}), silver)
    return Evolved(
        closed=is_closed(table),
        types=types,
        offered=unheld,
        left_out=frozenset(left_out),
        followed=frozenset(followed if is_closed(table) else ()),
        blocked=frozenset(blocked),
        new=frozenset(new - read),
        renamed=tuple(
            name for name in sorted(followed if is_closed(table) else ()) if open_name(name, added(table)) != name
        ),
    )


def offered_types(
    before: Mapping[str, Sequence[str]], named: Iterable[Sequence[tuple[str, str]]], fields: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return field -> the types that its files gave it, the newest last, if its own type does not hold one of them.

    A later change of ``on_type_change`` can then take them, without a new file.

    Args:
        before: this value before the files.
        named: (name, type) of the fields of each file, in order.
        fields: field -> its type after the files, as bronze keeps it.
    """
    here = {name.lower(): name for name in fields}
    found = {name: [*kinds] for name, kinds in before.items()}
    for columns in named:
        for one, kind in columns:
            name = here.get(one.lower())
            if name is not None and (name in found or not holds(fields[name], kind)):
                found[name] = [*(other for other in found.get(name, ()) if other != kind), kind]
    return {
        name: kinds for name, kinds in found.items() if not all(holds(fields.get(name, kind), kind) for kind in kinds)
    }


def taken_otherwise(table: Table, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return a warning about fields with another kind of value, such as text for numbers; values that fit are taken.

    Args:
        table: the declaration.
        before: bronze's bookmark before some files.
        after: its entries after them.
    """
    if table.evolution.on_type_change == "evolve" or is_closed(table):
        return []
    known, finals, own = before.get(OFFERED, {}), final_names(table), {*map(str.lower, declared_columns(table))}
    found = []
    for name, kinds in after.get(OFFERED, {}).items():
        now, kind, newest = finals.get(name.lower(), name), after["fields"][name], kinds[-1]
        is_other = type_after(kind, newest, "evolve") == "string" != kind and newest not in known.get(name, ())
        if is_other and now.lower() not in own and not table.source.is_bookkeeping(name):
            found.append(f"{now} is {newest} at the source now and {kind} here")
    more = f" and {len(found) - _SHOWN} more" if found[_SHOWN:] else ""
    said = (
        f"{', '.join(found[:_SHOWN])}{more}: a value that fits the type here is taken as one. To take values as they "
        "are, say evolution: {on_type_change: evolve}, which makes the column a string"
    )
    return [said] if found else []


def _evolved_types(
    table: Table, fields: Mapping[str, str], offered: Mapping[str, Sequence[str]], silver: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Return the types of fields that differ from bronze's bookmark, and the offered types that do not fit.

    A type that ``evolve`` made stays. It takes earlier numbers of another type only if records wait for them:
    otherwise no row would change by a rebuild.
    """
    finals, policy = final_names(table), table.evolution.on_type_change
    policy = "keep" if policy == "fail" else policy  # fail stops at new files; it widens nothing
    made = {finals.get(name, name).lower(): kind for name, kind in silver.get(TYPES, {}).items()}
    types, unheld = dict[str, str](), dict[str, tuple[str, ...]]()
    given = {name.lower(): kinds for name, kinds in offered.items()}
    for name, kind in ((name.lower(), kind) for name, kind in fields.items()):
        now = type_after(kind, made.get(name, kind), "evolve")
        for other in given.get(name, ()):
            after = type_after(now, other, policy)
            if policy != "evolve" or silver.get(REFUSED) or after == "string":
                now = after
        if now != kind:
            types[name] = now
        if not all(holds(now, other) for other in given.get(name, ())):
            unheld[name] = tuple(given[name])
    return types, unheld


def later_fields(named: Iterable[Sequence[tuple[str, str]]]) -> list[str]:
    """Return the fields that the first file lacks; ``named`` has (name, type) of each file's fields, in order."""
    first: set[str] | None = None
    found: dict[str, str] = {}
    for fields in named:
        if fields and first is None:
            first = {name.lower() for name, _ in fields}
        found |= {name.lower(): name for name, _ in fields if name.lower() not in (first or ())}
    return [*found.values()]


def _called_now(table: Table, names: Iterable[str]) -> set[str]:
    finals = final_names(table)
    return {finals.get(name, name).lower() for name in names}


def open_name(field: str, added: Collection[str]) -> str:
    """Return the column name of an undeclared field.

    A field with the name of a column that one of the table's marts adds gets the prefix ``source_``. A field with that
    name after the prefix gets the prefix again. The name alone decides, so two fields never share a column, whichever
    comes first.

    Args:
        field: the name of the field.
        added: from :func:`added`.
    """
    bare = field.lower()
    while bare.startswith(_SOURCE):
        bare = bare.removeprefix(_SOURCE)
    return f"{_SOURCE}{field}" if bare in added else field


def added(table: Table) -> tuple[str, ...]:
    """Return the sorted names of the columns that the table's marts add to the contract."""
    return tuple(sorted({name for mart in table.marts for name in added_columns(mart)}))


def treated_otherwise(now: Evolved, silver: Mapping[str, Any]) -> str | None:
    """Return why silver must be rebuilt after new decisions on its fields; None if it need not be."""
    if silver.get("closed") != now.closed:
        return None  # a table older than evolution, or a changed declaration, which another check reports
    blocked = frozenset(silver["blocked"])
    followed = now.followed - now.new - frozenset(silver.get("followed", ()))
    if taken := sorted(followed | (frozenset(silver.get("left_out", ())) - now.left_out)):
        return f"{_shown(taken)} {'is a column' if len(taken) == 1 else 'are columns'} now"
    if [*now.renamed] != silver["renamed"]:
        return f"other fields have the names of columns that the marts add: {_shown(now.renamed)}"
    if passed := sorted(blocked - now.blocked):
        return f"values of {_shown(passed)} are let pass now"
    return None


def check_evolution(table: Table, bronze: Mapping[str, Any], now: Evolved, files: Sequence[NewFile]) -> None:
    """Raise if the source changed shape in a way that the declaration forbids.

    Args:
        table: the declaration.
        bronze: bronze's bookmark; an empty one means no change.
        now: from :func:`evolved`.
        files: the files to read, without broken ones.

    Raises:
        EvolutionError: the change is forbidden; nothing was written.
    """
    fields = {name.lower(): kind for name, kind in bronze.get("fields", {}).items()}
    fields |= {name: kind for name, kind in now.types.items() if name in fields}
    if not fields:
        return
    policy = table.evolution
    if on_new_column(table) == "fail" and now.new:
        hint = "take them with evolution: {on_new_column: evolve}, or leave them in bronze with keep; once, or for good"
        came = next((file.path for file in files if _types(table, file).keys() & now.new), "")
        _refuse(table, "on_new_column", f"{counted(len(now.new), 'new field')}: {_shown(now.new)}", came, hint)
    for file in files:
        types = _types(table, file)
        gone = _used(table, fields, now) - types.keys() if types else set[str]()
        if policy.on_missing_column == "fail" and gone:
            hint = "say keep, so that rows keep their values; or take the column out of the declaration"
            _refuse(table, "on_missing_column", f"no field {_shown(gone)}", file.path, hint)
        other = {name: kind for name, kind in types.items() if name in fields and not holds(fields[name], kind)}
        if policy.on_type_change == "fail" and other:
            told = ", ".join(
                f"{name} is {kind} and was {fields[name]}" for name, kind in sorted(other.items())[:_SHOWN]
            )
            hint = "say evolve, quarantine or keep, for one run or for good"
            _refuse(table, "on_type_change", told, file.path, hint)


def _types(table: Table, file: NewFile) -> dict[str, str]:
    """Return the fields of a file by current name in lower case, with their types."""
    finals = final_names(table)
    return {finals.get(name.lower(), name).lower(): kind for name, kind in file.fields}


def _used(table: Table, fields: Mapping[str, str], now: Evolved) -> set[str]:
    """Return the fields of columns without an expression."""
    own = {column.name.lower() for column in declared_columns(table).values() if column.expr is None}
    rest = {name for name in fields if name not in now.left_out and not table.source.is_bookkeeping(name)}
    return (own & fields.keys()) | rest


def _refuse(table: Table, setting: str, what: str, path: str, hint: str) -> None:
    at = f" in {path}" if path else ""
    raise EvolutionError(f"table {table.name!r}: {what}{at}; {setting} is fail, and nothing was taken", hint=hint)


def _shown(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - _SHOWN} more" if listed[_SHOWN:] else ""
    return ", ".join(map(repr, listed[:_SHOWN])) + more


def renamed_fields(table: Table, fields: Mapping[str, str]) -> dict[str, str]:
    """Return fields by current name with their types, each at the position of its first name."""
    finals, found = final_names(table), dict[str, tuple[str, str]]()
    for name, kind in fields.items():
        now = finals.get(name.lower(), name)
        first, have = found.get(now.lower(), (now, kind))
        found[now.lower()] = (first, type_after(have, kind, table.evolution.on_type_change))
    return dict(found.values())


def renamed_bookmark(table: Table, bronze: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return bronze's bookmark with current field names; a field with two names gets its earlier first batch.

    Args:
        table: the declaration.
        bronze: the bookmark; may be empty.
    """
    if not table.renames or not bronze:
        return bronze
    finals, since = final_names(table), dict(bronze.get("since", {}))
    arrived: dict[str, int] = {}
    for name in bronze.get("fields", {}):
        now = finals.get(name.lower(), name)
        arrived[now] = min(arrived.get(now, since.get(name, 0)), since.get(name, 0))
    return {
        **bronze,
        "fields": renamed_fields(table, bronze.get("fields", {})),
        "since": {name: batch for name, batch in arrived.items() if batch},
        OFFERED: _renamed_offers(finals, bronze.get(OFFERED, {})),
    }


def _renamed_offers(finals: Mapping[str, str], offered: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, kinds in offered.items():
        found.setdefault(finals.get(name.lower(), name), []).extend(kinds)
    return found


def renamed_records(records: DataFrame, table: Table, bronze: Mapping[str, Any]) -> DataFrame:
    """Rename the fields of bronze records to their current names.

    Args:
        records: n rows of bronze.
        table: the declaration.
        bronze: bronze's own bookmark.

    Returns:
        The same rows. If a record carries a field under several names, the newest name counts.
    """
    finals = final_names(table)
    here = {name.lower(): name for name in records.columns}
    targets: dict[str, list[str]] = {}
    for old, now in finals.items():
        if old in here:
            targets.setdefault(now, []).append(here[old])
    if not targets:
        return records
    since = {name.lower(): batch for name, batch in bronze.get("since", {}).items()}
    gone = {name for olds in targets.values() for name in olds}
    made = []
    for now, olds in targets.items():
        # The declaration lists the latest rename last.
        names = [here[now.lower()], *reversed(olds)] if now.lower() in here else [*reversed(olds)]
        cases = " ".join(f"WHEN {_carries(name, since.get(name.lower(), 0))} THEN {quote(name)}" for name in names)
        made.append(f"CASE {cases} END AS {quote(now)}")
    rest = [quote(name) for name in records.columns if name not in gone and name not in targets and name != r.KNOWN]
    return records.selectExpr(*rest, *made, f"{_known_now(finals)} AS {r.KNOWN}")


def _carries(name: str, batch: int) -> str:
    listed = f"exists({r.KNOWN}, field -> lower(field) = {literal(name.lower())})"
    return f"({r.KNOWN} IS NULL AND {r.BATCH} >= {batch} OR coalesce({listed}, false))"


def _known_now(finals: Mapping[str, str]) -> str:
    cases = " ".join(f"WHEN lower(field) = {literal(old)} THEN {literal(now)}" for old, now in finals.items())
    return f"transform({r.KNOWN}, field -> CASE {cases} ELSE field END)"
