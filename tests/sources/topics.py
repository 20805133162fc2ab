"""Topics by lot, of a connector with gaps in the log and new snapshots, in plain Python."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from frazil.testing.oracle import Change

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

COLUMNS: Final = ("id", "n")
_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_PARTITIONS: Final = 2
_KEYS: Final = 12


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a topic; ``end`` is true of the last read of a snapshot, ``bad`` of one with a wrong value."""

    key: int
    op: str
    commit: int
    lsn: int
    time: datetime
    value: int | None
    offset: int
    read: bool = False
    end: bool = False
    bad: bool = False

    @property
    def position(self) -> str:
        place = f"{self.commit:020}/{0 if self.read else 1}/{self.lsn:020}"
        return f"1/{place}/{self.key % _PARTITIONS:06}/{self.offset:020}"

    def line(self, marker: str) -> str:
        """Return the message as Debezium writes it; ``marker`` is its ``snapshot``."""
        row: dict[str, Any] = {"id": self.key, "n": "no number" if self.bad else self.value}
        source = {
            "connector": "postgresql",
            "lsn": self.lsn,
            "sequence": json.dumps([None if self.read else f"{self.commit}", f"{self.lsn}"]),
            "ts_ms": (self.time - _BEGIN) // timedelta(milliseconds=1) + int(_BEGIN.timestamp()) * 1000,
            "snapshot": marker,
        }
        before, after = (row, None) if self.op == "d" else (None, row)
        value = {"op": self.op, "before": before, "after": after, "source": source}
        at = {"topic": "shop.things", "partition": self.key % _PARTITIONS, "offset": self.offset}
        return f"{json.dumps({**at, 'key': json.dumps({'id': self.key}), 'value': value})}\n"


@dataclass(slots=True)
class Topic:
    """A table, and what a connector wrote of it.

    Attributes:
        rows: the rows of the table.
        messages: all messages.
        lines: the same as JSON.
        loses: number of rows that were deleted in gaps of the log.
    """

    chance: Random
    rows: dict[int, int] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    loses: int = 0
    _lsn: int = 1_000
    _commit: int = 1_000
    _time: datetime = _BEGIN

    def live(self, size: int) -> None:
        """Take a first snapshot, and let things happen."""
        for key in range(_KEYS // 2):
            self.rows[key] = self.chance.randrange(100)
        self.take_snapshot()
        for _ in range(size):
            match self.chance.randrange(12):
                case 0:
                    self._lose_place()
                case _:
                    self._change(told=True)

    def _lose_place(self) -> None:
        """Change the table in a gap of the log, then read it again; sometimes only the second snapshot ends."""
        for _ in range(self.chance.randrange(5)):
            self._change(told=False)
        if self.chance.random() < 0.3:
            self.take_snapshot(upto=self.chance.randrange(len(self.rows) + 1))
            for _ in range(self.chance.randrange(3)):
                self._change(told=False)
        self.take_snapshot()
        if self.chance.random() < 0.3 and len(self.rows) < _KEYS:
            # A transaction that began before the snapshot and ended after it.
            key = self.chance.choice([key for key in range(_KEYS) if key not in self.rows])
            before, self.rows[key] = self._lsn - 1, self.chance.randrange(100)
            self._time += timedelta(seconds=1)
            self._tell(Message(key, "c", before, before, self._time, self.rows[key], len(self.messages)), "false")

    def take_snapshot(self, upto: int | None = None) -> None:
        """Read all rows at one position; with ``upto``, the connector dies after so many."""
        self._go_on()
        keys = sorted(self.rows)
        for number, key in enumerate(keys[:upto]):
            is_end = number == len(keys) - 1
            marker = "last" if is_end else "first" if number == 0 else "true"
            if self.chance.random() < 0.5:
                marker = marker.replace("first", "first_in_data_collection").replace("last", "last_in_data_collection")
            bad, at, offset = self.chance.random() < 0.05, self._lsn, len(self.messages)
            read = Message(key, "r", at, at, self._time, self.rows[key], offset, read=True, end=is_end, bad=bad)
            self._tell(read, marker)
        self._commit = self._lsn

    def _change(self, *, told: bool) -> None:
        self._go_on()
        key, is_delete = self.chance.randrange(_KEYS), self.chance.random() < 0.3
        if is_delete and key not in self.rows:
            return
        op = "d" if is_delete else "u" if key in self.rows else "c"
        value = self.rows.pop(key) if is_delete else self.chance.randrange(100)
        if not is_delete:
            self.rows[key] = value
        if told:
            offset = len(self.messages)
            self._tell(Message(key, op, self._commit, self._lsn, self._time, value, offset), "false")
            self._commit = self._lsn
        else:
            self.loses += is_delete

    def _go_on(self) -> None:
        self._lsn += self.chance.randrange(2, 50)
        self._time += timedelta(seconds=self.chance.randrange(1, 100))

    def _tell(self, message: Message, marker: str) -> None:
        self.messages.append(message)
        self.lines.append(message.line(marker))


def changes_of(messages: Iterable[Message]) -> list[Change]:
    """Return the changes of messages, with a delete of each row that a finished snapshot proves absent (HANDOVER)."""
    every = [*messages]
    found = [_change_of(one) for one in every if not one.bad]
    for place in sorted({_place(one) for one in every if one.read and one.end}):
        reads = [one for one in every if one.read and _place(one) == place]
        time = min(one.time for one in reads)
        stays = {one.key for one in reads} | {one.key for one in every if one.position < place and one.time > time}
        older = sorted((one for one in found if one.position < place), key=lambda one: one.position)
        lasts = {one.key: one for one in older}
        found += [
            Change((key,), (), place, 0, deleted=True, values={}, event_time=time, source_time=time)
            for (key,), last in lasts.items()
            if not last.deleted and key not in stays
        ]
    return found


def _change_of(one: Message) -> Change:
    values = {} if one.op == "d" else {"id": one.key, "n": one.value}
    return Change((one.key,), (), one.position, 1, one.op == "d", values, one.time, one.time)


def _place(read: Message) -> str:
    return f"1/{read.commit:020}/0/"


def split(topic: Topic, chance: Random, count: int) -> list[Sequence[int]]:
    """Return the numbers of a topic's messages, cut into batches; some come late."""
    cuts = sorted(chance.sample(range(1, len(topic.messages)), count - 1))
    ends = zip([0, *cuts], [*cuts, len(topic.messages)], strict=True)
    batches: list[Sequence[int]] = [range(first, end) for first, end in ends]
    if chance.random() < 0.4:
        at = chance.randrange(count - 1)
        batches[at], batches[at + 1] = batches[at + 1], batches[at]
    return batches
