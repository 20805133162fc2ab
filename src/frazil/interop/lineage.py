"""Lineage: the tables and columns that a table is made of, and those that are made of it, from source to gold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from frazil.catalog.catalogs import NoLakeError
from frazil.gold import render
from frazil.serve.layers import layers
from frazil.serve.tables import tables
from frazil.silver.contract import settle
from frazil.spec.contract import added_columns
from frazil.spec.sql.names import quote
from frazil.spec.sql.select import UnknownSelectionError, selected
from frazil.spec.sql.sql import gold_in_order, mart_references
from frazil.spec.tables import gold_table, source_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from frazil.catalog.catalogs import Located
    from frazil.silver.contract import Contract
    from frazil.spec import Pipeline, Table
    from frazil.spec.tables import Role

Origins = dict[str, tuple[tuple[str, str], ...]]
"""Column -> the (table, column) pairs that its values come from; empty for a constant or ``count(*)``."""

NodeRole: TypeAlias = "Literal['source'] | Role"
"""Role of a node: a source, or as :class:`frazil.spec.tables.LakeTable` has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageNode:
    """A source or a table.

    Attributes:
        name: the table with its namespace, or ``source.<table>``.
        role: source, bronze, silver, quarantine, mart, view or gold.
        made_of: names of the nodes that it is made of.
        columns: column -> the (node, column) pairs that its values come from. Empty for bronze and quarantine, which
            keep whole records.
    """

    name: str
    role: NodeRole
    made_of: tuple[str, ...]
    columns: Mapping[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """Sources and tables, each after those that it is made of.

    Attributes:
        table: the node that the lineage is of; empty for the whole pipeline.
        nodes: the nodes.
    """

    table: str
    nodes: tuple[LineageNode, ...]

    def readers(self, name: str) -> tuple[str, ...]:
        """Return the nodes that are made of one directly."""
        return tuple(node.name for node in self.nodes if name in node.made_of)


def lineage(pipeline: Pipeline, table: str | None = None) -> Lineage:
    """Return what a table is made of, and what is made of it; starts no JVM.

    Columns that only select rows (WHERE, JOIN, GROUP BY of others) are not origins.

    Args:
        pipeline: the declaration.
        table: a source table, mart or aggregate, with or without its layer; None for all.

    Raises:
        UnknownSelectionError: no such table, or several.
        FrazilError: the catalog cannot be read.

    Cost: reads the newest metadata of bronze and silver, and parses the SQL of every aggregate.
    """
    nodes = {node.name: node for node in _nodes(pipeline)}
    if table is None:
        return Lineage(table="", nodes=tuple(nodes.values()))
    name = _node_named(pipeline, nodes, table)
    near = {*_reach(name, lambda one: nodes[one].made_of)}
    readers: dict[str, list[str]] = {}
    for node in nodes.values():
        for origin in node.made_of:
            readers.setdefault(origin, []).append(node.name)
    near |= {*_reach(name, lambda one: readers.get(one, ()))}
    return Lineage(table=name, nodes=tuple(node for node in nodes.values() if node.name in near))


def _reach(begin: str, next_of: Callable[[str], Iterable[str]]) -> set[str]:
    """Return a node and all that can be reached from it."""
    found, todo = {begin}, [begin]
    while todo:
        new = {*next_of(todo.pop())} - found
        found |= new
        todo += new
    return found


def _node_named(pipeline: Pipeline, nodes: Mapping[str, LineageNode], word: str) -> str:
    """Return the node of a word; a source table's name is its source, from which all of it is made."""
    for name in (word, f"source.{word}"):
        if name in nodes:
            return name
    near = [name for name in nodes if name.rpartition(".")[2] == word]
    if len(near) == 1:
        return near[0]
    found = selected(pipeline, [word])
    means = ", ".join(near or [*found.tables, *found.gold])
    raise UnknownSelectionError(f"{word!r} means several tables: {means}", hint="name one of them")


def _nodes(pipeline: Pipeline) -> Iterator[LineageNode]:
    located = _located(pipeline)
    marts: dict[str, dict[str, str]] = {}
    for table in pipeline.tables:
        yield from _table_nodes(pipeline, table, _contract(pipeline, table, located), marts)
    yield from _gold_nodes(pipeline, marts)


def _table_nodes(
    pipeline: Pipeline, table: Table, contract: Contract, marts: dict[str, dict[str, str]]
) -> Iterator[LineageNode]:
    """Yield the nodes of a source table, and add the columns of its marts to ``marts``."""
    made, source = source_tables(pipeline, table), f"source.{table.name}"
    bronze, silver = made.bronze.full_name, made.changes.full_name
    fields = {column.name: tuple(sorted(contract.needs(column))) for column in contract.columns}
    known = dict.fromkeys(sorted({name for names in fields.values() for name in names}), ())
    yield LineageNode(name=source, role="source", made_of=(), columns=known)
    yield LineageNode(name=bronze, role="bronze", made_of=(source,), columns={})
    typed = {column: tuple((source, field) for field in names) for column, names in fields.items()}
    yield LineageNode(name=silver, role="silver", made_of=(bronze,), columns=typed)
    yield LineageNode(name=made.quarantine.full_name, role="quarantine", made_of=(bronze,), columns={})
    for one, mart in zip(made.marts, table.marts, strict=True):
        own = dict.fromkeys(added_columns(mart), ())
        columns = {column: ((silver, column),) for column in fields} | own
        marts[one.name] = {column.name: column.type for column in contract.columns} | added_columns(mart)
        yield LineageNode(name=one.full_name, role="mart", made_of=(silver,), columns=columns)
        for view in (view for view in made.views if view.mart is mart):
            shown = {column: ((one.full_name, column),) for column in fields}
            yield LineageNode(name=view.full_name, role="view", made_of=(one.full_name,), columns=shown)


def _gold_nodes(pipeline: Pipeline, marts: Mapping[str, Mapping[str, str]]) -> Iterator[LineageNode]:
    spaces, gold_names = pipeline.lake.namespaces, {gold.name for gold in pipeline.gold}

    def full(table: str) -> str:
        return f"{spaces.gold if table in gold_names else spaces.marts}.{table}"

    found = gold_lineage(pipeline, marts)
    for gold in gold_in_order(pipeline):
        columns = {
            column: tuple((full(table), field) for table, field in pairs) for column, pairs in found[gold.name].items()
        }
        yield LineageNode(
            name=gold_table(pipeline, gold).full_name,
            role="gold",
            made_of=tuple(dict.fromkeys(map(full, mart_references(gold.sql)))),
            columns=columns,
        )


def _located(pipeline: Pipeline) -> Located:
    try:
        return tables(pipeline)
    except NoLakeError:
        return {}


def _contract(pipeline: Pipeline, table: Table, located: Located) -> Contract:
    return layers(pipeline, table, located).contract if located else settle(table, {})


def gold_lineage(pipeline: Pipeline, marts: Mapping[str, Mapping[str, str]]) -> dict[str, Origins]:
    """Return the origins of the columns of each aggregate, in the order of their refresh.

    Columns that only select rows (WHERE, JOIN, GROUP BY of others) are not origins.

    Args:
        pipeline: the declaration.
        marts: mart -> its columns and their types.

    Returns:
        Aggregate -> origins of its columns: marts, and aggregates that it reads directly. An aggregate whose SELECT
        SQLGlot cannot parse has no origins.
    """
    known = {name: {column: kind or "string" for column, kind in columns.items()} for name, columns in marts.items()}
    found: dict[str, Origins] = {}
    for gold in gold_in_order(pipeline):
        read = [name for name in dict.fromkeys(mart_references(gold.sql)) if name in known]
        found[gold.name] = _origins(render(gold.sql, quote), tuple((name, *known[name].items()) for name in read))
        known[gold.name] = dict.fromkeys(found[gold.name], "string")
    return found


@lru_cache(maxsize=1_000)
def _origins(sql: str, read: tuple[Any, ...]) -> Origins:
    """Return the origins of a SELECT; ``read`` are the tables that it reads, each a name and (column, type) pairs."""
    from sqlglot import exp, parse_one  # noqa: PLC0415 - only lineage needs it
    from sqlglot.errors import SqlglotError  # noqa: PLC0415
    from sqlglot.lineage import lineage  # noqa: PLC0415
    from sqlglot.optimizer.qualify import qualify  # noqa: PLC0415
    from sqlglot.optimizer.scope import build_scope  # noqa: PLC0415

    schema: dict[str, object] = {name: dict(columns) for name, *columns in read}
    try:
        tree = qualify(parse_one(sql, dialect="spark"), dialect="spark", schema=schema, validate_qualify_columns=False)
        if not isinstance(tree, exp.Query):
            return {}
        found: Origins = {}
        scope = build_scope(tree)
        for column in tree.named_selects:
            leaves = [
                (node.source.name, node.name.rpartition(".")[2].strip('`"'))
                for node in lineage(column, tree, schema=schema, dialect="spark", scope=scope).walk()
                if not node.downstream and isinstance(node.source, exp.Table)
            ]
            found[column] = tuple(dict.fromkeys(leaves))
    except SqlglotError:
        return {}
    return found
