"""Build the ordered steps of a run from declaration and state, without reading or writing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from frazil.plan.layout import BRONZE, LAYERS, QUARANTINE, SILVER
from frazil.spec.sql.sql import gold_in_order, mart_references, upstream_gold
from frazil.steps import (
    AddColumn,
    AlterTable,
    Ingest,
    Normalize,
    RefreshGold,
    RenameColumn,
    SetLiveView,
    UpdateMart,
    WidenColumn,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from frazil.plan.state import State, TableState
    from frazil.spec import Gold, Pipeline, Table
    from frazil.steps import Step

_EARLIER: Final = "a known content came under an earlier name"
_AHEAD: Final = "it holds batches that bronze has no longer"


def build(
    pipeline: Pipeline,
    state: State,
    *,
    tables: Collection[str] | None = None,
    gold: Collection[str] | None = None,
    rebuild: Collection[str] = (),
) -> tuple[Step, ...]:
    """Return the steps of a run, in order.

    Every table is brought up to date. Each step starts at the batch of its own table, so work that a killed run left
    comes first. A lake that is up to date with its sources gives no steps. Tables and aggregates in ``state.failed``
    are skipped, and so are aggregates over them.


    Args:
        pipeline: the declaration.
        state: batches of the tables, and new files of the sources.
        tables: names of the tables to update; None for all.
        gold: names of the aggregates to update; None for all.
        rebuild: names of tables whose silver and marts are rebuilt from bronze, and of aggregates as ``gold.<name>``
            that are refreshed even if their marts have not changed.

    Returns:
        The steps table by table, then the aggregates, each after the aggregates that it reads.
    """
    steps: list[Step] = []
    reached: dict[str, int] = {}
    for table in pipeline.tables:
        if table.name not in state.failed and (tables is None or table.name in tables):
            steps += _table_steps(table, state, rebuild=table.name in rebuild)
        stand = state.tables.get(table.name)
        for mart in table.marts:
            name = table.mart_name(mart)
            reached[name] = max(
                (step.upto for step in steps if isinstance(step, UpdateMart) and step.mart == name),
                default=stand.marts.get(name, 0) if stand else 0,
            )
    renewed = {step.mart for step in steps if isinstance(step, UpdateMart) and step.rebuild}
    return (*steps, *_gold_steps(pipeline, state, reached, renewed, gold=gold, rebuild=rebuild))


def _gold_steps(
    pipeline: Pipeline,
    state: State,
    reached: Mapping[str, int],
    renewed: AbstractSet[str],
    *,
    gold: Collection[str] | None,
    rebuild: Collection[str],
) -> Iterator[RefreshGold]:
    """Yield the refreshes of aggregates, each after those of the aggregates that it reads.

    ``reached`` is the batch of each mart after the run, ``renewed`` the rebuilt marts. An aggregate over another one is
    computed from the batches of the other one after its refresh.
    """
    held = {name: dict(inputs) for name, inputs in state.gold.items()}
    refreshed: set[str] = set()
    for one in gold_in_order(pipeline):
        upstream = {*upstream_gold(pipeline, one)}
        is_left = f"gold.{one.name}" in state.failed or (gold is not None and one.name not in gold)
        if is_left or any(f"gold.{name}" in state.failed for name in upstream):
            continue
        before, wanted = held.get(one.name, {}), _wanted(one, reached, held)
        is_asked = f"gold.{one.name}" in rebuild
        is_renewed = is_asked or bool(renewed & wanted.keys())
        if all(wanted.values()) and (wanted != before or is_renewed or refreshed & upstream):
            refreshed.add(one.name)
            held[one.name] = wanted
            is_incremental = one.materialized == "incremental" and bool(before) and not is_renewed
            inputs = tuple(sorted(wanted.items()))
            yield RefreshGold(name=one.name, inputs=inputs, is_incremental=is_incremental, rebuild=is_asked)


def _wanted(gold: Gold, reached: Mapping[str, int], held: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return mart -> batch that an aggregate will be computed from; the older one if it reads a mart twice.

    The batch is 0 for a mart without rows and for an aggregate that was never computed.
    """
    found: dict[str, int] = {}
    for name in mart_references(gold.sql):
        inputs = {name: reached[name]} if name in reached else held.get(name) or {name: 0}
        for mart, batch in inputs.items():
            found[mart] = min(batch, found.get(mart, batch))
    return found


def _table_steps(table: Table, state: State, *, rebuild: bool) -> Iterator[Step]:
    stand = state.tables[table.name]
    taken = stand.taken
    bronze = stand.bronze
    is_ahead = max((stand.silver, *stand.marts.values())) > bronze
    if stand.fold is not None and not is_ahead and _may_fold(table, stand, state):
        yield stand.fold
    if (taken.files or taken.duplicates) and not (is_ahead and bronze):
        # Silver would mistake a batch with a known number for the one that it has.
        bronze += 1
        yield from _alter(table, stand, BRONZE)
        yield Ingest(
            table=table.name,
            batch=bronze,
            files=taken.files,
            duplicates=taken.duplicates,
        )
    why = (_why_all(stand, rebuild=rebuild) or (_AHEAD if is_ahead else "")) if bronze else ""
    if why or stand.silver < bronze:
        yield from _alter(table, stand, QUARANTINE)
        yield from _alter(table, stand, SILVER, is_whole=bool(why) or not stand.silver)
        yield Normalize(table=table.name, after=0 if why else stand.silver, upto=bronze, rebuild=bool(why), reason=why)
    elif SILVER in stand.alters and any(isinstance(one, RenameColumn) for one in stand.alters[SILVER].changes):
        # Marts are made from silver, so both have the same names.
        yield from _alter(table, stand, SILVER)
    for mart in table.marts:
        name = table.mart_name(mart)
        after = stand.marts.get(name, 0)
        reason = why or _why_mart(stand, name, after) if bronze else ""
        is_due = bool(reason) or after < bronze
        yield from _alter(table, stand, name, is_whole=is_due and (bool(reason) or not after))
        if is_due:
            yield UpdateMart(
                table=table.name,
                mart=name,
                after=0 if reason else after,
                upto=bronze,
                rebuild=bool(reason),
                rows=stand.rows.get(name, 0),
                reason=reason,
            )


def _may_fold(table: Table, stand: TableState, state: State) -> bool:
    """Return whether no other step needs the single changes; a fold that was killed is always completed."""
    if stand.fold is not None and not stand.fold.days:
        return True
    of_table = {table.mart_name(mart) for mart in table.marts}
    read = [item for inputs in state.gold.values() for item in inputs.items()]
    behind = any(batch != stand.marts[mart] for mart, batch in read if mart in of_table)
    return not (behind or SILVER in stand.alters or stand.taken.reorders)


def _alter(table: Table, stand: TableState, key: str, *, is_whole: bool = False) -> Iterator[AlterTable]:
    """Yield the step that alters a table, if any; a full write can replace the table together with its columns."""
    alter = stand.alters.get(key)
    if alter is None:
        return
    changes = alter.changes
    if is_whole and not alter.fits:
        # The view is created with the new table: the old one may lack its columns.
        changes = tuple(
            replace(change, after=None) if isinstance(change, SetLiveView) else change
            for change in changes
            if not isinstance(change, AddColumn | RenameColumn | WidenColumn)
            and not (isinstance(change, SetLiveView) and not change.before)
        )
    if changes:
        yield AlterTable(table=table.name, name=alter.name, mart="" if key in LAYERS else key, changes=changes)


def _why_all(stand: TableState, *, rebuild: bool) -> str:
    """Return why silver and all marts of a table are rebuilt; empty if they are not."""
    if rebuild:
        return "asked for"
    if stand.taken.reorders or stand.silver < stand.taken.reordered_in:
        return _EARLIER
    return stand.rebuilds.get(SILVER, "")


def _why_mart(stand: TableState, name: str, after: int) -> str:
    return _EARLIER if after < stand.taken.reordered_in else stand.rebuilds.get(name, "")
