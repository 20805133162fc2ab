"""The horizon of a table, and what its baseline serves: silver's bookmark keeps both.

A baseline is made of changes: of those older than the horizon silver keeps the ones that a mart needs, each with
every column, and drops the others. So the same folds read it, and nothing else in the lake has to know of it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from frazil.bronze import record as r
from frazil.spec.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.silver.contract import Contract

BASELINE: Final = "baseline"
"""Key of the bookmarks of silver and bronze."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What marts need of the changes before the horizon, beside the newest upsert of each living key.

    Attributes:
        deleted: last known values of deleted keys.
        tracked: of each history the columns that open a version; the beginnings and ends of its versions.
    """

    deleted: bool = False
    tracked: tuple[tuple[str, ...], ...] = ()

    def covers(self, other: Served) -> bool:
        """Return whether a baseline that serves this serves another too.

        Versions by fewer columns begin and end where versions by more columns do.
        """
        finer = [set(columns) for columns in self.tracked]
        is_tracked = all(any({*columns} <= one for one in finer) for columns in other.tracked)
        return is_tracked and (self.deleted or not other.deleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What silver's bookmark keeps of its baseline.

    Attributes:
        before: the horizon: changes whose first sequence column is less are in the baseline, or came too late.
        batch: silver's batch when it was made.
        position, row: the last place among the folded changes; None for none.
        served: what it was made for.
    """

    before: str
    batch: int
    position: str | None = None
    row: int | None = None
    served: Served = Served()

    def in_bookmark(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {BASELINE: asdict(self)}


def baseline_of(bookmark: Mapping[str, Any]) -> Baseline | None:
    """Return the baseline that silver's bookmark tells of; None for none."""
    found = bookmark.get(BASELINE)
    if found is None:
        return None
    tracked = tuple(map(tuple, found["served"]["tracked"]))
    return Baseline(**{**found, "served": Served(deleted=found["served"]["deleted"], tracked=tracked)})


def kept_baseline(bookmark: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the next bookmark keeps of a baseline; nothing where there is none."""
    return {BASELINE: bookmark[BASELINE]} if BASELINE in bookmark else {}


def is_older(contract: Contract, before: str) -> str:
    """Write the condition that a change is older than a horizon."""
    first = contract.sequence_by[0]
    kind = next(column.type for column in contract.columns if column.name == first)
    return f"{quote(first)} < CAST({literal(before)} AS {kind})"


def came_too_late(contract: Contract, baseline: Baseline) -> str:
    """Write the condition that a change that is not in the baseline cannot be applied any more.

    A truncate takes away what stands before it, so it is too late too where a folded change stands behind it.
    """
    older = is_older(contract, baseline.before)
    if baseline.position is None:
        return older
    place = f"struct({literal(baseline.position)} AS p, CAST({baseline.row} AS bigint) AS r)"
    is_before = f"struct({r.POSITION} AS p, {r.ROW} AS r) < {place}"
    is_new = f"{r.BATCH} > {baseline.batch}"
    return f"({older} OR ({r.CLASS} = {literal(r.TRUNCATE)} AND {is_new} AND {is_before}))"
