"""Random tables, one for each kind of source, with files of a database's log."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from tests.properties.drawn_database import COLUMNS, NO_NUMBER, Database
from tests.sources.audit_log import OTHER, AuditLogCsv, AuditLogJson
from tests.sources.test_debezium import unavailable_ways

from frazil.sources.postgres.landed.files import schema_of
from frazil.sources.postgres.landed.landing import hex_lsn, range_name
from frazil.spec.model.kinds.postgres import COMMITTED_AT, OLD, OP, POSITION, UNCHANGED, XID
from frazil.testing.changes import write_csv

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from tests.properties.drawn_database import Logged, Row

Order = Literal["place", "timed", "sequenced"]
"""Changes are ordered by places and timed by their commits, or by ``at``; or ``at`` orders them."""

CONNECTORS: Final = ("mysql", "postgresql", "sqlserver", "oracle")
KINDS: Final = ("dms", "audit", "postgres", *CONNECTORS)
MARKER: Final = "__debezium_unavailable_value"
_STATEMENTS: Final = 12
"""Statements for each group."""
_MARTS: Final = {
    "hard": "kind: current",
    "soft": "kind: current, deletes: soft",
    "close": "kind: history",
    "mark": "kind: history, deletes: mark",
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OIDS: Final = {"h": 23, "id": 23, "at": 1114, "v": 25, "n": 25, "due": 25, "big": 25}
_SOURCES: Final = {
    "dms": "kind: dms, path: {place}, header: true, before_image_prefix: BI_",
    "audit": "kind: audit_log, path: {place}, table: public.things, old_data: old_data",
    "postgres": "kind: postgres, url: postgresql://nobody, table: {name}, landing: ./landing",
    "debezium": "kind: debezium, path: {place}, settle_seconds: 0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The records that arrive at one moment, and the events they come from."""

    number: int
    logged: tuple[Logged, ...]
    messages: tuple[dict[str, Any], ...] = ()


@dataclass(eq=False)
class DrawnTable:
    """A table of a lake.

    Attributes:
        kind: kind of its source; a connector is one of Debezium.
        seed: seed of the draw, with the kind.
        chance: random generator.
        groups: its histories: first parts of keys.
        count: number of parts.
        parts: the arriving parts, in the order of the source.
        arrivals: the same parts, in the order of arrival.
        image: fields of deletes: the old row, or the key alone.
    """

    kind: str
    seed: int
    chance: Random
    groups: int
    count: int
    spoils: bool = False
    arrived: list[Part] = field(default_factory=list)

    def __post_init__(self) -> None:
        chance = self.chance
        self.is_debezium = self.kind in CONNECTORS
        self.marts: tuple[Literal["hard", "soft"], Literal["close", "mark"]] = (
            chance.choice(("hard", "soft")),
            chance.choice(("close", "mark")),
        )
        self.order: Order = chance.choice(("place", "timed", "sequenced"))
        if self.kind == "dms" and self.order == "place":
            self.order = "timed"
        self.partitions = chance.choice((1, 3)) if self.is_debezium else 1
        self.database = Database(
            groups=range(self.groups),
            chance=chance,
            server_moves=self.is_debezium and self.partitions == 1 and chance.random() < 0.7,
            truncates=self.kind != "dms" and self.partitions == 1 and self.order == "place" and chance.random() < 0.5,
            leaves_out=self.kind != "dms",
            spoils=self.spoils,
        )
        self.log = self.database.draw(_STATEMENTS * self.groups)
        self.parts = self._parts()
        self.arrivals = [*self.parts]
        has_moved = bool(self.database.moved) or self.partitions > 1
        if self.kind != "postgres" and not has_moved and chance.random() < 0.6:
            chance.shuffle(self.arrivals)

    @property
    def name(self) -> str:
        """Return its name."""
        return f"{self.kind}_{self.seed}"

    def yaml(self) -> str:
        """Write its declaration."""
        kind = "debezium" if self.is_debezium else self.kind
        source = _SOURCES[kind].format(place=f"./landing/{self.name}", name=self.name)
        order = {"place": "", "timed": "effective_at: at", "sequenced": "sequence_by: [at]"}[self.order]
        return f"""
  - name: {self.name}
    source: {{{source}}}
    keys: [h, id]
    {order}
    max_bad_fraction: 1
    max_late_fraction: 1
    columns:
      - {{name: h, type: int}}
      - {{name: id, type: int}}
      - {{name: at, type: timestamp}}
      - {{name: v}}
      - {{name: n, type: int}}
      - {{name: due, type: timestamp_ntz}}
      - {{name: big}}
    marts: [{", ".join(f"{{name: {self.name}_{mart}, {_MARTS[mart]}}}" for mart in self.marts)}]
"""

    def _parts(self) -> list[Part]:
        """Cut the log anywhere; a capture of PostgreSQL and messages of one change are not cut."""
        ends = [
            number
            for number, (one, after) in enumerate(zip(self.log, self.log[1:], strict=False), start=1)
            if self.kind != "postgres" or one.statement != after.statement
        ]
        loaded = sum(one.load for one in self.log)
        if self.kind == "dms" or self.is_debezium:
            ends = [end for end in ends if end > loaded]
        cuts = sorted(self.chance.sample(ends, self.count - 1))
        if self.kind == "dms" and loaded:
            cuts = [loaded, *cuts]
        pieces = [self.log[start:end] for start, end in zip([0, *cuts], [*cuts, len(self.log)], strict=True)]
        if not self.is_debezium:
            return [Part(number=number, logged=tuple(piece)) for number, piece in enumerate(pieces)]
        topic = Topic(self)
        told = [Part(number=at, logged=tuple(piece), messages=topic.tell(piece)) for at, piece in enumerate(pieces)]
        return told if self.partitions == 1 else self._lagging(told)

    def _lagging(self, parts: list[Part]) -> list[Part]:
        """Let what one partition has from somewhere on come a part later."""
        last, moved = len(parts) - 1, [list[dict[str, Any]]() for _ in parts]
        for part in parts:
            begin = self.chance.randint(0, 60)
            for one in part.messages:
                # A tombstone that begins a file says no place: it comes with the delete before it.
                is_late = one["partition"] == 1 and one["offset"] - (one["value"] is None) >= begin
                moved[min(part.number + is_late, last)].append(one)
        return [
            Part(number=part.number, logged=part.logged, messages=tuple(sorted(some, key=lambda one: one["offset"])))
            for part, some in zip(parts, moved, strict=True)
        ]

    def deliver(self, folder: Path, *, again: bool = False) -> None:
        """Let the next part arrive; or one that has come, under another name."""
        if again:
            if self.kind != "dms" and self.arrived:
                part = self.chance.choice(self.arrived)
                path = self._write(folder, part)
                path.rename(path.with_name(f"zz-{len(self.arrived)}-{path.name}"))
                self._write(folder, part)
            return
        if self.arrivals:
            part = self.arrivals.pop(0)
            self._write(folder, part)
            self.arrived.append(part)

    def _write(self, folder: Path, part: Part) -> Path:
        place = folder / "landing" / (f"public.{self.name}" if self.kind == "postgres" else self.name)
        place.mkdir(parents=True, exist_ok=True)
        if self.is_debezium:
            path = place / f"{part.number:03}.jsonl"
            path.write_text("".join(f"{json.dumps(one)}\n" for one in part.messages), encoding="utf-8")
            return path
        return {"dms": self._dms, "audit": self._audit, "postgres": self._postgres}[self.kind](place, part)

    def file_time(self, part: Part) -> datetime | None:
        """Return the time in the name of a file of Amazon DMS; None for a load."""
        return None if part.logged[0].load else part.logged[-1].time + timedelta(seconds=1, milliseconds=part.number)

    def image(self, one: Logged) -> Row:
        """Return what the record of a delete carries beside its key; the log says by lot which it is."""
        return dict(one.before) if (one.number * 7 + self.seed) % 3 and self.kind != "postgres" else {}

    def image_of_move(self, one: Logged) -> Row:
        """Return the same of the delete that Debezium makes of a change of key."""
        return dict(one.before) if one.number % 2 else {}

    def _dms(self, place: Path, part: Part) -> Path:
        records = []
        for one in part.logged:
            texts: Row = dict.fromkeys(COLUMNS) | (self.image(one) if one.op == "D" else one.texts)
            old = one.old_key if one.op == "U" else None
            ids: Row = {"h": f"{one.key[0]}", "id": f"{one.key[1]}"}
            images: Row = {"BI_h": old and f"{old[0]}", "BI_id": old and f"{old[1]}"}
            records.append({"op": one.op, **ids, **texts, **images, "no": f"{one.number}"})
        at = self.file_time(part)
        path = place / ("LOAD00000001.csv" if at is None else f"{at:%Y%m%d-%H%M%S}{at.microsecond // 1000:03}.csv")
        path.write_bytes(write_csv(records))
        return path

    def _audit(self, place: Path, part: Part) -> Path:
        log: list[dict[str, Any]] = []
        for one in part.logged:
            texts = self.image(one) if one.op == "D" else one.texts
            row = None if one.op == "T" else json.dumps({"h": one.key[0], "id": one.key[1], **texts})
            old = json.dumps({"h": one.old_key[0], "id": one.old_key[1]}) if one.old_key else None
            mine = {
                "audit_event_id": one.number,
                "audit_operation": one.op,
                "audit_timestamp": f"{one.time:%Y-%m-%d %H:%M:%S.%f}",
                "tbl_schema": "public",
                "tbl_name": "things",
                "raw_data": row,
                "old_data": old,
            }
            log += [mine, {**mine, **OTHER}]
        path = place / f"part-{999 - part.number}.{'csv' if self.seed % 2 else 'jsonl'}"
        path.write_bytes((AuditLogCsv if self.seed % 2 else AuditLogJson)._text(log))
        return path

    def _postgres(self, place: Path, part: Part) -> Path:
        rows = []
        for one in part.logged:
            is_row = one.op in "IU"
            texts = one.texts if is_row else {}
            unchanged = [name for name in COLUMNS if name not in texts] if is_row else []
            keys = {"h": f"{one.key[0]}", "id": f"{one.key[1]}"} if one.op != "T" else {"h": None, "id": None}
            old = one.old_key if one.moves else None
            rows.append(
                {
                    OP: one.op.lower(),
                    POSITION: f"{hex_lsn(one.statement)}-{one.index + 1:010d}",
                    COMMITTED_AT: f"{one.time:%Y-%m-%d %H:%M:%S.%f}",
                    XID: f"{one.statement}",
                    UNCHANGED: json.dumps(unchanged) if unchanged else None,
                    f"{OLD}h": old and f"{old[0]}",
                    f"{OLD}id": old and f"{old[1]}",
                    **keys,
                    **{name: texts.get(name) for name in COLUMNS},
                }
            )
        start, end = part.logged[0].statement, part.logged[-1].statement + 1
        types = [(oid, -1) for oid in _OIDS.values()]
        schema = schema_of([*_OIDS], types, [0, 1], start=hex_lsn(start), end=hex_lsn(end))
        path = place / range_name(hex_lsn(start), end, 1)
        pq.write_table(pa.Table.from_pylist(rows, schema), path)
        return path


@dataclass(eq=False)
class Topic:
    """A topic that Debezium writes: changes of key are a delete and a create, and what it sent last comes again."""

    table: DrawnTable
    offsets: Counter[int] = field(default_factory=Counter)
    commit: int = 0
    _sent: list[tuple[Logged, list[dict[str, Any]]]] = field(default_factory=list)

    def tell(self, logged: list[Logged]) -> tuple[dict[str, Any], ...]:
        """Return the messages of changes; where the connector died, the last ones again."""
        chance, found = self.table.chance, list[dict[str, Any]]()
        for one in logged:
            starts = self._sent and self._sent[-1][0].statement != one.statement
            if starts and (one.number - 1 in self.table.database.moved or one.server != self._sent[-1][0].server):
                self._sent.clear()
            elif starts and chance.random() < 0.06:
                for _, messages in self._sent[-chance.randrange(1, 6) :]:
                    found += [self._at_next_offset(message) for message in messages]
            self._sent.append((one, self._messages(one)))
            found += [self._at_next_offset(message) for message in self._sent[-1][1]]
        return tuple(found)

    def _at_next_offset(self, message: dict[str, Any]) -> dict[str, Any]:
        partition = message["partition"]
        self.offsets[partition] += self.table.chance.choice((1, 1, 3))
        return {**message, "offset": self.offsets[partition]}

    def _messages(self, one: Logged) -> list[dict[str, Any]]:
        source = self._source(one)
        if one.op == "T":
            return [self._message(None, {"op": "t", "before": None, "after": None, "source": source})]
        key = {"h": one.key[0], "id": one.key[1]}
        if one.op == "D":
            return self._delete(key, self.table.image(one), source)
        after = {**key, **self._values(one)}
        if not one.moves or one.old_key is None:
            op = "r" if one.load else "c" if one.op == "I" else "u"
            return [self._message(key, {"op": op, "before": None, "after": after, "source": source})]
        old = {"h": one.old_key[0], "id": one.old_key[1]}
        has_headers = self.table.partitions > 1
        headers = [["__debezium.oldkey", json.dumps(old)]] if has_headers else []
        create = self._message(key, {"op": "c", "before": None, "after": after, "source": source}, headers)
        told, tombstone = self._delete(old, self.table.image_of_move(one), source)
        told["headers"] = [["__debezium.newkey", json.dumps(key)]] if has_headers else []
        return [told, tombstone, create]

    def _delete(self, key: dict[str, int], image: Row, source: dict[str, Any]) -> list[dict[str, Any]]:
        values = {name: self._encoded(name, text) for name, text in image.items()}
        before = {**key, **(values or dict.fromkeys(COLUMNS))}
        told = self._message(key, {"op": "d", "before": before, "after": None, "source": source})
        return [told, {**told, "value": None}]

    def _message(self, key: dict[str, int] | None, value: dict[str, Any], headers: Any = ()) -> dict[str, Any]:
        partition = 0 if key is None else (key["h"] + key["id"]) % self.table.partitions
        told = {"schema": _SCHEMA, "payload": value}
        at = {"topic": self.table.name, "partition": partition, "offset": 0, "headers": [*headers]}
        return {**at, "key": None if key is None else json.dumps(key), "value": json.dumps(told)}

    def _values(self, one: Logged) -> dict[str, Any]:
        ways = unavailable_ways(MARKER)
        found = {name: self.table.chance.choice(ways) for name in COLUMNS if name not in one.carried}
        return found | {name: self._encoded(name, text) for name, text in one.texts.items()}

    def _encoded(self, name: str, text: str | None) -> Any:
        """Return a value as its column is written: ``due`` in nanoseconds, ``at`` in microseconds."""
        if text is None or name not in ("n", "due", "at") or text == NO_NUMBER:
            return text
        if name == "n":
            return int(text)
        moment, _, digits = text.partition(".")
        try:
            whole = (datetime.fromisoformat(moment).replace(tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)
        except ValueError:
            return 10**21 if text == "infinity" else text
        nanos = whole * 10**9 + int(digits.ljust(9, "0"))
        return nanos if name == "due" else nanos // 1000

    def _source(self, one: Logged) -> dict[str, Any]:
        told = {"connector": self.table.kind, "ts_ms": (one.time - _EPOCH) // timedelta(milliseconds=1)}
        told["snapshot"] = "true" if one.load else "false"
        # It tells the changes of a transaction apart and does not order them: it may begin again with each statement.
        number = _MOST - one.index
        match self.table.kind:
            case "mysql":
                gtid = f"{one.server:08}-0000-0000-0000-000000000000:{one.statement}"
                return told | {
                    "server_id": one.server,
                    "gtid": gtid,
                    "file": f"bin.{one.file:06}",
                    "pos": one.begin,
                    "row": number,
                }
            case "postgresql":
                lsn = one.file * 1_000_000 + one.at
                return told | {"lsn": lsn, "sequence": json.dumps([f"{one.file * 1_000_000 + one.begin}", f"{lsn}"])}
            case "sqlserver":
                commit, change = (f"{one.file:08x}:{at:08x}:0001" for at in (one.begin, number))
                return told | {"commit_lsn": commit, "change_lsn": change, "event_serial_no": 1}
            case _:
                scn = one.file * 1_000_000
                numbered = {"ssn": number + 1}
                return told | {"scn": f"{scn + one.begin}", "commit_scn": f"{scn + one.begin}"} | numbered


_MOST: Final = 99
"""Changes that a transaction may have."""
_TYPES: Final = {
    "h": {"type": "int32"},
    "id": {"type": "int32"},
    "at": {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    "v": {"type": "string"},
    "n": {"type": "int32"},
    "due": {"type": "int64", "name": "io.debezium.time.NanoTimestamp"},
    "big": {"type": "string"},
}
_FIELDS: Final = [{"field": name, **kind} for name, kind in _TYPES.items()]
_SCHEMA: Final = {
    "type": "struct",
    "fields": [{"field": side, "type": "struct", "fields": _FIELDS} for side in ("before", "after")],
}
