"""The forms in which every kind of source gives its changes, written for tests."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.sources.audit_log import AuditLogCsv, AuditLogJson, AuditLogParquet
from tests.sources.tiny import TinyForm

from frazil.sources.postgres.landed.files import schema_of
from frazil.sources.postgres.landed.landing import hex_lsn, range_name
from frazil.spec.model.kinds.postgres import COMMITTED_AT, OLD, OP, POSITION, UNCHANGED, XID
from frazil.testing.changes import COLUMNS, write_csv
from frazil.testing.conformance import arrivals_of, changes_of
from frazil.testing.oracle import current, handed_over

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from frazil.testing.changes import Record
    from frazil.testing.conformance import Form

NOT_UTF8 = b"U,1,2026-01-01 00:00:00.000000,\xff,1,x\n"


@dataclass(frozen=True)
class DmsCsv:
    """CSV files, plain or compressed, with a header or without."""

    settings: dict[str, Any] = field(default_factory=lambda: {"header": "true"})
    ending: str = ".csv"

    @property
    def source(self) -> str:
        settings = "".join(f", {name}: {value}" for name, value in self.settings.items())
        return f"{{kind: dms, path: ./landing, settle_seconds: 0{settings}}}"

    def write(self, landing: Path, number: int, records: Sequence[Record]) -> list[Path]:
        file = landing / f"20260101-{number:09}{self.ending}"
        self._put(file, write_csv(records, header="header" in self.settings))
        return [file]

    def spoil(self, file: Path) -> int:
        text = gzip.decompress(file.read_bytes()) if self.ending.endswith(".gz") else file.read_bytes()
        self._put(file, text + NOT_UTF8 + b'U,1,2026-01-01 00:00:00.000000,"a"b,1,x\nU,too few\n')
        return 3

    def _put(self, file: Path, text: bytes) -> None:
        file.write_bytes(gzip.compress(text, mtime=0) if self.ending.endswith(".gz") else text)


@dataclass(frozen=True)
class DmsSequenced(DmsCsv):
    """Files in any order of names, whose records have a change sequence."""

    settings: dict[str, Any] = field(default_factory=lambda: {"header": "true", "change_seq": "seq"})

    def write(self, landing: Path, number: int, records: Sequence[Record]) -> list[Path]:
        numbered = [{**record, "seq": f"{number * 1_000 + row}"} for row, record in enumerate(records)]
        file = landing / f"20260101-{999_999_999 - number:09}.csv"
        self._put(file, write_csv(numbered))
        return [file]


@dataclass(frozen=True)
class DmsTransactions(DmsCsv):
    """Files with records of many tables."""

    settings: dict[str, Any] = field(
        default_factory=lambda: {"cdc_path": "./landing/cdc", "cdc_table": "public.things"}
    )

    def write(self, landing: Path, number: int, records: Sequence[Record]) -> list[Path]:
        lines = []
        for record in records:
            op, *fields = record.items()
            ours = dict([op, ("table", "things"), ("schema", "public"), *fields])
            lines += [ours, {**ours, "table": "others"}]
        (landing / "cdc").mkdir(exist_ok=True)
        file = landing / "cdc" / f"20260101-{number:09}.csv"
        self._put(file, write_csv(lines, header=False))
        return [file]

    def spoil(self, file: Path) -> int:
        self._put(file, file.read_bytes() + b"U,things,public,1,2026-01-01 00:00:00,\xff,1,x\nU,things,public,few\n")
        return 2


@dataclass(frozen=True)
class DmsParquet:
    """Parquet files."""

    source: str = "{kind: dms, path: ./landing, format: parquet, settle_seconds: 0}"

    def write(self, landing: Path, number: int, records: Sequence[Record]) -> list[Path]:
        file = landing / f"20260101-{number:09}.parquet"
        pq.write_table(pa.Table.from_pylist([{**record} for record in records], _schema(records)), file)
        return [file]

    def spoil(self, file: Path) -> int:
        rows = pq.read_table(file)
        # A text that is not UTF-8, as some writers let pass.
        values = [b"\xff" if name == "name" else b"1" for name in rows.column_names]
        bad = [pa.array([value], pa.binary()).view(pa.string()) for value in values]
        pq.write_table(pa.concat_tables([rows, pa.table(bad, rows.schema)]), file)
        return 1


@dataclass(frozen=True)
class DebeziumEnvelopes:
    """Envelopes as Debezium writes them for PostgreSQL, with a schema or without, in files of any names."""

    with_schema: bool = False
    source: str = "{kind: debezium, path: ./landing, table: public.things, settle_seconds: 0}"

    def write(self, landing: Path, number: int, records: Sequence[Record]) -> list[Path]:
        file = landing / f"{999 - number}.jsonl"
        lines: list[str] = []
        for row, record in enumerate(records):
            op, image = record["op"], self._image(record)
            # Two records a transaction, its first one written before the commit before it.
            commit = (number + 1) * 1_000_000 + row // 2 * 100
            lsn = commit - 50 + row % 2
            source = {"schema": "public", "table": "things", "lsn": lsn, "sequence": f'["{commit}","{lsn}"]'}
            sides = {"before": image, "after": None} if op == "D" else {"before": None, "after": image}
            payload = {**sides, "source": source, "op": {"D": "d", "I": "c", "U": "u"}[f"{op}"]}
            other = {**payload, "source": {**source, "table": "others"}}
            lines += [self._line(payload), self._line(other), "null"]
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return [file]

    def spoil(self, file: Path) -> int:
        with file.open("ab") as end:
            end.write(b'{"op": "c", "after": \n[1]\n{"id": 1}\n\xff\n')
            source = b'"source": {"schema": "public", "table": "things", "lsn": 1}'
            end.write(b'{"op": "x", "after": {"id": 1, "ts": "2026-01-01 00:00:00"}, ' + source + b"}\n")
        return 5

    def _image(self, record: Record) -> dict[str, Any]:
        numbers = {name: None if record[name] is None else int(record[name] or 0) for name in ("id", "qty")}
        rest: dict[str, Any] = {name: record[name] for name in ("ts", "name", "note")}
        if self.with_schema:
            moment = datetime.fromisoformat(rest["ts"]).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
            rest["ts"] = moment // timedelta(microseconds=1)
        return {**numbers, **rest}

    def _line(self, payload: dict[str, Any]) -> str:
        if not self.with_schema:
            return json.dumps(payload)
        kinds = {"id": "int32", "qty": "int32", "ts": "int64", "name": "string", "note": "string"}
        time = {"ts": {"name": "io.debezium.time.MicroTimestamp"}}
        row = [{"field": name, "type": kind, **time.get(name, {})} for name, kind in kinds.items()]
        sides = [{"field": side, "type": "struct", "fields": row} for side in ("before", "after")]
        return json.dumps({"schema": {"type": "struct", "fields": sides}, "payload": payload})


@dataclass(frozen=True)
class DebeziumMessages(DebeziumEnvelopes):
    """Messages of a topic with their keys, deletes as key alone behind a row, tombstones behind them."""

    def write(self, landing: Path, number: int, records: Sequence[Record]) -> list[Path]:
        [plain] = super().write(landing, number, records)
        file = landing / f"{999 - number}.jsonl.gz"
        lines: list[str] = []
        for line in plain.read_text(encoding="utf-8").splitlines():
            if (value := json.loads(line)) is not None:
                key = json.dumps({"id": (value["before"] or value["after"])["id"]})
                at = {"topic": "t", "partition": 0, "offset": number * 1_000_000 + len(lines), "key": key}
                lines.append(json.dumps({**at, "value": line}))
        plain.unlink()
        file.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))
        return [file]

    def spoil(self, file: Path) -> int:
        text = gzip.decompress(file.read_bytes()) + b'{"key": null, "value": "{"}\n{"key": 1, "value": 1}\n'
        file.write_bytes(gzip.compress(text, mtime=0))
        return 2


@dataclass(frozen=True)
class PostgresLanding:
    """Landing files of a capture of PostgreSQL, its records in transactions of two."""

    source: str = "{kind: postgres, url: postgresql://nobody, table: things, landing: ./landing}"

    def write(self, landing: Path, number: int, records: Sequence[Record]) -> list[Path]:
        start, end = ((number + place) * 1_000_000 for place in (1, 2))
        folder = landing / "public.things"
        folder.mkdir(exist_ok=True)
        rows = []
        for row, record in enumerate(records):
            values = {name: text for name, text in record.items() if name != "op"}
            place = f"{hex_lsn(start + row // 2)}-{row % 2 + 1:010d}"
            own = {OP: f"{record['op']}".lower(), POSITION: place, COMMITTED_AT: values["ts"], XID: f"{row // 2}"}
            rows.append({**own, UNCHANGED: None, f"{OLD}id": None, **values})
        schema = schema_of([*POSTGRES_TYPES], [*POSTGRES_TYPES.values()], [0], start=hex_lsn(start), end=hex_lsn(end))
        file = folder / range_name(hex_lsn(start), end, 1)
        pq.write_table(pa.Table.from_pylist(rows, schema), file)
        return [file]

    def spoil(self, file: Path) -> int:
        rows = pq.read_table(file)
        # Of a database without an encoding.
        values = [b"\xff" if name == "name" else rows[name][-1].as_py() for name in rows.column_names]
        bad = [pa.array([value], pa.binary()).view(pa.string()) for value in values]
        pq.write_table(pa.concat_tables([rows, pa.table(bad, rows.schema)]), file)
        return 1


POSTGRES_TYPES = {"id": (23, -1), "ts": (1114, -1), "name": (25, -1), "qty": (23, -1), "note": (25, -1)}
"""Column -> number and modifier of its type."""


@dataclass(frozen=True)
class Handover:
    """Changes of a kind, and true copies of the table at three moments, two of them with older changes.

    The changes contain everything in the copies, so they alone give the same result.
    """

    changes: Form
    time: str = "time: ts"
    seed: int = 0

    @property
    def source(self) -> str:
        snapshots = "{kind: snapshot, path: ./dumps, settle_seconds: 0}"
        return (
            f"{{kind: handover, snapshots: {snapshots}, changes: {self.changes.source}, {self.time}, "
            "landing: ./copies, overlap_seconds: 0, max_delete_fraction: 1}"
        )

    def write(self, landing: Path, number: int, records: Sequence[Record]) -> list[Path]:
        everything = handed_over(changes_of(arrivals_of(self.seed)), [])
        times = sorted(change.event_time for change in everything)
        # Of the beginning with what comes last, and the other way round.
        at = times[len(times) * (3 - number) // 4]
        dumps = landing.parent / "dumps"
        dumps.mkdir(exist_ok=True)
        if number != 1:
            rows = current([change for change in everything if change.event_time < at], [*COLUMNS])
            texts = [{name: None if row[name] is None else f"{row[name]}" for name in COLUMNS} for row in rows]
            place = dumps / f"{at:%Y-%m-%dT%H%M%S.%fZ}"
            place.mkdir()
            schema = pa.schema([(name, pa.string()) for name in COLUMNS])
            pq.write_table(pa.Table.from_pylist(texts, schema), place / "rows.parquet")
        return self.changes.write(landing, number, records)

    def spoil(self, file: Path) -> int:
        return self.changes.spoil(file)


def _schema(records: Sequence[Record]) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in records[0]])


FORMS: dict[str, Form] = {
    "dms csv": DmsCsv(),
    "dms csv without header": DmsCsv(settings={}),
    "dms csv, compressed": DmsCsv(ending=".csv.gz"),
    "dms change sequence": DmsSequenced(),
    "dms transactions": DmsTransactions(),
    "dms parquet": DmsParquet(),
    "debezium": DebeziumEnvelopes(),
    "debezium with schema": DebeziumEnvelopes(with_schema=True),
    "debezium messages": DebeziumMessages(),
    "postgres": PostgresLanding(),
    "tiny": TinyForm(),
    "audit log csv": AuditLogCsv(),
    "audit log json lines": AuditLogJson(),
    "audit log parquet": AuditLogParquet(),
    "handover to dms": Handover(DmsCsv()),
    "handover to debezium": Handover(DebeziumEnvelopes()),
    "handover to an audit log": Handover(AuditLogCsv(), time="time: audit_timestamp"),
}
