"""Stories of one row each in events of Debezium: hostile values, and the value there is in the end."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

UNAVAILABLE: Final = "__debezium_unavailable_value"
TEXT: Final = {"type": "string"}
BYTES: Final = {"type": "bytes"}
HSTORE: Final = {"type": "map"}
TEXTS: Final = {"type": "array", "items": TEXT}
JSON: Final = TEXT | {"name": "io.debezium.data.Json"}
DATE: Final = {"type": "int32", "name": "io.debezium.time.Date"}
SPAN: Final = {"type": "int64", "name": "io.debezium.time.MicroTime"}
MILLIS: Final = {"type": "int64", "name": "io.debezium.time.Timestamp"}
MICROS: Final = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}
NANOS: Final = {"type": "int64", "name": "io.debezium.time.NanoTimestamp"}
ZONED: Final = TEXT | {"name": "io.debezium.time.ZonedTimestamp"}
DECIMAL: Final = BYTES | {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
_SECOND: Final = 1_000_000


def digits(number: int) -> str:
    """Write a number as Kafka Connect writes the digits of a decimal."""
    return base64.b64encode(number.to_bytes(9, "big", signed=True)).decode()


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a row: op, value and the type that its schema tells; ``place`` is in the binlog, None: the next."""

    op: str
    value: Any = None
    type: Any = None
    place: int | None = None
    snapshot: str = "false"

    def line(self, key: int, place: int) -> str:
        """Write it as one line of JSON."""
        if self.op == "tombstone":
            return json.dumps({"key": {"id": key}, "value": None})
        row = {"id": key, "v": self.value}
        source = {"file": "binlog.000001", "pos": place if self.place is None else self.place, "row": 0, "server_id": 1}
        source |= {"db": "shop", "table": "events", "ts_ms": 1_767_225_600_000, "snapshot": self.snapshot}
        before, after = (None, row) if self.op != "d" else ({"id": key}, None)
        fields = [{"field": "id", "type": "int32"}, {"field": "v", **(self.type or TEXT)}]
        parts = [{"field": name, "type": "struct", "fields": fields} for name in ("before", "after")]
        payload = {"before": before, "after": after, "source": source, "op": self.op, "ts_ms": 1_767_225_600_000}
        return json.dumps({"schema": {"type": "struct", "fields": parts}, "payload": payload})


@dataclass(frozen=True, slots=True)
class EventStory:
    """What happens to one row, the value it has in the end, and how many of its events go to quarantine."""

    name: str
    events: tuple[Event, ...]
    kept: str | None
    quarantined: int = 0


def _kept(name: str, way: Any, kind: Any) -> EventStory:
    return EventStory(f"an unavailable {name}", (Event("c", "a"), Event("u", way, kind)), "a")


def _value(name: str, value: Any, kind: Any, kept: str | None) -> EventStory:
    return EventStory(name, (Event("c", value, kind),), kept, kept is None)


EVENTS: Final = (
    # Values that the database did not tell.
    _kept("text", UNAVAILABLE, TEXT),
    _kept("binary", base64.b64encode(UNAVAILABLE.encode()).decode(), BYTES),
    _kept("binary in hexadecimal digits", UNAVAILABLE.encode().hex(), TEXT),
    _kept("JSON", json.dumps(UNAVAILABLE), JSON),
    _kept("hstore", {UNAVAILABLE: UNAVAILABLE}, HSTORE),
    _kept("array of texts", [UNAVAILABLE], TEXTS),
    _kept("array of numbers", [*UNAVAILABLE.encode()], {"type": "array", "items": {"type": "int32"}}),
    EventStory(
        "an unavailable value that comes later", (Event("c", "a"), Event("u", UNAVAILABLE), Event("u", "b")), "b"
    ),
    EventStory("an unavailable value in the first event", (Event("u", UNAVAILABLE),), "NULL"),
    EventStory("a NULL is no unavailable value", (Event("c", "a"), Event("u")), "NULL"),
    EventStory(
        "an unavailable value of a row that came back",
        (Event("c", "a"), Event("d"), Event("u", UNAVAILABLE)),
        "NULL",
    ),
    # Spans and times.
    _value("a span beyond a day", 108_900 * _SECOND, SPAN, "30:15:00"),
    _value("a span below zero", -5_400 * _SECOND, SPAN, "-01:30:00"),
    _value("the longest span", 3_020_399 * _SECOND, SPAN, "838:59:59"),
    _value("a span beyond the longest", 3_020_400 * _SECOND, SPAN, None),
    _value("a text for a span", "30:15", SPAN, None),
    _value("the first day", 0, DATE, "1970-01-01"),
    _value("a day before", -1, DATE, "1969-12-31"),
    _value("a year beyond 9999", 3_000_000, DATE, None),
    _value("a time before 1970", -1, MILLIS, "1969-12-31 23:59:59.999000"),
    _value("microseconds", 1_767_225_600_123_456, MICROS, "2026-01-01 00:00:00.123456"),
    _value("nanoseconds", 1_767_225_600_123_456_789, NANOS, "2026-01-01 00:00:00.123456789"),
    _value("a time of another zone", "2026-01-01T05:30:00+05:30", ZONED, "2026-01-01T05:30:00+05:30"),
    # Numbers.
    _value("a decimal", digits(110), DECIMAL, "1.10"),
    _value("a decimal below zero", digits(-1), DECIMAL, "-0.01"),
    _value("digits that are no base64", "1.10", DECIMAL, None),
    # Order and deletes.
    EventStory("a delete of the key alone", (Event("c", "a"), Event("d")), None),
    EventStory("a tombstone", (Event("c", "a"), Event("tombstone")), None),
    EventStory("a row that comes back", (Event("c", "a"), Event("d"), Event("tombstone"), Event("c", "b")), "b"),
    EventStory("an event twice", (Event("c", "a", place=7), Event("c", "a", place=7)), "a"),
    EventStory(
        "an old event again", (Event("c", "a", place=7), Event("u", "b", place=9), Event("c", "a", place=7)), "b"
    ),
    EventStory(
        "a read of a snapshot behind a change of its place",
        (Event("u", "b", place=9), Event("r", "a", place=9, snapshot="true")),
        "b",
    ),
    EventStory("an op in another case", (Event("C", "a"),), "a"),
    EventStory("an op that is not", (Event("c", "a"), Event("x", "b")), "a", 1),
)
