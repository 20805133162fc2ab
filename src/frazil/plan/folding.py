"""Decide when to fold changes into a baseline, and refuse declarations that a baseline cannot serve."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from frazil.errors import SchemaError
from frazil.marts.baseline import served_of
from frazil.plan.tables.layout import BRONZE, SILVER
from frazil.plan.tables.widening import as_made, retyped
from frazil.silver.baseline import BASELINE, Baseline, baseline_of
from frazil.silver.contract import declared
from frazil.spec import History
from frazil.steps import FoldChanges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.silver.contract import Contract
    from frazil.spec import Table


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
