"""Declaration and state in, ordered steps out; nothing is read or written here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.gold.template import inputs
from frazil.plan.state import SILVER
from frazil.steps import Refine, RefreshGold, TakeFiles, UpdateMart

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from frazil.plan.state import State
    from frazil.spec import Pipeline, Table
    from frazil.steps import Step


def build(
    pipeline: Pipeline, state: State, *, tables: Collection[str] | None = None, rebuild: Collection[str] = ()
) -> tuple[Step, ...]:
    """List what a run has to do, in order.

    Every table is brought level: what a killed run left behind comes first by itself, since each step starts
    where its own table stands. A lake that stands where its sources stand gives no steps.

    Args:
        pipeline: the declaration.
        state: where the tables stand and what the sources offer.
        tables: names of the tables to look at; None for all.
        rebuild: names of the tables whose silver and marts are made anew from bronze.

    Returns:
        The steps table by table, then the aggregates.
    """
    steps: list[Step] = []
    reached: dict[str, int] = {}
    for table in pipeline.tables:
        if tables is None or table.name in tables:
            steps += _table_steps(table, state, rebuild=table.name in rebuild)
        stand = state.tables.get(table.name)
        for mart in table.marts:
            name = table.mart_name(mart)
            reached[name] = max(
                (step.upto for step in steps if isinstance(step, UpdateMart) and step.mart == name),
                default=stand.marts.get(name, 0) if stand else 0,
            )
    renewed = {step.mart for step in steps if isinstance(step, UpdateMart) and step.rebuild}
    for gold in pipeline.gold:
        wanted = {mart: reached[mart] for mart in inputs(gold.sql)}
        if all(wanted.values()) and (wanted != dict(state.gold.get(gold.name, {})) or renewed & wanted.keys()):
            steps.append(RefreshGold(name=gold.name, inputs=tuple(sorted(wanted.items()))))
    return tuple(steps)


def _table_steps(table: Table, state: State, *, rebuild: bool) -> Iterator[Step]:
    stand = state.tables[table.name]
    taken = stand.taken
    bronze = stand.bronze
    if taken.files or taken.duplicates:
        bronze += 1
        yield TakeFiles(
            table=table.name,
            batch=bronze,
            files=taken.files,
            duplicates=taken.duplicates,
            deferred=taken.deferred,
        )
    reorders = taken.reorders or stand.silver < taken.reordered_in
    again = (rebuild or reorders or SILVER in stand.redeclared) and bronze > 0
    if again or stand.silver < bronze:
        yield Refine(table=table.name, after=0 if again else stand.silver, upto=bronze, rebuild=again)
    for mart in table.marts:
        name = table.mart_name(mart)
        after = stand.marts.get(name, 0)
        anew = again or after < taken.reordered_in or (name in stand.redeclared and bronze > 0)
        if anew or after < bronze:
            yield UpdateMart(
                table=table.name,
                mart=name,
                after=0 if anew else after,
                upto=bronze,
                rebuild=anew,
                rows=stand.rows.get(name, 0),
            )
