"""References of rules to other marts, and the order of tables that follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frazil.spec.model.mart import Mart
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
