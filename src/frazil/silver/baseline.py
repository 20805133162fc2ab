"""The horizon of a table and its baseline, which silver's bookmark keeps.

A baseline consists of changes: of the changes older than the horizon, silver keeps those that a mart needs, each with
every column, and drops the others. The same folds read it, so no other part of the lake needs a special case.

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
    """Changes before the horizon that marts need in addition to the newest upsert of each live key.

    Attributes:
        deleted: the last known values of deleted keys are kept.
        tracked: for each history, the columns that open a version; the beginnings and ends of its versions are kept.
    """

    deleted: bool = False
    tracked: tuple[tuple[str, ...], ...] = ()

    def covers(self, other: Served) -> bool:
        """Return whether a baseline for this also serves another need.

        Versions by fewer columns begin and end at boundaries of versions by more columns.
        """
        finer = [set(columns) for columns in self.tracked]
        is_tracked = all(any({*columns} <= one for one in finer) for columns in other.tracked)
        return is_tracked and (self.deleted or not other.deleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The baseline as silver's bookmark describes it.

    Attributes:
        before: the horizon, a time: a change is folded if its first sequence column is less. With ``by_place`` and
            histories, all other changes have times at or after it, also changes that arrive later.
        batch: silver's batch at the time of the fold.
        position, row: the last place among the folded changes; None without any.
        served: the needs of marts that it was made for.
        by_place: the source orders its changes itself, so the horizon is a place: a change at or before it is in the
            baseline, or came too late.
        asked: the requested time of the fold; with ``by_place`` some changes before it may not be folded.
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
        """Return the requested time of the fold, which identifies it; bronze notes it too."""
        return self.asked or self.before

    def in_bookmark(self) -> dict[str, Any]:
        """Return the bookmark entry, as plain values."""
        return {BASELINE: asdict(self)}


def baseline_of(bookmark: Mapping[str, Any]) -> Baseline | None:
    """Return the baseline of silver's bookmark; None without one."""
    found = bookmark.get(BASELINE)
    if found is None:
        return None
    tracked = tuple(map(tuple, found["served"]["tracked"]))
    return Baseline(**{**found, "served": Served(deleted=found["served"]["deleted"], tracked=tracked)})


def kept_baseline(bookmark: Mapping[str, Any]) -> dict[str, Any]:
    """Return the baseline entry for the next bookmark; empty without one."""
    return {BASELINE: bookmark[BASELINE]} if BASELINE in bookmark else {}


def is_before_sql(contract: Contract, baseline: Baseline) -> str:
    """Write the condition that a change is folded into a baseline.

    A delete without its own sequence is never folded: a later change can still alter the sequence that it takes.
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
    """Write the condition that a change outside of the baseline can no longer be applied.

    A truncate before a folded change is too late, because it would delete that change. A history is cut by time: if the
    horizon is a place, a change after that place with a time before the horizon is too late as well.
    """
    older = is_before_sql(contract, baseline)
    if baseline.by_place:
        if not baseline.served.tracked or contract.event_time is None:
            return older
        # A delete ends the current version, whatever time it repeats.
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
