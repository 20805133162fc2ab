"""The laws in plain Python: what the marts must hold, given the changes.

Read ``_walk`` first: it folds the changes of one key, in order, to the states the key went through. The
current and the soft table look at the last state, history at all of them. Nothing here knows files, batches
or Spark, so nothing here can depend on them (CONVERGE).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any, Literal

from frazil.bronze.record import POSITION, ROW

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One accepted event of one source row.

    Attributes:
        key: values of the key columns; never NULL, never NaN.
        sequence: values of the sequence columns, compared left to right; NULL only if a delete lacks one.
        position: sortable text of the file's position in its source.
        row: ordinal of the record in its file, from 1.
        deleted: a delete; else an upsert.
        values: the columns the event carries, with its key and sequence; of a delete they are never used.
        event_time: where history puts the change; None means no later than the change before it.
        source_time: the source's own time of the change; of an upsert it is never used. None for none.
        of_move: a change of key brought it: the delete of the old key, or the upsert of the new one.
        snapshot: the snapshot that brought it, as a row or as what it is without; empty for none.
        bad: its record is in quarantine: it says where a row was, and nothing else.
        again: a delete that says once more what the change before it says, as a tombstone does.
    """

    key: tuple[Any, ...]
    sequence: tuple[Any, ...]
    position: str
    row: int
    deleted: bool
    values: Mapping[str, Any]
    event_time: Any
    source_time: Any = None
    of_move: bool = False
    snapshot: str = ""
    bad: bool = False
    again: bool = False

    @property
    def order(self) -> tuple[Any, ...]:
        """The order between two changes of a key; it is total, so one change always wins."""
        content = repr(sorted(self.values.items()))
        told = (self.source_time is not None, self.source_time)
        return self.sequence, self.position, self.row, not self.deleted, content, told


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A whole copy of a table that meets changes of another kind (HANDOVER).

    Attributes:
        at: changes from then on are newer than it.
        name: of two at one time the greater one is newer.
        rows: the values of each row, by key.
    """

    at: Any
    name: str
    rows: Mapping[tuple[Any, ...], Mapping[str, Any]]


def handed_over(changes: Iterable[Change], snapshots: Iterable[Snapshot]) -> list[Change]:
    """Return the changes that a table has which is given changes and snapshots.

    All is ordered by time; at one time a snapshot is older than a change. A snapshot deletes every key that has an
    older change, or is in an older snapshot, and then upserts its rows.

    Args:
        changes: ordered among those of one event time by their positions.
        snapshots: in any order.
    """
    found = [replace(change, sequence=(change.event_time, "1", change.position)) for change in changes]
    for snapshot in sorted(snapshots, key=lambda one: (one.at, one.name)):
        place = (snapshot.at, "0", snapshot.name)
        older = {change.key for change in found if change.sequence < place}
        step = Change(
            key=(),
            sequence=place,
            position="",
            row=1,
            deleted=True,
            values={},
            event_time=snapshot.at,
            snapshot=snapshot.name,
        )
        found += [replace(step, key=key) for key in older]
        found += [
            replace(step, key=key, row=row, deleted=False, values=values)
            for row, (key, values) in enumerate(snapshot.rows.items(), start=2)
        ]
    return found


def accepted(came: Iterable[tuple[Change, Any]]) -> list[Change]:
    """Return the changes that a table with a retention accepts; the tables are made of these, and of no others.

    What is folded into a baseline counts as it did before, so the oracle knows nothing of how that is done.

    Args:
        came: each change, and the horizon that the table had when it came; None for none. A change is too late if the
            first value of its sequence is less. A delete without such a value is never too late.
    """
    return [
        change
        for change, horizon in came
        if horizon is None or change.sequence[0] is None or change.sequence[0] >= horizon
    ]


@dataclass(frozen=True, slots=True)
class _State:
    """A key just after ``change``: no ``values`` when the row is gone; ``last_known`` outlives a delete.

    ``at`` is the event time of the change, ``time`` the greatest so far.
    """

    change: Change
    at: Any
    time: Any
    values: Row | None
    last_known: Row | None


def current(changes: Iterable[Change], columns: Sequence[str]) -> list[Row]:
    """Return what the current table with hard deletes holds.

    Args:
        changes: in any order, repeats allowed.
        columns: the contract's columns.

    Returns:
        One row per key whose last change is an upsert, in order of the key: ``columns``, ``_cdc_position``
        and ``_cdc_row``.
    """
    lasts = (states[-1] for states in _fold(changes, columns))
    return [_row(last.values, last.change) for last in lasts if last.values is not None]


def soft(changes: Iterable[Change], columns: Sequence[str]) -> list[Row]:
    """Return what the current table with soft deletes holds.

    Returns:
        As ``current``, with ``is_deleted`` and ``deleted_at``, and a row with the last known values for every
        key that existed and whose last change is a delete.
    """
    lasts = (states[-1] for states in _fold(changes, columns))
    return [
        _row(
            last.last_known,
            last.change,
            is_deleted=last.values is None,
            deleted_at=last.at if last.values is None else None,
        )
        for last in lasts
        if last.last_known is not None
    ]


def history(
    changes: Iterable[Change],
    columns: Sequence[str],
    tracked: Sequence[str],
    deletes: Literal["close", "mark"] = "close",
) -> list[Row]:
    """Return what the history table holds.

    Args:
        changes: in any order, repeats allowed.
        columns: the contract's columns.
        tracked: a change in these opens a version.
        deletes: ``close`` ends the last version; ``mark`` also opens one with the last known values.

    Returns:
        One row per version, in order of key and time: ``columns``, ``valid_from``, ``valid_to``,
        ``is_current``, ``is_deleted``, ``_cdc_position`` and ``_cdc_row``.
    """
    return [row for states in _fold(changes, columns) for row in _versions(states, tracked, deletes)]


def bitemporal(
    batches: Iterable[tuple[Any, Iterable[Change]]],
    columns: Sequence[str],
    tracked: Sequence[str],
    deletes: Literal["close", "mark"] = "close",
) -> list[Row]:
    """Return what a bitemporal history holds.

    Args:
        batches: when each was known, and its changes; in order.
        columns: the contract's columns.
        tracked: a change in these opens a version.
        deletes: as for :func:`history`.

    Returns:
        One row per version and time in which it was known: those of :func:`history` with ``known_from`` and
        ``known_to``; ``is_current`` is true of rows that are open and still known. Versions that were never known are
        left out.
    """
    own = (POSITION, ROW, "is_current", "known_from", "known_to")
    seen: list[Change] = []
    known: list[Row] = []
    gone: list[Row] = []
    for at, changes in batches:
        seen += changes
        # A row may have several equal versions of zero length.
        before: defaultdict[str, list[Row]] = defaultdict(list)
        for row in reversed(known):
            before[repr({name: row[name] for name in row if name not in own})].append(row)
        known = []
        for version in history(seen, columns, tracked, deletes):
            twins = before[repr({name: version[name] for name in version if name not in own})]
            same = twins.pop() if twins else None
            known.append(version | {"known_from": at if same is None else same["known_from"], "known_to": None})
        lost = [row for rows in before.values() for row in rows if row["known_from"] < at]
        gone += [row | {"known_to": at, "is_current": False} for row in lost]
    return [*gone, *known]


def check_history(rows: Iterable[Mapping[str, Any]], keys: Sequence[str]) -> list[str]:
    """Find what no history table may hold: intervals that run backwards or overlap, a wrong ``is_current``.

    Only a delete leaves an empty interval: of a row that lived for no time that anybody knows.

    Args:
        rows: a history table, in any order.
        keys: the columns that name a row.

    Returns:
        One sentence per broken row; none for a sound table.
    """
    by_key: defaultdict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_key[tuple(row[key] for key in keys)].append(row)
    problems = []
    for key, versions in by_key.items():
        versions.sort(key=lambda one: (one["valid_from"], one["valid_to"] != one["valid_from"]))
        gone = {version["valid_from"] for version in versions if version["is_deleted"]}
        for version in versions:
            start, end = version["valid_from"], version["valid_to"]
            if end is not None and (end < start or (end == start and start not in gone)):
                problems.append(f"{key}: the version from {start} ends at {end}")
            if version["is_current"] != (end is None):
                problems.append(f"{key}: the version from {start} to {end} has the wrong is_current")
        for one, other in pairwise(versions):
            if one["valid_to"] is None or one["valid_to"] > other["valid_from"]:
                problems.append(f"{key}: the versions from {one['valid_from']} and {other['valid_from']} overlap")
    return problems


def _fold(changes: Iterable[Change], columns: Sequence[str]) -> list[list[_State]]:
    by_key: defaultdict[tuple[Any, ...], dict[tuple[Any, ...], Change]] = defaultdict(dict)
    for change in _sequenced(_bound(changes)):
        by_key[change.key][change.order] = change  # changes equal in everything are one change
    return [_walk([change for _, change in sorted(by_key[key].items())], columns) for key in sorted(by_key)]


def _bound(changes: Iterable[Change]) -> list[Change]:
    """Leave out the deletes of rows that left a key which another row had come to before (KEY-CHANGE).

    A key is followed through its places: a change of key that comes to it adds a row, and one that leaves it takes the
    row that was there first. Any other upsert means one row, and any other delete means zero rows. Nothing
    is known of a row that came by a bad record, so the delete of the row before it stays.
    """
    by_key: defaultdict[tuple[Any, ...], list[Change]] = defaultdict(list)
    for change in changes:
        by_key[change.key].append(change)
    kept: list[Change] = []
    for of_key in by_key.values():
        rows: list[bool] = []  # under the key, the first one first; whether anything is known of them
        is_void = False
        for change in sorted(of_key, key=lambda one: (one.position, one.row)):
            is_void = is_void if change.again else change.of_move and change.deleted and rows[1:] == [True]
            if not change.bad and not is_void:
                kept.append(change)
            if change.again:
                continue
            if change.deleted:
                rows = rows[1:] if change.of_move else []
            else:
                rows = [*rows[:1], not change.bad] if change.of_move else [True]
    return kept


def _sequenced(changes: Iterable[Change]) -> list[Change]:
    """Complete the sequences of deletes that lack one (SEQUENCE-OF-DELETES).

    Such a delete takes the greatest sequence among the changes of its key at earlier positions, and the event time
    with it where it lacks that too; without any it comes before all.
    """
    every = [*changes]
    whole: defaultdict[tuple[Any, ...], list[Change]] = defaultdict(list)
    for change in every:
        if None not in change.sequence:
            whole[change.key].append(change)

    def completed(change: Change) -> Change:
        if None not in change.sequence:
            return change
        place = (change.position, change.row)
        earlier = [one for one in whole[change.key] if (one.position, one.row) < place]
        taken = max(earlier, key=lambda one: one.sequence, default=replace(change, sequence=()))
        time = taken.event_time if change.event_time is None else change.event_time
        return replace(change, sequence=taken.sequence, event_time=time)

    return [completed(change) for change in every]


def _walk(changes: Sequence[Change], columns: Sequence[str]) -> list[_State]:
    states: list[_State] = []
    told, time, values, last_known = None, None, None, None
    for change, after in zip_longest(changes, changes[1:]):
        if change.deleted and change.snapshot and after and (after.deleted, after.snapshot) == (False, change.snapshot):
            values = None  # the row never went, but what its record lacks is not taken from older ones
            continue
        at = _time_of_delete(change, told) if change.deleted else change.event_time
        # A version never begins before the one it follows.
        time = _latest(time, at)
        if change.deleted:
            values = None
        else:
            told = change.event_time
            # MISSING-IS-NOT-NULL: missing fields keep their values, except after a delete.
            before: Row = values or {}
            values = last_known = {name: change.values.get(name, before.get(name)) for name in columns}
        states.append(_State(change, at, time, values, last_known))
    return states


def _time_of_delete(change: Change, told: Any) -> Any:
    """Return when a row was deleted; ``told`` is the event time that the row carries.

    A delete shows the row as it was, so its event time counts only where it is newer than the row's.
    """
    if told is None or (change.event_time is not None and change.event_time > told):
        return change.source_time if change.event_time is None else change.event_time
    return _latest(told, change.source_time)


def _latest(*times: Any) -> Any:
    return max((time for time in times if time is not None), default=None)


def _versions(states: Sequence[_State], tracked: Sequence[str], deletes: str) -> Iterator[Row]:
    def seen(state: _State | None) -> list[Any] | None:
        return None if state is None or state.values is None else [state.values[name] for name in tracked]

    def place(state: _State | None) -> tuple[Any, bool] | None:
        return None if state is None else (state.time, state.values is None)

    # The last of several upserts at one event time counts; a delete between them ends a version.
    standing = [state for state, after in zip_longest(states, states[1:]) if place(state) != place(after)]
    versions: list[_State] = []
    for state in standing:
        before = versions[-1] if versions else None
        if seen(state) != seen(before):
            versions.append(state)
        elif before and state.values is not None:
            versions[-1] = replace(state, time=before.time)

    for version, after in zip_longest(versions, versions[1:]):
        is_mark = version.values is None
        if is_mark and deletes == "close":
            continue
        yield _row(
            version.last_known,
            version.change,
            valid_from=version.time,
            valid_to=after.time if after else None,
            is_current=after is None,
            is_deleted=is_mark or (deletes == "close" and after is not None and after.values is None),
        )


def _row(values: Row | None, change: Change, **more: object) -> Row:
    return {**(values or {}), **more, POSITION: change.position, ROW: change.row}
