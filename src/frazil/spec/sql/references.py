"""What rules and aggregates read: the marts, directly or through others, and the order that follows."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from frazil.spec.sql.sql import mart_references

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from frazil.spec.model.mart import Gold, Mart
    from frazil.spec.model.pipeline import Pipeline, Table
    from frazil.spec.model.rule import References


def mart_named(pipeline: Pipeline, name: str) -> tuple[Table, Mart] | None:
    """Return the mart of this name and its source table; None if it does not exist."""
    pairs = ((table, mart) for table in pipeline.tables for mart in table.marts)
    return next(((table, mart) for table, mart in pairs if table.mart_name(mart) == name), None)


def referenced_fields(reference: References, other: Table) -> tuple[str, ...]:
    """Return the columns that a rule refers to in the other table: the named ones, else the keys."""
    return reference.fields or other.keys


def referenced_tables(pipeline: Pipeline, table: Table) -> tuple[str, ...]:
    """Return the other source tables that a table's rules refer to, without repeats."""
    found = (mart_named(pipeline, rule.references.to) for rule in table.rules if rule.references is not None)
    return tuple(dict.fromkeys(pair[0].name for pair in found if pair is not None and pair[0].name != table.name))


def referenced_first(pipeline: Pipeline, names: Iterable[str]) -> tuple[str, ...]:
    """Return the source tables, each after the tables that its rules refer to.

    Otherwise, and for circular references, the given order is kept.
    """
    tables, wanted = {table.name: table for table in pipeline.tables}, tuple(names)
    ordered: dict[str, None] = {}

    def add(name: str, above: tuple[str, ...]) -> None:
        for other in referenced_tables(pipeline, tables[name]):
            if other in wanted and other not in above:
                add(other, (*above, name))
        ordered.setdefault(name)

    for name in wanted:
        add(name, ())
    return tuple(ordered)


def gold_in_order(pipeline: Pipeline) -> tuple[Gold, ...]:
    """Return the aggregates, each after those that it reads, otherwise in the order of the declaration.

    With a circle, which :func:`frazil.spec.check.check.problems` reports, the declared order is kept.
    """
    known = {gold.name: gold for gold in pipeline.gold}
    if circle(pipeline):
        return pipeline.gold
    return tuple(known[name] for name in TopologicalSorter(_direct(pipeline)).static_order())


def circle(pipeline: Pipeline) -> tuple[str, ...]:
    """Return aggregates that read each other in a circle, with the first repeated at the end; empty without one."""
    try:
        TopologicalSorter(_direct(pipeline)).prepare()
    except CycleError as error:
        return tuple(reversed(error.args[1]))
    return ()


def upstream_gold(pipeline: Pipeline, gold: Gold) -> tuple[str, ...]:
    """Return the aggregates that one reads, directly or through others, in the order of the declaration."""
    direct = _direct(pipeline)
    found: set[str] = set()
    ahead = [gold.name]
    while ahead:
        new = {*direct[ahead.pop()]} - found
        found |= new
        ahead += new
    return tuple(one.name for one in pipeline.gold if one.name in found)


def marts_of(pipeline: Pipeline, gold: Gold) -> tuple[str, ...]:
    """Return the marts that an aggregate reads, directly or through others, in order of appearance."""
    names = {gold.name, *upstream_gold(pipeline, gold)}
    known = {one.name for one in pipeline.gold}
    read = (name for one in pipeline.gold if one.name in names for name in mart_references(one.sql))
    return tuple(dict.fromkeys(name for name in read if name not in known))


def _direct(pipeline: Pipeline) -> Mapping[str, tuple[str, ...]]:
    known = {gold.name for gold in pipeline.gold}
    return {gold.name: tuple(name for name in mart_references(gold.sql) if name in known) for gold in pipeline.gold}
