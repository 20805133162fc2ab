"""Declaration and state in, ordered steps out; nothing is read or written here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from frazil.plan.table_layout import BRONZE, LAYERS, QUARANTINE, SILVER
from frazil.spec.sql import mart_references
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
    from collections.abc import Collection, Iterator

    from frazil.plan.state import State, TableState
    from frazil.spec import Pipeline, Table
    from frazil.steps import Step

_EARLIER: Final = "a known content came under an earlier name"


def build(
    pipeline: Pipeline,
    state: State,
    *,
    tables: Collection[str] | None = None,
    gold: Collection[str] | None = None,
    rebuild: Collection[str] = (),
) -> tuple[Step, ...]:
    """List what a run has to do, in order.

    Every table is brought level: what a killed run left behind comes first by itself, since each step starts
    where its own table stands. A lake that stands where its sources stand gives no steps. A table whose state could
    not be read has none, and no aggregate over it is refreshed, nor one that ``failed`` names.

    Args:
        pipeline: the declaration.
        state: where the tables stand and what the sources offer.
        tables: names of the tables to bring level; None for all.
        gold: names of the aggregates to bring level; None for all.
        rebuild: names of the tables whose silver and marts are rebuilt from bronze, and aggregates as ``gold.<name>``
            that are refreshed though their marts have not moved.

    Returns:
        The steps table by table, then the aggregates.
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
    for one in pipeline.gold:
        if f"gold.{one.name}" in state.failed or (gold is not None and one.name not in gold):
            continue
        wanted = {mart: reached[mart] for mart in mart_references(one.sql)}
        is_due = (
            wanted != dict(state.gold.get(one.name, {})) or renewed & wanted.keys() or f"gold.{one.name}" in rebuild
        )
        if all(wanted.values()) and is_due:
            steps.append(RefreshGold(name=one.name, inputs=tuple(sorted(wanted.items()))))
    return tuple(steps)


def _table_steps(table: Table, state: State, *, rebuild: bool) -> Iterator[Step]:
    stand = state.tables[table.name]
    taken = stand.taken
    bronze = stand.bronze
    if taken.files or taken.duplicates:
        bronze += 1
        yield from _alter(table, stand, BRONZE)
        yield Ingest(
            table=table.name,
            batch=bronze,
            files=taken.files,
            duplicates=taken.duplicates,
        )
    why = _why_all(stand, rebuild=rebuild) if bronze else ""
    if why or stand.silver < bronze:
        yield from _alter(table, stand, QUARANTINE)
        yield from _alter(table, stand, SILVER, is_whole=bool(why) or not stand.silver)
        yield Normalize(table=table.name, after=0 if why else stand.silver, upto=bronze, rebuild=bool(why), reason=why)
    elif SILVER in stand.alters and any(isinstance(one, RenameColumn) for one in stand.alters[SILVER].changes):
        # What marts are made of has the names that they have.
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


def _alter(table: Table, stand: TableState, key: str, *, is_whole: bool = False) -> Iterator[AlterTable]:
    """Yield the step that alters a table, if any; one that is written whole may be replaced with its columns."""
    alter = stand.alters.get(key)
    if alter is None:
        return
    changes = alter.changes
    if is_whole and not alter.fits:
        # Its view is made with the new table: the old one may lack the columns that it needs.
        changes = tuple(
            replace(change, after=None) if isinstance(change, SetLiveView) else change
            for change in changes
            if not isinstance(change, AddColumn | RenameColumn | WidenColumn)
            and not (isinstance(change, SetLiveView) and not change.before)
        )
    if changes:
        yield AlterTable(table=table.name, name=alter.name, mart="" if key in LAYERS else key, changes=changes)


def _why_all(stand: TableState, *, rebuild: bool) -> str:
    """Return why silver and all marts of a table are rebuilt; empty where they are not."""
    if rebuild:
        return "asked for"
    if stand.taken.reorders or stand.silver < stand.taken.reordered_in:
        return _EARLIER
    return stand.rebuilds.get(SILVER, "")


def _why_mart(stand: TableState, name: str, after: int) -> str:
    return _EARLIER if after < stand.taken.reordered_in else stand.rebuilds.get(name, "")
