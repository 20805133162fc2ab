"""Marts and aggregates that an aggregate reads, directly or through others, and the order of aggregates."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from frazil.spec.sql.sql import mart_references

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.spec.model.mart import Gold
    from frazil.spec.model.pipeline import Pipeline


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
