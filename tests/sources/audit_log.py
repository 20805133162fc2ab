"""An audit log's files, with records of another table between those of ``public.things``."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from frazil.testing.changes import Record

OTHER = {"tbl_schema": "public", "tbl_name": "others", "raw_data": '{"id": 1, "size": "\\u00fc"}'}
BAD_DOCUMENTS = (None, "", "[1]", '{"id": 1', '{"id": 1, "ID": 2}', '{"id": NaN}')


def logged(record: Mapping[str, str | None], number: int) -> dict[str, Any]:
    """Return the record of a log that tells of a change."""
    row = {name: text for name, text in record.items() if name != "op"}
    numbers = {name: int(row[name] or 0) for name in ("id", "qty") if row.get(name) is not None}
    # Every fourth as json would have it, others as jsonb.
    separators = (",", ":") if number % 4 == 0 else None
    return {
        "audit_event_id": number,
        "audit_operation": record["op"],
        "audit_timestamp": record["ts"],
        "tbl_schema": "public",
        "tbl_name": "things",
        "raw_data": json.dumps({**row, **numbers}, separators=separators, ensure_ascii=number % 3 == 0),
    }


@dataclass(frozen=True)
class AuditLogCsv:
    """CSV files whose names say nothing of their order."""

    source: str = "{kind: audit_log, path: ./landing, table: public.things}"

    ending = ".csv"

    def write(self, landing: Path, number: int, records: Sequence[Record]) -> list[Path]:
        log: list[dict[str, Any]] = []
        for row, record in enumerate(records):
            mine = logged(record, 1_000_000 * number + 2 * row)
            log += [mine, {**mine, **OTHER, "audit_event_id": mine["audit_event_id"] + 1}]
        file = landing / f"part-{999 - number}{self.ending}"
        file.write_bytes(self._text(log))
        return [file]

    def spoil(self, file: Path) -> int:
        log = [_bad(number, document) for number, document in enumerate(BAD_DOCUMENTS)]
        with file.open("ab") as end:
            end.write(self._text(log).split(b"\n", 1)[1])
            end.write(b"1,I,2026-01-01,public,things,\xff\n1,I\n,I,2026-01-01 00:00:00,public,things,{}\n")
        return len(log) + 3

    @staticmethod
    def _text(log: Sequence[Mapping[str, Any]]) -> bytes:
        text = io.StringIO()
        writer = csv.DictWriter(text, [*log[0]], lineterminator="\n")
        writer.writeheader()
        writer.writerows(log)
        return text.getvalue().encode()


def _bad(number: int, document: str | None) -> dict[str, Any]:
    return {**logged({"op": "U", "id": "1", "ts": "2026-01-01 00:00:00"}, 10**9 + number), "raw_data": document}


class AuditLogJson(AuditLogCsv):
    """JSON lines; some have the row as an object, not as text."""

    ending = ".jsonl"

    def spoil(self, file: Path) -> int:
        log = [_bad(number, document) for number, document in enumerate(BAD_DOCUMENTS)]
        with file.open("ab") as end:
            end.write(self._text(log) + b'{"audit_event_id": \n\xff\n')
        return len(log) + 2

    @staticmethod
    def _text(log: Sequence[Mapping[str, Any]]) -> bytes:
        lines = []
        for number, record in enumerate(log):
            is_object = number % 3 == 0 and isinstance(record["raw_data"], str) and record["raw_data"].endswith("}")
            row = (
                json.loads(record["raw_data"]) if is_object and "NaN" not in record["raw_data"] else record["raw_data"]
            )
            lines.append(f"{json.dumps({**record, 'raw_data': row})}\n".encode())
        return b"".join(lines)


class AuditLogParquet(AuditLogCsv):
    """Parquet files with types."""

    ending = ".parquet"

    def write(self, landing: Path, number: int, records: Sequence[Record]) -> list[Path]:
        log = [logged(record, 1_000_000 * number + 2 * row) for row, record in enumerate(records)]
        others = [{**record, **OTHER} for record in log]
        file = landing / f"part-{999 - number}.parquet"
        pq.write_table(pa.Table.from_pylist([one for pair in zip(log, others, strict=True) for one in pair]), file)
        return [file]

    def spoil(self, file: Path) -> int:
        log = [_bad(number, document) for number, document in enumerate(BAD_DOCUMENTS)]
        rows = pq.read_table(file)
        pq.write_table(pa.concat_tables([rows, pa.Table.from_pylist(log, rows.schema)]), file)
        return len(log)
