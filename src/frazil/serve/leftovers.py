"""Tables that ``frazil drop`` can remove: leftovers of earlier declarations, and selected tables."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from frazil.serve.tables import read_snapshot, tables
from frazil.spec.sql.select import UnknownSelectionError
from frazil.spec.tables import lake_tables, quarantine_name, role_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frazil.catalog.catalogs import Located
    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.spec import Pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Droppable:
    """A table that can be dropped.

    Attributes:
        namespace, name: the table.
        rows: number of rows in its data files.
        role: bronze, silver, quarantine, mart, gold, or table if unknown.
        source: its source table, or the aggregate's own name.
    """

    namespace: str
    name: str
    rows: int
    role: str
    source: str

    @property
    def full_name(self) -> str:
        """Name with the namespace."""
        return f"{self.namespace}.{self.name}"


def leftovers(pipeline: Pipeline) -> list[Droppable]:
    """Return the pipeline's tables that its declaration no longer has.

    Raises:
        NoLakeError: no table of the lake exists.

    Cost: a metadata file for each table in the pipeline's namespaces that is not declared.
    """
    return _leftovers(pipeline, tables(pipeline, of_others=True))


def chosen(pipeline: Pipeline, select: Sequence[str]) -> list[Droppable]:
    """Return the tables that match the given names, declared tables and leftovers.

    Args:
        pipeline: the declaration.
        select: names such as ``marts.orders``, with ``*`` for any text. A source table's name selects all its tables.

    Raises:
        UnknownSelectionError: a word matches nothing.
        NoLakeError: no table of the lake exists.
    """
    located = tables(pipeline, of_others=True)
    known = [*_declared(pipeline, located), *_leftovers(pipeline, located)]
    for word in select:
        if not any(_matches(word, table) for table in known):
            near = get_close_matches(word, [table.full_name for table in known], n=1)
            raise UnknownSelectionError(
                f"the lake has no table {word!r}",
                hint=f"did you mean {near[0]!r}?" if near else "frazil status lists the tables",
            )
    return [table for table in known if any(_matches(word, table) for word in select)]


def _matches(word: str, table: Droppable) -> bool:
    return fnmatchcase(table.full_name, word) or ("." not in word and fnmatchcase(table.source, word))


def _declared(pipeline: Pipeline, located: Located) -> Iterator[Droppable]:
    for made in lake_tables(pipeline):
        if made.key in located:
            yield _droppable(made.key, read_snapshot(located[made.key]), made.made_of)


def _leftovers(pipeline: Pipeline, located: Located) -> list[Droppable]:
    spaces = pipeline.lake.namespaces
    layers = {spaces.bronze, spaces.silver, spaces.marts, spaces.gold}
    own = {made.key for made in lake_tables(pipeline)}
    others = {path: read_snapshot(located[path]) for path in located if path[0] in layers and path not in own}
    found = {
        path: _droppable(path, at, None)
        for path, at in others.items()
        if at.bookmark.get("pipeline") == pipeline.pipeline
    }
    # A quarantine that never had a record has no bookmark, so its source table is unknown.
    empty = {(spaces.silver, quarantine_name(table.source)) for table in found.values()}
    found |= {path: _droppable(path, at, None) for path, at in others.items() if path in empty and not at.bookmark}
    return [*found.values()]


def _droppable(path: tuple[str, str], at: TableSnapshot, source: str | None) -> Droppable:
    whose = source or at.bookmark.get("gold") or at.bookmark.get("table") or path[1].removesuffix(quarantine_name(""))
    return Droppable(
        namespace=path[0], name=path[1], rows=at.records, role=role_of(at.bookmark) or "table", source=str(whose)
    )
