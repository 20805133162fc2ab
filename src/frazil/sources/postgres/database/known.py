"""The last captured definition of a table, identified by numbers instead of names, and its comparison with the catalog.

PostgreSQL sends changes of rows, but not the effects of an ``ALTER TABLE``. Each capture therefore compares the catalog
with the definition in the state of the landing folder and decides for each table:

- the table has another number, or a partition was removed: rows are missing, and the table stops;
- the row filter changed, or a column left the publication, even for a time: changes are missing, and the table stops;
- a column was renamed: the declaration decides, and the table stops until it does;
- a column was added with a default or took the name of an earlier one, labels of an enum were renamed, or a partition
  was attached: all rows that may differ are landed again, as upserts at the place of a snapshot. A row that equals the
  lake's changes nothing. If a column of the key changed, a truncate comes first, because rows have other keys now.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_NUMERIC: Final = 1700
_WIDER: Final = frozenset({(21, 23), (21, 20), (23, 20), (1043, 25), (25, 1043)})
"""(old type, new type) of changes that keep all values."""

_TEXTS: Final = frozenset({1043, 25})


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownColumn:
    """A published column.

    Attributes:
        name: name of the column.
        type, modifier: number and modifier of its type.
        altered: transaction that last altered it.
        parts: number of an enum label -> the label, and of a composite type -> its fields, for all types in its type.
    """

    name: str
    type: int
    modifier: int
    altered: int
    parts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The definition of a table in the catalog.

    Attributes:
        oid: number of the table.
        place: schema and name at the server.
        columns: number of a published column -> the column.
        last: greatest number of a published column.
        filled: numbers of columns that may have given older rows a value when they were added.
        filenode: number of the file with the rows, which changes when they are rewritten; 0 for partitioned tables.
        partitions: number of a partition -> transaction that attached it.
        row_filter: SQL condition of the published rows; None for all.
        generated: columns that the server computes and does not publish.
        identity: columns of the replica identity; empty in the state of older versions.
        unlisted: numbers of the columns that the column list of the publication leaves out.
        entry: number of its entry in the publication, which is another one whenever its column list or row filter was
            changed, or it was taken out and added again; 0 without one, and in the state of older versions.
        publication: number of the publication, transaction that last altered it, and its settings; zeros in the state
            of older versions.
        former: names of columns that were captured once and are gone.
    """

    oid: int
    place: tuple[str, str]
    columns: Mapping[int, KnownColumn]
    last: int
    filled: frozenset[int]
    filenode: int
    partitions: Mapping[int, int]
    row_filter: str | None
    generated: tuple[str, ...]
    identity: tuple[str, ...] = ()
    unlisted: frozenset[int] = frozenset()
    entry: int = 0
    publication: tuple[int, int, str] = (0, 0, "")
    former: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, kept: Mapping[str, Any]) -> Self:
        """Return the definition from the values of :meth:`as_values`."""
        return cls(
            **{
                **{name: value for name, value in kept.items() if name != "labels"},  # of older versions
                "place": tuple(kept["place"]),
                "columns": {int(number): KnownColumn(**column) for number, column in kept["columns"].items()},
                "filled": frozenset(kept["filled"]),
                "partitions": {int(oid): attached for oid, attached in kept["partitions"].items()},
                "generated": tuple(kept["generated"]),
                "identity": tuple(kept.get("identity", ())),
                "unlisted": frozenset(kept.get("unlisted", ())),
                "publication": tuple(kept.get("publication", (0, 0, ""))),
                "former": frozenset(kept.get("former", ())),
            }
        )

    def as_values(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        columns = {
            number: {
                "name": one.name,
                "type": one.type,
                "modifier": one.modifier,
                "altered": one.altered,
                "parts": dict(one.parts),
            }
            for number, one in self.columns.items()
        }
        return {
            "oid": self.oid,
            "place": self.place,
            "columns": columns,
            "last": self.last,
            "filled": sorted(self.filled),
            "filenode": self.filenode,
            "partitions": dict(self.partitions),
            "row_filter": self.row_filter,
            "generated": self.generated,
            "identity": self.identity,
            "unlisted": sorted(self.unlisted),
            "entry": self.entry,
            "publication": self.publication,
            "former": sorted(self.former),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDifference:
    """Changes of a table's definition since the last capture.

    Attributes:
        missed: why rows came or went without changes that PostgreSQL sends; None if none did.
        renamed: old name of a column -> new name.
        refilled: why values changed without changes that PostgreSQL sends; None if none did.
        rekeyed: the same for a column of the key; None if no key changed.
        attached: numbers of new partitions, which may have rows.
        unlisted: columns that left the publication, although the table has them.
    """

    missed: str | None = None
    renamed: Mapping[str, str]
    refilled: str | None = None
    rekeyed: str | None = None
    attached: frozenset[int] = frozenset()
    unlisted: tuple[str, ...] = ()


def after(known: Known, now: Known) -> Known:
    """Return the current definition with the names of the columns that are gone since the known one."""
    names = {column.name for column in now.columns.values()}
    return replace(now, former=(known.former | {column.name for column in known.columns.values()}) - names)


def table_difference(known: Known, now: Known, keys: Collection[str]) -> TableDifference:
    """Compare the current definition of a table with the known one; both have the same number.

    Args:
        known: definition of the last capture.
        now: definition in the catalog.
        keys: columns that the keys of the lake are made of, in lower case.
    """
    renamed = {
        known.columns[number].name: column.name
        for number, column in now.columns.items()
        if number in known.columns and known.columns[number].name != column.name
    }
    refilled = _refilled(known, now)
    rekeyed = (why for name, why in refilled if name.lower() in keys)
    gone = [oid for oid, attached in known.partitions.items() if now.partitions.get(oid) != attached]
    return TableDifference(
        missed=_missed(known, now, renamed, gone),
        renamed=renamed,
        refilled=refilled[0][1] if refilled else None,
        rekeyed=next(rekeyed, None),
        attached=frozenset(now.partitions) - frozenset(known.partitions),
        unlisted=_unlisted(known, now),
    )


def _missed(known: Known, now: Known, renamed: Mapping[str, str], gone: list[int]) -> str | None:
    if gone:
        count = "a partition was" if len(gone) == 1 else f"{len(gone)} partitions were"
        return f"{count} detached or dropped, and PostgreSQL does not send which rows went"
    if known.row_filter != now.row_filter:
        return "the row filter of its publication changed, and PostgreSQL does not send which rows came or went"
    if unlisted := _unlisted(known, now):
        return f"column {unlisted[0]} is no longer published, and PostgreSQL does not send its changes"
    if undone := _undone(known, now):
        return f"{undone}, and that was undone"
    before = {column.name for column in known.columns.values()}
    after = {column.name for column in now.columns.values()}
    if taken := sorted({old for old in renamed if old in after} | {new for new in renamed.values() if new in before}):
        return f"column {taken[0]} is another column than before under this name"
    return None


def _undone(known: Known, now: Known) -> str | None:
    """Return what happened to the publication between two captures, if it looks as before."""
    if known.entry and now.entry and known.entry != now.entry and known.unlisted == now.unlisted:
        return "it was taken out of the publication, or its column list or row filter changed"
    (number, altered, settings), after = known.publication, now.publication
    is_another = number not in (0, after[0])
    if is_another or (number and altered != after[1] and settings == after[2]):
        return "its publication was dropped or altered"
    return None


def _unlisted(known: Known, now: Known) -> tuple[str, ...]:
    """Return the columns that were published and that the table still has, but its publication does not."""
    return tuple(column.name for number, column in known.columns.items() if number in now.unlisted)


def _refilled(known: Known, now: Known) -> list[tuple[str, str]]:
    """Return (column, reason) where values changed without changes that PostgreSQL sends."""
    found = ((column.name, _refilled_column(known, now, number)) for number, column in now.columns.items())
    return [(name, f"column {name} {why}") for name, why in found if why is not None]


def _refilled_column(known: Known, now: Known, number: int) -> str | None:
    column, before = now.columns[number], known.columns.get(number)
    if before is None:
        return _added(known, now, number)
    if not _keeps_values(before, column):
        return "has another type"
    if before.altered != column.altered and _is_rewritten(known, now, before, column):
        return "was altered, and its values may be others"
    changed = ((old, column.parts.get(part, old)) for part, old in before.parts.items())
    return next((f"has a type where '{old}' is '{new}' now" for old, new in changed if old != new), None)


def _added(known: Known, now: Known, number: int) -> str | None:
    """Return why a column that is new may have other values than those of older rows here."""
    name = now.columns[number].name
    if name in {column.name for column in known.columns.values()} | known.former:
        return "was dropped and added again"
    if name in known.generated:
        return "is no longer generated"
    if number <= known.last:
        return "is published now"
    if number in now.filled or known.filenode != now.filenode:
        return "was added, and older rows have its default"
    return None


def _is_rewritten(known: Known, now: Known, before: KnownColumn, after: KnownColumn) -> bool:
    """Return True if the rows were rewritten, as by ``ALTER COLUMN … TYPE … USING``.

    A partitioned table has no file of its own, so any change of the column except its name counts as a rewrite.
    """
    return known.filenode != now.filenode or (now.filenode == 0 and before.name == after.name)


def _keeps_values(before: KnownColumn, after: KnownColumn) -> bool:
    """Return True if all values are printed as before, judged by the types."""
    if before.type != after.type:
        return (before.type, after.type) in _WIDER
    if before.modifier == after.modifier or after.type in _TEXTS:
        return True
    return after.type == _NUMERIC and _scale(before.modifier) <= _scale(after.modifier)


def _scale(modifier: int) -> int:
    """Return the number of decimal places of a ``numeric``; unlimited without a modifier."""
    return 16_384 if modifier < 0 else ((modifier - 4) & 0x7FF ^ 1024) - 1024
