"""State of the lake, from which a plan is built: batches, contracts, and due rebuilds and alterations."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from frazil.bronze.pii import BRONZE_MADE_BY, MADE_BY
from frazil.errors import DeclarationProblems, SchemaError
from frazil.gold import declared_gold
from frazil.marts.baseline import served_of
from frazil.marts.layout import mart_layout
from frazil.plan.alterations import altered_tables, as_made, changed_types, later_columns, retyped, table_changes
from frazil.plan.checks import check_reading, gold_name_problem, table_name_problems
from frazil.plan.layout import BRONZE, QUARANTINE, SILVER, source_layouts
from frazil.silver.baseline import BASELINE, Baseline, baseline_of
from frazil.silver.contract import (
    LAWS,
    MissingFieldError,
    changed_settings,
    declared,
    declared_mart,
    retyped_fields,
    settle,
)
from frazil.silver.evolution import (
    OFFERED,
    REFUSED,
    check_evolution,
    evolved,
    later_fields,
    offered_types,
    renamed_bookmark,
    renamed_fields,
    treated_otherwise,
)
from frazil.sources.base import SourceDelta
from frazil.sources.kinds import source_of
from frazil.spec import History
from frazil.spec.pii import TREATING
from frazil.spec.tables import belongs, source_tables
from frazil.steps import FoldChanges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.errors import FrazilError
    from frazil.plan.alterations import TableChange
    from frazil.plan.layout import TableLayout
    from frazil.silver.contract import Contract
    from frazil.spec import Gold, Pipeline, Table


class FormatVersionError(SchemaError):
    """A mart is declared with an older table format than it has; Iceberg cannot downgrade."""

    code = "FZ505"

    def __init__(self, mart: str, before: int, after: int) -> None:
        super().__init__(
            f"mart {mart!r} has format_version {before}, which cannot become {after}",
            hint=f"declare format_version: {before}; or drop the table and let the next run make it again: "
            f"frazil drop --select {mart}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """State of the tables of one source table: the batch of bronze that each of them has reached, 0 for none."""

    bronze: int = 0
    silver: int = 0
    marts: Mapping[str, int] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    """Rows of each mart."""
    seen_fields: frozenset[str] = frozenset()
    """Fields of the source that bronze has."""
    taken: SourceDelta = field(default_factory=SourceDelta)
    fields: Mapping[str, str] = field(default_factory=dict)
    """Fields of the source with their types, from bronze and the new files; empty while no field is known."""
    contract: Contract | None = None
    """The contract of silver and marts after the run; None while no field is known."""
    rebuilds: Mapping[str, str] = field(default_factory=dict)
    """Marts, and ``SILVER``, to rebuild -> the reason."""
    alters: Mapping[str, TableChange] = field(default_factory=dict)
    """``BRONZE``, ``SILVER``, ``QUARANTINE`` and marts to alter -> the differences."""
    fold: FoldChanges | None = None
    """The fold at the start of the run, or None."""
    retyped: tuple[str, ...] = ()
    """Why records wait in quarantine for columns of another type: :func:`frazil.silver.contract.retyped_fields`."""
    treating: bool = False
    """Old snapshots and files may still have plain values of columns with ``pii``."""
    snapshots: Mapping[str, int | None] = field(default_factory=dict)
    """``BRONZE``, ``SILVER``, ``QUARANTINE`` and marts -> newest snapshot or None; empty if not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """State of a lake and of its sources.

    A source table is in ``tables`` or in ``failed``; a table in neither was not read.
    """

    tables: Mapping[str, TableState] = field(default_factory=dict)
    failed: Mapping[str, FrazilError] = field(default_factory=dict)
    """Source table -> why its state could not be read; ``gold.<name>`` -> why that aggregate cannot be refreshed."""
    gold: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Aggregate -> mart -> batch of the mart it was computed from."""


def table_state(
    pipeline: Pipeline,
    table: Table,
    bookmarks: Mapping[str, Mapping[str, Any]],
    taken: SourceDelta,
    *,
    rows: Mapping[str, int] | None = None,
    columns: Mapping[str, Mapping[str, str]] | None = None,
) -> TableState:
    """Return a table's state from its bookmarks, or raise if the declaration cannot be reached.

    Args:
        pipeline: the declaration.
        table: one of its tables.
        bookmarks: bookmarks of ``BRONZE``, ``SILVER``, ``QUARANTINE`` and each mart by name; empty if never written.
        taken: the new files of the source.
        rows: number of rows of each mart by name, and of ``QUARANTINE``.
        columns: name -> type of each existing table, by the keys of ``bookmarks``; None if unknown, so that no
            alteration of columns is planned.

    Raises:
        OtherOwnerError: one of the tables has another owner.
        SourceChangedError: bronze was read with other settings than the declared ones.
        FormatVersionError: a mart is declared with an older table format than it has.
        DeclarationProblems: an expression or a setting names an unknown field or column.
        MissingFieldError: neither bronze nor a new file has the field of a declared column.
        EvolutionError: the source changed shape, and ``evolution`` says ``fail``.
        BaselineError: the declaration needs changes that are folded into the baseline.
    """
    rebuilds = moved_marts(pipeline, table, bookmarks)
    check_reading(table, bookmarks[BRONZE], taken)
    contract, fields, hint = _contract(table, bookmarks, taken)
    batches = {name: int(bookmark.get("batch", 0)) for name, bookmark in bookmarks.items()}
    # With wider columns all rows stay, if no record waits in quarantine for the wider type; with renamed columns too,
    # if no change lists its columns by name.
    lists = bookmarks[SILVER].get("partial") or bookmarks[BRONZE].get("lists", True)
    may_stay = not (rows or {}).get(QUARANTINE) and not (table.renames and lists)
    made = dict(columns or {}) if may_stay else {}
    called = renamed_bookmark(table, bookmarks[BRONZE])

    def was_made(name: str) -> Table:
        return as_made(table, made.get(name, {}), later_columns(table, called, bookmarks[name]))

    silver, was = bookmarks[SILVER], was_made(SILVER)
    if silver and silver.get("declared") not in {declared(table), declared(was)}:
        rebuilds[SILVER] = changed_settings(silver.get("settings"), table)
    elif silver and (reason := _why_otherwise(table, contract, bookmarks, (columns or {}).get(SILVER, {}))):
        rebuilds[SILVER] = reason
    # Expressions that were checked before and are not used again are not parsed again.
    if taken.files or SILVER in rebuilds or silver.get("declared") != declared(table):
        _check_names(pipeline, table, contract, hint)
    for index, mart in enumerate(table.marts):
        name = table.mart_name(mart)
        if reason := _why_rebuilt(table, was_made(name), index, bookmarks[name]):
            rebuilds.setdefault(name, reason)
        elif bookmarks[name] and bookmarks[name].get("silver_made_by", "") != silver.get("made_by", ""):
            rebuilds.setdefault(name, "its changes were made from bronze again")
    wanted = {} if contract is None else source_layouts(pipeline, table, fields, contract)
    rebuilds = _retyped_marts(wanted, columns or {}, rebuilds) | rebuilds
    check_baseline(table, contract, bookmarks, rebuilds, (columns or {}).get(SILVER, {}))
    return TableState(
        bronze=batches[BRONZE],
        silver=batches[SILVER],
        marts={table.mart_name(mart): batches[table.mart_name(mart)] for mart in table.marts},
        rows={name: count for name, count in (rows or {}).items() if name != QUARANTINE},
        seen_fields=frozenset(bookmarks[BRONZE].get("fields", ())),
        taken=taken,
        fields=fields,
        contract=contract,
        rebuilds=rebuilds,
        alters=table_changes(table, wanted, columns or {}, bookmarks),
        retyped=() if contract is None or SILVER in rebuilds else tuple(retyped_fields(table, contract, silver)),
        treating=TREATING in bookmarks[BRONZE],
    )


def _retyped_marts(
    wanted: Mapping[str, TableLayout], columns: Mapping[str, Mapping[str, str]], rebuilds: Mapping[str, str]
) -> dict[str, str]:
    """Return the marts whose columns have other types than the declaration makes -> the reason to rebuild them."""
    if SILVER in rebuilds:
        return {}
    marts = columns.keys() & wanted.keys() - {BRONZE, QUARANTINE, SILVER}
    found = {name: changed_types(columns[name], wanted[name]) for name in marts}
    return {name: reason for name, reason in found.items() if reason}


def with_altered(
    state: TableState,
    table: Table,
    bookmarks: Mapping[str, Mapping[str, Any]],
    columns: Mapping[str, Mapping[str, str]],
    altered: Mapping[str, Mapping[str, str]],
) -> TableState:
    """Add rebuilds of the tables whose columns another engine renamed or dropped.

    Args:
        state: from :func:`table_state`.
        table: the declaration.
        bookmarks: as for :func:`table_state`.
        columns: as for :func:`table_state`.
        altered: see :func:`frazil.plan.alterations.altered_tables`.

    Raises:
        AlteredTableError: the altered table is bronze.
        BaselineError: the rebuild needs changes that are folded into the baseline.
    """
    rebuilds = altered_tables(table, altered)
    if not rebuilds:
        return state
    if SILVER in rebuilds and (folded := baseline_of(bookmarks[SILVER])) is not None:
        raise BaselineError(table.name, rebuilds[SILVER], folded)
    rebuilds |= state.rebuilds
    check_baseline(table, state.contract, bookmarks, rebuilds, columns.get(SILVER, {}))
    return replace(state, rebuilds=rebuilds)


def with_fold(
    state: TableState, table: Table, bookmarks: Mapping[str, Mapping[str, Any]], today: dt.date | None
) -> TableState:
    """Add the fold that a table needs; tables with rebuilds start no fold.

    Args:
        state: from :func:`table_state`.
        table: the declaration.
        bookmarks: as for :func:`table_state`.
        today: the present day in UTC; None only completes a killed fold.
    """
    return replace(state, fold=fold_due(table, bookmarks, None if state.rebuilds else today))


def _check_names(pipeline: Pipeline, table: Table, contract: Contract | None, hint: str | None) -> None:
    """Raise if an expression or a setting names an unknown field or column."""
    if problems := table_name_problems(pipeline, table, contract):
        refused = DeclarationProblems(map(str, problems))
        refused.hint = hint or refused.hint
        raise refused


def _contract(
    table: Table, bookmarks: Mapping[str, Mapping[str, Any]], taken: SourceDelta
) -> tuple[Contract | None, dict[str, str], str | None]:
    """Return the contract of the tables, the fields of the source, and a hint about its settings.

    The contract is None while no field is known.
    """
    files = [file for file in taken.files if not file.broken]
    source, bronze = source_of(table), bookmarks[BRONZE]
    named = [file.fields for file in files]
    fields, hint = source.known_fields(bronze.get("fields", {}), named), source.advice(named)
    if not fields:
        return None, fields, hint
    offered = {OFFERED: offered_types(bronze.get(OFFERED, {}), named, fields)}
    called, before = renamed_fields(table, fields), renamed_bookmark(table, {**bronze, **offered})
    before = before if before.get("fields") else {**before, "later": later_fields(named)}
    now = evolved(table, before, bookmarks[SILVER], called)
    check_evolution(table, before, now, files)
    try:
        return settle(table, called, now), fields, hint
    except MissingFieldError as error:
        error.hint = hint or error.hint
        raise


def _why_otherwise(
    table: Table, contract: Contract | None, bookmarks: Mapping[str, Mapping[str, Any]], present: Mapping[str, str]
) -> str | None:
    """Return why silver is rebuilt although the settings of its rows have not changed; None if it is not.

    Args:
        table: the declaration.
        contract: its contract.
        bookmarks: bookmarks of bronze and silver.
        present: column -> type of silver.
    """
    if bookmarks[SILVER].get("laws", 0) < LAWS:
        return "an older version of Frazil made it, which gave deletes no time of their own"
    if bookmarks[BRONZE].get(MADE_BY, "") != bookmarks[SILVER].get(BRONZE_MADE_BY, ""):
        return "personal data was replaced in bronze"
    if contract is None:
        return None
    now = evolved(table, renamed_bookmark(table, bookmarks[BRONZE]), bookmarks[SILVER])
    return treated_otherwise(now, bookmarks[SILVER]) or retyped(
        contract, present, waits=bool(bookmarks[SILVER].get(REFUSED))
    )


def gold_state(pipeline: Pipeline, bookmarks: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, int]]:
    """Return aggregate -> mart -> batch that the aggregate was computed from.

    The inputs are empty if the declaration of the aggregate, or of a mart that it reads, has changed since.

    Args:
        pipeline: the declaration.
        bookmarks: bookmark of each aggregate by name; empty if never computed.
    """

    def inputs(gold: Gold) -> Mapping[str, int]:
        bookmark = bookmarks[gold.name]
        found: Mapping[str, int] = bookmark.get("inputs", {})
        return found if bookmark.get("declared") == declared_gold(pipeline, gold) else {}

    return {gold.name: inputs(gold) for gold in pipeline.gold}


def moved_marts(pipeline: Pipeline, table: Table, bookmarks: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Check the owner of each table, before any other check.

    Args:
        pipeline: the declaration.
        table: one of its tables.
        bookmarks: as for :func:`table_state`.

    Returns:
        Marts that were computed from another source table -> the reason to rebuild them.

    Raises:
        OtherOwnerError: one of the tables has another owner.
    """
    made = source_tables(pipeline, table)
    own = {mart.name: mart for mart in made.marts}
    own |= {BRONZE: made.bronze, SILVER: made.changes, QUARANTINE: made.quarantine}
    moved = {}
    for key, bookmark in bookmarks.items():
        if not belongs(own[key], bookmark, pipeline=pipeline.pipeline):
            moved[key] = f"its rows are those of table {bookmark['table']!r}"
    return moved


def _why_rebuilt(table: Table, was: Table, index: int, bookmark: Mapping[str, Any]) -> str | None:
    """Return why a mart must be rebuilt; None if its rows stay. ``was`` is from :func:`as_made`."""
    mart = table.marts[index]
    if not bookmark:
        return None
    before, after = bookmark.get("layout"), mart_layout(mart)
    # A rebuild keeps the table and its format.
    if before is not None and after["format_version"] < before["format_version"]:
        raise FormatVersionError(table.mart_name(mart), before["format_version"], after["format_version"])
    if bookmark.get("declared") not in {declared_mart(table, mart), declared_mart(was, was.marts[index])}:
        return changed_settings(bookmark.get("settings"), table, mart)
    if before is not None and before["partition_by"] != after["partition_by"]:
        return "partition_by changed"
    return None


def gold_problems(
    pipeline: Pipeline, tables: Mapping[str, TableState], gold: Mapping[str, Mapping[str, int]]
) -> dict[str, FrazilError]:
    """Return the aggregates to refresh whose SELECT names a column that its marts lack.

    Args:
        pipeline: the declaration.
        tables: source table -> state of its tables.
        gold: aggregate -> mart -> batch of the mart it was computed from.

    Returns:
        ``gold.<name>`` -> the error; aggregates over other tables than ``tables`` are not checked.
    """
    contracts = {name: stand.contract for name, stand in tables.items() if stand.contract is not None}
    reached = {mart: batch for stand in tables.values() for mart, batch in stand.marts.items()}
    is_busy = any(stand.taken.files or stand.taken.duplicates or stand.rebuilds for stand in tables.values())
    found: dict[str, FrazilError] = {}
    for index, one in enumerate(pipeline.gold):
        stands = gold.get(one.name, {})
        if is_busy or not stands or any(reached.get(mart) != batch for mart, batch in stands.items()):
            problem = gold_name_problem(pipeline, index, contracts)
            if problem is not None:
                found[f"gold.{one.name}"] = DeclarationProblems([str(problem)])
    return found


class BaselineError(SchemaError):
    """A table needs single changes that are folded into its baseline."""

    code = "FZ507"

    def __init__(self, table: str, why: str, baseline: Baseline | None) -> None:
        at = "its horizon" if baseline is None else baseline.before[:10]
        super().__init__(
            f"table {table!r}: {why}, but changes before {at} are kept only as a baseline; nothing was written",
            hint="set the declaration back; or drop the table and read it again, if its source still has all of it: "
            f"frazil drop --select {table}, then frazil run",
        )


def fold_due(table: Table, bookmarks: Mapping[str, Mapping[str, Any]], today: dt.date | None) -> FoldChanges | None:
    """Return the fold at the start of a run, or None.

    A fold starts after the horizon has moved by a tenth of the retention, at least a day, if all tables have the same
    batch. A fold that was killed is completed first.

    Args:
        table: the declaration.
        bookmarks: bookmarks of ``BRONZE``, ``SILVER``, ``QUARANTINE`` and each mart.
        today: the present day in UTC; None only completes a killed fold.
    """
    found = baseline_of(bookmarks[SILVER])
    if found is not None and bookmarks[BRONZE].get(BASELINE) != found.reaches:
        return FoldChanges(table=table.name, before=found.reaches)
    marts = [bookmarks[table.mart_name(mart)] for mart in table.marts]
    stand = {int(one.get("batch", 0)) for one in (bookmarks[BRONZE], bookmarks[SILVER], *marts)}
    if table.retention is None or today is None or len(stand) > 1 or stand == {0}:
        return None
    days = table.retention.changes_days
    before, step = today - dt.timedelta(days=days), dt.timedelta(days=max(days // 10, 1))
    if found is not None and before < dt.date.fromisoformat(found.reaches[:10]) + step:
        return None
    return FoldChanges(table=table.name, before=f"{before} 00:00:00", days=days)


def check_baseline(
    table: Table,
    contract: Contract | None,
    bookmarks: Mapping[str, Mapping[str, Any]],
    rebuilds: Mapping[str, str],
    present: Mapping[str, str],
) -> None:
    """Raise if silver or a mart needs single changes that the baseline has replaced.

    Args:
        table: the declaration.
        contract: the settled columns.
        bookmarks: as for :func:`fold_due`.
        rebuilds: marts, and ``SILVER``, that must be rebuilt -> why.
        present: column -> type of silver.

    Raises:
        BaselineError: the baseline does not serve the declaration.
    """
    found = baseline_of(bookmarks[SILVER])
    if found is None:
        if BASELINE in bookmarks[BRONZE]:
            raise BaselineError(table.name, "its typed changes are gone", None)
        return
    if contract is None:
        return
    if SILVER in rebuilds and not _is_only_wider(table, contract, bookmarks[SILVER], present):
        raise BaselineError(table.name, rebuilds[SILVER], found)
    for mart in table.marts:
        name = table.mart_name(mart)
        if (name in rebuilds or not bookmarks[name]) and not found.served.covers(served_of([mart], contract)):
            why = rebuilds.get(name, f"mart {name!r} is new, and needs what was not kept for it")
            raise BaselineError(table.name, why, found)
        if (name in rebuilds or not bookmarks[name]) and isinstance(mart, History) and mart.bitemporal:
            raise BaselineError(table.name, f"mart {name!r} is bitemporal, and needs to know what came when", found)


def _is_only_wider(table: Table, contract: Contract, silver: Mapping[str, Any], present: Mapping[str, str]) -> bool:
    """Return whether only wider types differ, which the baseline's rows can have."""
    columns = {name for name in present if not name.startswith("_cdc_")}
    same_names = bool(columns) and columns <= {*contract.names}
    return same_names and silver.get("declared") == declared(as_made(table, present)) and not retyped(contract, present)
