"""Tables that are handed over, for tests: their declarations, what is drawn of them, and what is written of that."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.sources.audit_log import AuditLogCsv
from tests.sources.forms import DebeziumEnvelopes, DmsCsv

from frazil.spec.load.parse import parse_declaration
from frazil.testing.changes import COLUMNS, csv_field, oracle_changes, random_history
from frazil.testing.oracle import Snapshot, current, handed_over

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from frazil.spec import Pipeline
    from frazil.testing.conformance import Form
    from frazil.testing.oracle import Change

_PARTS, _SIZE, _SNAPSHOTS = 4, 50, 3
DUMPS = "{kind: snapshot, path: ./dumps, settle_seconds: 0}"
LOADS = "{kind: dms, path: ./dumps, settle_seconds: 0}"

FORMS: dict[str, tuple[str, str, Form]] = {
    "dumps and dms": (DUMPS, "time: ts", DmsCsv()),
    "loads and dms": (LOADS, "time: ts", DmsCsv(settings={})),
    "dumps and debezium": (DUMPS, "time: ts", DebeziumEnvelopes()),
    "loads and debezium": (LOADS, "time: ts", DebeziumEnvelopes()),
    "dumps and audit log": (DUMPS, "time: audit_timestamp", AuditLogCsv()),
}
"""Name -> the snapshots, the time, and what writes the changes."""


def declared(folder: Path, form: str, settings: str = "max_delete_fraction: 1, overlap_seconds: 0") -> Pipeline:
    for name in ("dumps", "landing"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    snapshots, time, changes = FORMS[form]
    columns = ", ".join(f"{{name: {name}, type: {kind}}}" for name, kind in COLUMNS.items())
    return parse_declaration(f"""
pipeline: handover
lake: {{warehouse: ./lake}}
tables:
  - name: things
    source: {{kind: handover, snapshots: {snapshots}, landing: ./copies,
      changes: {changes.source}, {time}, {settings}}}
    keys: [id]
    columns: [{columns}]
    marts: [{{kind: current}}, {{kind: current, deletes: soft, name: soft}}, {{kind: history}}]
""").at(folder)


class Drawn:
    """A changing table, its reported changes, and copies of it."""

    def __init__(self, seed: int) -> None:
        chance = Random(seed)
        records = random_history(seed, size=_SIZE)
        cuts = sorted(chance.sample(range(1, _SIZE), _PARTS - 1))
        parts = [records[start:end] for start, end in zip([0, *cuts], [*cuts, _SIZE], strict=True)]
        self.all = oracle_changes({f"{number:06}": part for number, part in enumerate(parts)})
        times = sorted({change.event_time for change in self.all})
        moments = [chance.choice(times) + timedelta(microseconds=chance.choice((0, 0, 1))) for _ in range(_SNAPSHOTS)]
        # A full load of no rows, in files without names of columns, is refused: it has no key.
        moments = [at if self._copy("", at).rows else times[-1] for at in moments]
        self.snapshots = [self._copy(f"{number}", at) for number, at in enumerate(moments)]
        lost_before = max(moments)
        # Whatever is lost before the last copy is in it.
        self.told = {
            number: [
                record
                for record in part
                if chance.random() > 0.3 or datetime.fromisoformat(f"{record['ts']}").replace(tzinfo=UTC) >= lost_before
            ]
            for number, part in enumerate(parts)
        }
        self.told = {number: part for number, part in self.told.items() if part}

    def _copy(self, name: str, at: datetime) -> Snapshot:
        name = f"{at:%Y%m%dT%H%M%S}-{name}"
        rows = current([change for change in self._ordered() if change.event_time < at], [*COLUMNS])
        return Snapshot(at, name, {(row["id"],): {column: row[column] for column in COLUMNS} for row in rows})

    def _ordered(self) -> list[Change]:
        return handed_over(self.all, [])

    def truth(self) -> list[dict[str, Any]]:
        """Return the rows that the table ends with."""
        return current(self._ordered(), [*COLUMNS])

    def expected(self) -> list[Change]:
        """Return the changes that follow by the law."""
        told = oracle_changes({f"{number:06}": part for number, part in self.told.items()})
        return handed_over(told, self.snapshots)


def write_copy(folder: Path, form: str, snapshot: Snapshot, chance: Random) -> None:
    """Write a snapshot in any of the forms that its kind has."""
    rows = [dict(values) for values in snapshot.rows.values()]
    texts = [
        {
            name: None if value is None else value if isinstance(value, str) else _text(value)
            for name, value in row.items()
        }
        for row in rows
    ]
    place = folder / "dumps" / snapshot.name
    if FORMS[form][0] == LOADS:
        place.mkdir()
        half = len(texts) // 2
        for number, some in enumerate((texts[:half], texts[half:]), start=1):
            lines = [",".join(csv_field(row[name]) for name in COLUMNS) for row in some]
            (place / f"LOAD{number:08X}.csv").write_text(
                "".join(f"{line}\n" for line in lines), encoding="utf-8", newline=""
            )
    elif chance.random() < 0.5 and texts:
        place.with_name(f"{snapshot.name}.jsonl").write_text(
            "".join(f"{json.dumps(row)}\n" for row in texts), encoding="utf-8"
        )
    else:
        place.mkdir()
        schema = pa.schema([(name, pa.string()) for name in COLUMNS])
        pq.write_table(pa.Table.from_pylist(texts, schema), place / "part.parquet")


def _text(value: object) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S.%f}" if isinstance(value, datetime) else f"{value}"


def dump(folder: Path, name: str, ids: Sequence[int]) -> None:
    (folder / "dumps").mkdir(parents=True, exist_ok=True)
    rows = [{"id": key, "ts": "2026-01-01 00:00:00", "name": "n", "qty": 1, "note": None} for key in ids]
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "dumps" / f"{name}.jsonl").write_text(text, encoding="utf-8")
