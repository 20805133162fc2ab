"""The source of a random story: a table with changing rows and schema, and its files.

A story has parts, each a file of its own under one schema. Its records are partial, wrong until they are corrected,
changes of key and truncates, as far as the form of the files can say so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from tests.sources.audit_log import OTHER, AuditLogCsv, AuditLogJson

from frazil.sources.postgres.landed.files import schema_of
from frazil.sources.postgres.landed.landing import hex_lsn, range_name
from frazil.spec.model.kinds.postgres import COMMITTED_AT, OLD, OP, POSITION, UNCHANGED, XID
from frazil.testing.changes import write_csv

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from random import Random

FORMS: Final = ("dms_csv", "dms_parquet", "audit_csv", "audit_jsonl", "audit_parquet", "postgres")
"""The forms of files; ``postgres`` is what a capture lands."""

TEXTS: Final = (None, "", "ada", "Ünïcödé 🧊", 'say "hi"', "one, two", "two\nlines", "NULL", " blanks ", "O'Hara")
NUMBERS: Final = (None, "0", "-1", "7", "1000", "2147483647")
LONG: Final = ("2147483648", "-9000000000000000000")
SPOILED: Final = "no number"
KEYS: Final = range(1, 9)
BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_OIDS: Final = {"int": 23, "bigint": 20, "string": 25}
_ARROW: Final = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string()}

Schema = dict[str, tuple[str, str]]
"""Column -> its name at the source and its type there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A change at the source.

    Attributes:
        number: its place among all.
        op: ``I``, ``U``, ``D`` or ``T``.
        key, old_key: of the row after and before it; 0 for none.
        time: when it happened.
        values: text of each column that its record carries; None is NULL.
        spoiled: the column whose text comes wrong: ``id``, ``qty`` or none.
    """

    number: int
    op: str
    key: int
    old_key: int = 0
    time: datetime
    values: Mapping[str, str | None] = field(default_factory=dict)
    spoiled: str = ""

    @property
    def moves(self) -> bool:
        """Return whether the row has another key than before."""
        return self.op == "U" and self.old_key != self.key

    @property
    def time_text(self) -> str:
        return f"{self.time:%Y-%m-%d %H:%M:%S.%f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The events of one file in order, under one schema."""

    number: int
    schema: Schema
    events: tuple[Event, ...]


class SourceTable:
    """A table at the source; draws what happens to it."""

    def __init__(self, form: str, chance: Random, *, behind: bool, unit: timedelta = timedelta(seconds=1)) -> None:
        self.form, self.chance, self._behind, self._unit = form, chance, behind, unit
        self.schema: Schema = {"name": ("name", "string"), "qty": ("qty", "int"), "note": ("note", "string")}
        self._extra = chance.choice(("string", "int"))
        self._rows: dict[int, dict[str, str | None]] = {}
        self._clock, self._number = BEGIN, 0

    def part(self, number: int, size: int) -> Part:
        """Draw a part; from the second one on the schema may be another."""
        if number and self.chance.random() < 0.6:
            self._alter()
        told = dict(self.schema)
        if self.form.startswith("dms") and "note" in told and self.chance.random() < 0.3:
            del told["note"]  # a file that lacks a column
        events = tuple(self._event(told) for _ in range(size))
        return Part(number=number, schema=told, events=events)

    def _alter(self) -> None:
        change = self.chance.choice(("add", "add", "drop", "widen", "widen", "rename", "retype"))
        if change == "add" and "extra" not in self.schema:
            self.schema["extra"] = ("extra", self._extra)
            for row in self._rows.values():
                row["extra"] = None
        elif change == "drop" and len(self.schema) > 2:
            gone = self.chance.choice([name for name in self.schema if name != "qty"])
            del self.schema[gone]
        elif change == "widen" and self.schema["qty"][1] == "int":
            self.schema["qty"] = ("qty", "bigint")
        elif change == "rename" and "note" in self.schema:
            self.schema["note"] = ("remark", "string")
        elif change == "retype" and self.schema["qty"][1] == "bigint" and self.form in ("dms_parquet", "postgres"):
            self.schema["qty"] = ("qty", "string")

    def _event(self, told: Schema) -> Event:
        self._number += 1
        self._clock += self._unit * self.chance.randint(0, 2) + timedelta(
            microseconds=self.chance.choice((0, 1, 500_000))
        )
        time = self._clock
        if self._behind and self.chance.random() < 0.2:
            time -= self._unit * self.chance.randint(1, 10)
        event = Event(number=self._number, op="I", key=self.chance.choice(KEYS), time=time)
        if not self.form.startswith("dms") and self.chance.random() < 0.04:
            self._rows.clear()
            return replace(event, op="T", key=0)
        return self._spoiled(self._change(event, told))

    def _change(self, event: Event, told: Schema) -> Event:
        kind, free = self.chance.random(), [key for key in KEYS if key not in self._rows]
        before = self._rows.get(event.key)
        if before is None:
            self._rows[event.key] = row = {name: self._value(name) for name in self.schema}
            return replace(event, values={name: row[name] for name in told})
        if kind < 0.2:
            del self._rows[event.key]
            whole = before if self.chance.random() < 0.5 and self.form != "postgres" else dict.fromkeys(before)
            return replace(event, op="D", old_key=event.key, values={name: whole.get(name) for name in told})
        row = {name: self._value(name) if self.chance.random() < 0.5 else before.get(name) for name in self.schema}
        moves = kind < 0.4 and bool(free)
        old, new = event.key, self.chance.choice(free) if moves else event.key
        del self._rows[old]
        self._rows[new] = row
        carried = [*told]
        if not self.form.startswith("dms") and self.chance.random() < 0.4:
            same = [name for name in told if name in before and row[name] == before[name]]
            left_out = self.chance.sample(same, self.chance.randint(0, len(same)))
            carried = [name for name in told if name not in left_out]
        return replace(event, op="U", key=new, old_key=old, values={name: row[name] for name in carried})

    def _value(self, name: str) -> str | None:
        kind = self.schema[name][1]
        if name == "qty" and kind == "string":
            return self.chance.choice((*NUMBERS, "seven"))
        if kind == "string":
            return self.chance.choice(TEXTS)
        return self.chance.choice((*NUMBERS, *LONG) if kind == "bigint" else NUMBERS)

    def _spoiled(self, event: Event) -> Event:
        if self.form == "dms_parquet" or self.chance.random() > 0.15:
            return event
        column = self.chance.choice(("qty", "qty", "id"))
        possible = column == "id" or ("qty" in event.values and event.op != "D")
        return replace(event, spoiled=column) if possible else event


def fields_of(form: str, part: Part, event: Event) -> dict[str, str | None]:
    """Return the texts that a record has in the fields of the table, as they come."""
    carried = {part.schema[name][0]: text for name, text in event.values.items()}
    fields = {"id": f"{event.key}", **carried}
    if event.spoiled:
        fields[event.spoiled] = SPOILED
    return fields if form != "postgres" or event.op != "T" else dict.fromkeys(fields)


def write(form: str, folder: Path, part: Part) -> Path:
    """Write the file of a part."""
    folder.mkdir(parents=True, exist_ok=True)
    return _WRITERS[form.partition("_")[0]](form, folder, part)


def _dms(form: str, folder: Path, part: Part) -> Path:
    records = []
    for event in part.events:
        own = fields_of(form, part, event)
        old = f"{event.old_key}" if event.old_key else None
        key = {"op": event.op, "id": own.pop("id"), "ts": event.time_text}
        rest = {source: own.get(source) for source, _ in part.schema.values()}
        records.append({**key, **rest, "BI_id": old})
    path = folder / f"20260101-{part.number:09}.{form.removeprefix('dms_')}"
    if form == "dms_csv":
        path.write_bytes(write_csv(records))
        return path
    kinds = {"op": pa.string(), "id": pa.int32(), "ts": pa.timestamp("us", "UTC"), "BI_id": pa.int32()}
    kinds |= {source: _ARROW[kind] for source, kind in part.schema.values()}
    rows = [{name: _parquet_value(text, kinds[name]) for name, text in record.items()} for record in records]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema([(name, kinds[name]) for name in records[0]])), path)
    return path


def _parquet_value(text: str | None, kind: pa.DataType) -> Any:
    if text is None or pa.types.is_string(kind):
        return text
    return datetime.fromisoformat(text).replace(tzinfo=UTC) if pa.types.is_timestamp(kind) else int(text)


def _audit(form: str, folder: Path, part: Part) -> Path:
    log: list[dict[str, Any]] = []
    for event in part.events:
        row = None if event.op == "T" else json.dumps(_json_values(fields_of(form, part, event)), ensure_ascii=False)
        old = json.dumps({"id": event.old_key}) if event.old_key else None
        mine = {
            "audit_event_id": event.number,
            "audit_operation": event.op,
            "audit_timestamp": event.time_text,
            "tbl_schema": "public",
            "tbl_name": "things",
            "raw_data": row,
            "old_data": old,
        }
        log += [mine, {**mine, **OTHER}]
    path = folder / f"part-{999 - part.number}.{form.removeprefix('audit_')}"
    if form == "audit_parquet":
        pq.write_table(pa.Table.from_pylist(log), path)
    else:
        path.write_bytes((AuditLogCsv if form == "audit_csv" else AuditLogJson)._text(log))
    return path


def _json_values(fields: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the values that the JSON of a row has: numbers where they are."""
    return {
        name: int(text) if text is not None and name in ("id", "qty") and text.lstrip("-").isdigit() else text
        for name, text in fields.items()
    }


def _postgres(form: str, folder: Path, part: Part) -> Path:
    columns = {"id": "int"} | dict(part.schema.values())
    rows = []
    for event in part.events:
        own = fields_of(form, part, event)
        unchanged = [name for name in columns if name not in own] if event.op == "U" else []
        rows.append(
            {
                OP: event.op.lower(),
                POSITION: f"{hex_lsn(event.number)}-{1:010d}",
                COMMITTED_AT: event.time_text,
                XID: f"{event.number}",
                UNCHANGED: json.dumps(unchanged) if unchanged else None,
                f"{OLD}id": f"{event.old_key}" if event.moves else None,
                **{name: own.get(name) for name in columns},
            }
        )
    start, end = part.events[0].number, part.events[-1].number + 1
    types = [(_OIDS[kind], -1) for kind in columns.values()]
    schema = schema_of([*columns], types, [0], start=hex_lsn(start), end=hex_lsn(end))
    path = folder / range_name(hex_lsn(start), end, 1)
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return path


_WRITERS: Final = {"dms": _dms, "audit": _audit, "postgres": _postgres}
