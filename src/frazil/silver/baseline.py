"""The horizon of a table, and what its baseline serves: silver's bookmark keeps both.

A baseline is made of changes: of those older than the horizon silver keeps the ones that a mart needs, each with
every column, and drops the others. So the same folds read it, and nothing else in the lake has to know of it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from frazil.bronze import record as r
from frazil.silver.unsequenced import lacks_sequence
from frazil.spec.sql.names import literal, quote

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
        before: the horizon in time: a change is folded if its first sequence column is less. With ``by_place``,
            where histories are served, no change that is not folded has a time that is less, nor may one that comes
            later.
        batch: silver's batch when it was made.
        position, row: the last place among the folded changes; None for none.
        served: what it was made for.
        by_place: the source orders its changes itself, so the horizon is a place: a change at or before it is in the
            baseline, or came too late.
        asked: the time that the fold was to reach; with ``by_place`` some changes before it may not be folded.
    """

    before: str
    batch: int
    position: str | None = None
    row: int | None = None
    served: Served = Served()
    by_place: bool = False
    asked: str = ""

    @property
    def reaches(self) -> str:
        """Return the time that the fold was to reach: bronze notes it too, and no two folds have the same."""
        return self.asked or self.before

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


def is_older(contract: Contract, baseline: Baseline) -> str:
    """Write the condition that a change is one of those that a baseline stands for.

    A delete that lacks its sequence is never one: the sequence that it takes may yet change.
    """
    if not baseline.by_place:
        return f"({is_before(contract, baseline.before)} AND NOT {lacks_sequence(contract)})"
    if baseline.position is None:
        return "false"
    last, row = literal(baseline.position), f"CAST({baseline.row} AS bigint)"
    return f"({r.POSITION} < {last} OR ({r.POSITION} = {last} AND {r.ROW} <= {row}))"


def is_before(contract: Contract, time: str) -> str:
    """Write the condition that a change is older than a time, by the first column of ``sequence_by``."""
    return _is_less(contract, contract.sequence_by[0], time)


def came_too_late(contract: Contract, baseline: Baseline) -> str:
    """Write the condition that a change that is not in the baseline cannot be applied any more.

    A truncate takes away what stands before it, so it is too late too where a folded change stands behind it. A history
    is cut at its times, so where the horizon is a place, a change behind it with a time before it is too late as well.
    """
    older = is_older(contract, baseline)
    if baseline.by_place:
        if not baseline.served.tracked or contract.event_time is None:
            return older
        # A delete ends what stands, whatever time it repeats.
        is_early = f"{r.CLASS} <> {literal(r.DELETE)} AND {_is_less(contract, contract.event_time, baseline.before)}"
        return f"({older} OR ({is_early}))"
    if baseline.position is None:
        return older
    place = f"struct({literal(baseline.position)} AS p, CAST({baseline.row} AS bigint) AS r)"
    is_behind = f"struct({r.POSITION} AS p, {r.ROW} AS r) < {place}"
    is_new = f"{r.BATCH} > {baseline.batch}"
    return f"({older} OR ({r.CLASS} = {literal(r.TRUNCATE)} AND {is_new} AND {is_behind}))"


def _is_less(contract: Contract, column: str, time: str) -> str:
    kind = next(one.type for one in contract.columns if one.name == column)
    return f"{quote(column)} < CAST({literal(time)} AS {kind})"
