"""What a plan is built from: where every table stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frazil.gold.template import declared_gold
from frazil.silver.contract import declared, declared_mart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.bronze.layout import NewFile
    from frazil.spec import Gold, Pipeline, Table

BRONZE = "bronze"
SILVER = "silver"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a source has to offer that bronze does not hold."""

    files: tuple[NewFile, ...] = ()
    duplicates: tuple[NewFile, ...] = ()
    deferred: tuple[tuple[str, str], ...] = ()
    reorders: bool = False
    """A known content came under a name that stands earlier: ties may fall otherwise, so the table is rebuilt."""
    reordered_in: int = 0
    """Newest batch of bronze in which that happened: tables that stand before it are still to be rebuilt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """Where the tables of one source table stand: the batch of bronze each of them holds, 0 for none."""

    bronze: int = 0
    silver: int = 0
    marts: Mapping[str, int] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    """Rows of each mart."""
    taken: Taken = Taken()
    redeclared: frozenset[str] = frozenset()
    """Marts whose declaration changed since they were written, and ``SILVER`` if the changes' did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Where a whole lake stands, and what the sources have."""

    tables: Mapping[str, TableState] = field(default_factory=dict)
    gold: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Aggregate -> mart -> batch of the mart it was computed from."""


def table_state(
    table: Table, bookmarks: Mapping[str, Mapping[str, Any]], taken: Taken, rows: Mapping[str, int] | None = None
) -> TableState:
    """Read a table's state off its bookmarks.

    Args:
        table: the declaration.
        bookmarks: of ``BRONZE``, ``SILVER`` and each mart by name; empty for a table never written.
        taken: what the source offers.
        rows: of each mart by name.
    """
    wanted = {SILVER: declared(table)} | {table.mart_name(mart): declared_mart(table, mart) for mart in table.marts}
    batches = {name: int(bookmark.get("batch", 0)) for name, bookmark in bookmarks.items()}
    return TableState(
        bronze=batches[BRONZE],
        silver=batches[SILVER],
        marts={name: batches[name] for name in wanted if name != SILVER},
        rows=rows or {},
        taken=taken,
        redeclared=frozenset(
            name for name, print_ in wanted.items() if bookmarks[name] and bookmarks[name].get("declared") != print_
        ),
    )


def gold_state(pipeline: Pipeline, bookmarks: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, int]]:
    """Read off their bookmarks which batches of which marts the aggregates were computed from.

    An aggregate counts as computed from nothing when its SELECT, or a mart it reads, was declared otherwise then.

    Args:
        pipeline: the declaration.
        bookmarks: of each aggregate by name; empty for one never computed.
    """

    def inputs(gold: Gold) -> Mapping[str, int]:
        bookmark = bookmarks[gold.name]
        found: Mapping[str, int] = bookmark.get("inputs", {})
        return found if bookmark.get("declared") == declared_gold(pipeline, gold) else {}

    return {gold.name: inputs(gold) for gold in pipeline.gold}
