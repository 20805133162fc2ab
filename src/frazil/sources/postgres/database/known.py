"""What a table was when its rows or changes were last landed: it is known by numbers, not by names.

PostgreSQL sends changes of rows, and nothing of what an ``ALTER TABLE`` does to them. So each capture compares the
catalog with what is kept here, in the state of the landing folder, and decides for each table:

- its number is another one, or a partition is gone: rows are missed, the table stops;
- a column has another name: the declaration decides, the table stops until it does;
- a column was added with a default, labels of an enum were renamed, a partition came with rows: all rows that may
  differ are landed again, as upserts at the place of a snapshot. A row that is what the lake has changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

_NUMERIC: Final = 1700
_WIDER: Final = frozenset({(21, 23), (21, 20), (23, 20), (1043, 25), (25, 1043)})
"""Numbers of types whose values stay what they are where a column goes from one to the other."""

_TEXTS: Final = frozenset({1043, 25})


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownColumn:
    """A column that is published.

    Attributes:
        name: of the column.
        type, modifier: number and modifier of its type.
        altered: the transaction that last altered it.
    """

    name: str
    type: int
    modifier: int
    altered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A table as the catalog has it.

    Attributes:
        oid: its number.
        place: schema and name at the server.
        columns: number of a published column -> the column.
        last: the greatest number of a published column.
        filled: numbers of the columns that may have given older rows a value when they were added.
        filenode: number of the file with its rows, which changes when they are written again; 0 where it has none.
        partitions: number of a partition -> the transaction that attached it.
        labels: number of an enum's label -> the label, of all enums among the columns.
        row_filter: SQL of the rows that are published; None for all.
        generated: columns that are not published because the server computes them.
        identity: names of the columns of its replica identity; none in a state from before that was kept.
    """

    oid: int
    place: tuple[str, str]
    columns: Mapping[int, KnownColumn]
    last: int
    filled: frozenset[int]
    filenode: int
    partitions: Mapping[int, int]
    labels: Mapping[int, str]
    row_filter: str | None
    generated: tuple[str, ...]
    identity: tuple[str, ...] = ()

    @classmethod
    def parse(cls, kept: Mapping[str, Any]) -> Self:
        """Return what :meth:`as_values` wrote."""
        return cls(
            **{
                **kept,
                "place": tuple(kept["place"]),
                "columns": {int(number): KnownColumn(**column) for number, column in kept["columns"].items()},
                "filled": frozenset(kept["filled"]),
                "partitions": {int(oid): attached for oid, attached in kept["partitions"].items()},
                "labels": {int(oid): label for oid, label in kept["labels"].items()},
                "generated": tuple(kept["generated"]),
                "identity": tuple(kept.get("identity", ())),
            }
        )

    def as_values(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        columns = {
            number: {"name": one.name, "type": one.type, "modifier": one.modifier, "altered": one.altered}
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
            "labels": dict(self.labels),
            "row_filter": self.row_filter,
            "generated": self.generated,
            "identity": self.identity,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDifference:
    """What became of a table since it was known.

    Attributes:
        missed: why rows of it came or went that nobody sends; None where none did.
        renamed: old name of a column -> its new one.
        refilled: why rows have other values now that nobody sends; None where they have not.
        attached: numbers of the partitions that came, perhaps with rows.
    """

    missed: str | None = None
    renamed: Mapping[str, str]
    refilled: str | None = None
    attached: frozenset[int] = frozenset()


def table_difference(known: Known, now: Known) -> TableDifference:
    """Compare a table with what it was; its number is the same."""
    renamed = {
        known.columns[number].name: column.name
        for number, column in now.columns.items()
        if number in known.columns and known.columns[number].name != column.name
    }
    refilled = [*_refilled(known, now)]
    gone = [oid for oid, attached in known.partitions.items() if now.partitions.get(oid) != attached]
    return TableDifference(
        missed=_missed(known, now, renamed, gone),
        renamed=renamed,
        refilled=refilled[0] if refilled else None,
        attached=frozenset(now.partitions) - frozenset(known.partitions),
    )


def _missed(known: Known, now: Known, renamed: Mapping[str, str], gone: list[int]) -> str | None:
    if gone:
        count = "a partition was" if len(gone) == 1 else f"{len(gone)} partitions were"
        return f"{count} detached or dropped, and PostgreSQL does not send which rows went"
    if known.row_filter != now.row_filter:
        return "the row filter of its publication changed, and PostgreSQL does not send which rows came or went"
    before = {column.name for column in known.columns.values()}
    after = {column.name for column in now.columns.values()}
    if taken := sorted({old for old in renamed if old in after} | {new for new in renamed.values() if new in before}):
        return f"column {taken[0]} is another column than before under this name"
    return None


def _refilled(known: Known, now: Known) -> list[str]:
    """Write why rows have values now that nobody sends, most of all first."""
    found = []
    names = {column.name for column in known.columns.values()}
    for number, column in now.columns.items():
        before = known.columns.get(number)
        if before is None and column.name in names:
            found.append(f"column {column.name} was dropped and added again")
        elif before is None and column.name in known.generated:
            found.append(f"column {column.name} is no longer generated")
        elif before is None and number <= known.last:
            found.append(f"column {column.name} is published now")
        elif before is None and (number in now.filled or known.filenode != now.filenode):
            found.append(f"column {column.name} was added, and older rows have its default")
        elif before is not None and not _keeps_values(before, column):
            found.append(f"column {column.name} has another type")
        elif before is not None and before.altered != column.altered and _is_rewritten(known, now, before, column):
            found.append(f"column {column.name} was altered, and its values may be others")
    relabelled = [
        (known.labels[oid], label) for oid, label in now.labels.items() if known.labels.get(oid, label) != label
    ]
    return [*found, *(f"enum label '{old}' is called '{new}' now" for old, new in relabelled)]


def _is_rewritten(known: Known, now: Known, before: KnownColumn, after: KnownColumn) -> bool:
    """Return whether the rows were written again, as ``ALTER COLUMN … TYPE … USING`` does.

    A table with partitions has no file of its own: any change of the column counts, but for its name.
    """
    return known.filenode != now.filenode or (now.filenode == 0 and before.name == after.name)


def _keeps_values(before: KnownColumn, after: KnownColumn) -> bool:
    """Return whether all values are printed as before, as far as the types tell."""
    if before.type != after.type:
        return (before.type, after.type) in _WIDER
    if before.modifier == after.modifier or after.type in _TEXTS:
        return True
    return after.type == _NUMERIC and _scale(before.modifier) <= _scale(after.modifier)


def _scale(modifier: int) -> int:
    """Return how many digits behind the point a ``numeric`` keeps; without a modifier all."""
    return 16_384 if modifier < 0 else ((modifier - 4) & 0x7FF ^ 1024) - 1024
