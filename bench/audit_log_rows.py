"""How many rows of an audit log a run takes to silver in a CPU second: ``python -m bench.audit_log_rows [rows]``.

A first run of few rows starts Java and makes the tables; what is measured is the second, which takes the others. CPU
seconds are those of Python and its JVM.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import frazil
from bench.meter import Meter

_DECLARATION = """\
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: audit_log, path: ./landing, table: public.orders}
    keys: [order_id]
    columns:
      - {name: order_id, type: bigint, nullable: false}
      - {name: customer_id, type: int}
      - {name: status, type: string}
      - {name: total, type: "decimal(12,2)"}
      - {name: discount, type: "decimal(5,2)"}
      - {name: quantity, type: int}
      - {name: is_gift, type: boolean}
      - {name: email, type: string}
      - {name: note, type: string}
      - {name: weight_kg, type: double}
      - {name: ordered_on, type: date}
      - {name: ordered_at, type: timestamp_ntz}
      - {name: updated_at, type: timestamp}
    marts: []
"""
_FILE_ROWS = 100_000
_FEW_ROWS = 1_000


def write_log(folder: Path, first: int, rows: int) -> None:
    """Write files as the capture of an audit log does: Parquet, all text."""
    drawn = random.Random(first)
    names = ["audit_event_id", "audit_operation", "audit_timestamp", "tbl_schema", "tbl_name", "raw_data"]
    for start in range(first, first + rows, _FILE_ROWS):
        events = range(start, min(start + _FILE_ROWS, first + rows))
        times = [f"2026-11-{1 + number % 28:02} 10:{number % 60:02}:00.{number % 1_000_000:06}" for number in events]
        documents = [_document(drawn, number, time) for number, time in zip(events, times, strict=True)]
        operations = [drawn.choice("IUU") for _ in events]
        columns = [map(str, events), operations, times, ["public"] * len(events), ["orders"] * len(events), documents]
        table = pa.Table.from_arrays([pa.array([*values], pa.string()) for values in columns], names)
        pq.write_table(table, folder / f"{start:020}.parquet", compression="zstd")


def _document(drawn: random.Random, number: int, time: str) -> str:
    row = {
        "order_id": number // 3,
        "customer_id": drawn.randrange(1_000_000),
        "status": drawn.choice(["new", "paid", "sent"]),
        "total": drawn.randrange(1_000_000) / 100,
        "discount": drawn.choice([None, 5.25, 10]),
        "quantity": drawn.randrange(1, 9),
        "is_gift": drawn.random() < 0.1,
        "email": f"customer{drawn.randrange(1_000_000)}@example.com",
        "note": drawn.choice([None, "leave it at the door", "Grüße, please ring"]),
        "weight_kg": drawn.randrange(1, 100_000) / 1000,
        "ordered_on": time[:10],
        "ordered_at": time.replace(" ", "T"),
        "updated_at": f"{time.replace(' ', 'T')}+00:00",
    }
    return json.dumps(row, ensure_ascii=False)


def main(rows: int) -> None:
    """Measure from files of an audit log to silver: 13 columns of a row in its JSON."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "landing").mkdir()
        (folder / "frazil.yml").write_text(_DECLARATION, encoding="utf-8")
        pipeline = frazil.load(folder)
        write_log(folder / "landing", 1, _FEW_ROWS)
        frazil.run(pipeline)
        write_log(folder / "landing", 1 + _FEW_ROWS, rows)
        with Meter() as meter:
            report = frazil.run(pipeline)
        [table] = report.tables
        reading = meter.reading
        assert (table.changes, table.quarantined) == (rows, 0), table
        print(
            f"{rows:,} rows: {rows / reading.cpu_s:,.0f} a CPU second, {reading.cpu_s:.1f} CPU s, "
            f"{reading.wall_s:.1f} s, of it {reading.compile_s or 0:.1f} s Java's compiler "
            f"and {reading.tasks_s or 0:.1f} s Spark's tasks; load {os.getloadavg()[0]:.1f}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
