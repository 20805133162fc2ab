"""Tables of dumps, handovers, shards and events, changed at random."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from tests.runner.folders import rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from random import Random

TABLE: Final = """
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: things
    source: {source}
    {more}
    columns: [{{name: id, type: int}}, {{name: ts, type: timestamp}}, {{name: name}}{shard}]
    marts: [{marts}]
    {retention}
"""
CHANGES: Final = "{kind: dms, path: ./landing, header: true, settle_seconds: 0}"
DUMPS: Final = "{kind: snapshot, path: ./dumps, settle_seconds: 0, max_delete_fraction: 1}"
BEGIN: Final = datetime(2026, 1, 1)  # noqa: DTZ001 - as files have it
DAYS: Final = 20
"""Days from one step of a table to the next."""
MARTS: Final = {
    "things": "{kind: current}",
    "soft": "{kind: current, name: soft, deletes: soft}",
    "things_history": "{kind: history}",
}
HARD, ALL = ("things",), (*MARTS,)


class Dumps:
    """A table that is dumped whole. What a row holds names its key, as in ``eu#3b``."""

    source = DUMPS
    more = "keys: [id]"
    shard = ""
    late = ("dumps/2025-11-11.jsonl", '{"id": 1, "ts": "2025-11-11 00:00:00", "name": "late"}\n')

    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.rows: dict[tuple[str, int], tuple[str, str]] = {}

    def change(self, shard: str, at: datetime) -> list[str]:
        """Change some rows; return the changes as lines."""
        lines = []
        for row in range(6):
            key, moment = self.draw.randrange(8), f"{at + timedelta(hours=row)}"
            if (shard, key) in self.rows and self.draw.random() < 0.3:
                _, name = self.rows.pop((shard, key))
                lines.append(f"D,{key},{moment},{name}")
            else:
                op, name = "U" if (shard, key) in self.rows else "I", f"{shard}#{key}{self.draw.choice('abc')}"
                self.rows[shard, key] = (moment, name)
                lines.append(f"{op},{key},{moment},{name}")
        return lines

    def deliver(self, folder: Path, step: int) -> None:
        """Let what a step brings arrive."""
        at = BEGIN + timedelta(days=DAYS * step)
        self.change("", at)
        dump(folder, at + timedelta(days=1), self.rows)


class Handover(Dumps):
    """A table with dumps, and with changes that are lost now and then before one."""

    source = (
        "{kind: handover, snapshots: {kind: snapshot, path: ./dumps, settle_seconds: 0}, "
        f"changes: {CHANGES}, time: ts, landing: ./copies, max_delete_fraction: 1}}"
    )
    late = ("landing/20251111-000000000.csv", "op,id,ts,name\nU,1,2025-11-11 00:00:00,late\n")

    def deliver(self, folder: Path, step: int) -> None:
        at = BEGIN + timedelta(days=DAYS * step)
        lines = self.change("", at)
        if step % 2 == 0:
            write(folder / "landing" / f"{at:%Y%m%d}-000000000.csv", lines[: self.draw.randrange(len(lines))])
            dump(folder, at + timedelta(days=1), self.rows)
        else:
            write(folder / "landing" / f"{at:%Y%m%d}-000000000.csv", lines)


def where(at: datetime) -> dict[str, Any]:
    """Return the source of Debezium's event of a time; places follow the times."""
    millis = int(at.replace(tzinfo=UTC).timestamp() * 1000)
    return {"connector": "postgresql", "lsn": millis, "sequence": f'["{millis}", "{millis}"]', "ts_ms": millis}


def event(op: str, key: str, ts: str, name: str) -> dict[str, Any]:
    """Return a change as Debezium writes it."""
    row = {"id": int(key), "ts": ts, "name": name}
    before, after = (row, None) if op == "D" else (None, row)
    what = {"I": "c", "U": "u", "D": "d"}[op]
    return {"op": what, "before": before, "after": after, "source": where(datetime.fromisoformat(ts))}


class Events(Dumps):
    """A table whose changes Debezium wrote; every third step empties it."""

    source = "{kind: debezium, path: ./landing, settle_seconds: 0}"
    late = ("landing/20251111.jsonl", f"{json.dumps(event('U', '1', '2025-11-11 00:00:00', 'late'))}\n")

    def deliver(self, folder: Path, step: int) -> None:
        at = BEGIN + timedelta(days=DAYS * step)
        events = [event(*line.split(",")) for line in self.change("", at)]
        if step % 3 == 1:
            self.rows.clear()
            at += timedelta(hours=len(events))
            events.append({"op": "t", "source": where(at)})
            events += [event(*line.split(",")) for line in self.change("", at + timedelta(hours=1))]
        text = "".join(f"{json.dumps(one)}\n" for one in events)
        (folder / "landing" / f"{at:%Y%m%d}.jsonl").write_text(text)


class Shards(Dumps):
    """A table in two folders."""

    source = "{{kind: sharded, shards: {{eu: {}, us: {}}}}}".format(
        *(CHANGES.replace("landing", f"landing/{shard}") for shard in ("eu", "us"))
    )
    more = "keys: [shard, id]\n    sequence_by: [ts]"
    shard = ", {name: shard}"
    late = ("landing/eu/20251111-000000000.csv", "op,id,ts,name\nU,1,2025-11-11 00:00:00,late\n")

    def deliver(self, folder: Path, step: int) -> None:
        at = BEGIN + timedelta(days=DAYS * step)
        for shard in ("eu", "us"):
            write(folder / "landing" / shard / f"{at:%Y%m%d}-000000000.csv", self.change(shard, at))


def dump(folder: Path, at: datetime, held: dict[tuple[str, int], tuple[str, str]]) -> None:
    lines = [json.dumps({"id": key, "ts": ts, "name": name}) for (_, key), (ts, name) in held.items()]
    path = folder / "dumps" / f"{at:%Y-%m-%d}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in ("op,id,ts,name", *lines)))


def declare(folder: Path, kind: type[Dumps], names: Sequence[str], retention: str) -> None:
    folder.mkdir()
    for name in ("dumps", "landing"):
        (folder / name).mkdir()
    marts = ", ".join(MARTS[name] for name in names)
    text = TABLE.format(source=kind.source, more=kind.more, shard=kind.shard, marts=marts, retention=retention)
    (folder / "frazil.yml").write_text(text)


def held(folder: Path, names: Sequence[str]) -> list[list[object]]:
    return [[*rows(folder, f"select * from marts.{name} order by all")] for name in names]
