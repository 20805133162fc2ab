"""HANDOVER: whole snapshots and changes of another kind meet in one table, in any order of arrival."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.sources.audit_log import AuditLogCsv
from tests.sources.test_conformance import DebeziumEnvelopes, DmsCsv

import frazil
from frazil.engine.report import RunFailedError
from frazil.lake.session import spark_session
from frazil.serve.check import check
from frazil.serve.query import query
from frazil.spec.parse import parse
from frazil.testing.changes import COLUMNS, csv_field, deliveries, oracle_changes, random_history
from frazil.testing.oracle import Snapshot, current, handed_over, history, soft

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline
    from frazil.testing.changes import Record
    from frazil.testing.conformance import Form
    from frazil.testing.oracle import Change

_FAILPOINTS = ("bronze.after_publish", "silver.before_publish", "silver.after_publish", "mart.before_publish")
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
    return parse(f"""
pipeline: handover
lake: {{warehouse: ./lake}}
tables:
  - name: things
    source: {{kind: handover, snapshots: {snapshots}, changes: {changes.source}, {time}, {settings}}}
    keys: [id]
    columns: [{columns}]
    marts: [{{kind: current}}, {{kind: current, deletes: soft, name: soft}}, {{kind: history}}]
""").at(folder)


class Drawn:
    """A table that changes, what is told of it, and copies of it."""

    def __init__(self, seed: int) -> None:
        chance = Random(seed)
        records = random_history(seed, size=_SIZE)
        cuts = sorted(chance.sample(range(1, _SIZE), _PARTS - 1))
        parts = [records[start:end] for start, end in zip([0, *cuts], [*cuts, _SIZE], strict=True)]
        self.all = oracle_changes({f"{number:06}": part for number, part in enumerate(parts)})
        times = sorted({change.event_time for change in self.all})
        moments = [chance.choice(times) + timedelta(microseconds=chance.choice((0, 0, 1))) for _ in range(_SNAPSHOTS)]
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
        """Return the changes that the law makes of what is told."""
        told = oracle_changes({f"{number:06}": part for number, part in self.told.items()})
        return handed_over(told, self.snapshots)


def write_copy(folder: Path, form: str, snapshot: Snapshot, chance: Random) -> None:
    """Write a snapshot in any of the forms that its kind has."""
    rows = [dict(values) for values in snapshot.rows.values()]
    texts = [
        {name: None if value is None else value if isinstance(value, str) else _text(value) for name, value in row.items()}
        for row in rows
    ]
    place = folder / "dumps" / snapshot.name
    if FORMS[form][0] == LOADS:
        place.mkdir()
        half = len(texts) // 2
        for number, some in enumerate((texts[:half], texts[half:]), start=1):
            lines = [",".join(csv_field(row[name]) for name in COLUMNS) for row in some]
            (place / f"LOAD{number:08X}.csv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    elif chance.random() < 0.5 and texts:
        place.with_name(f"{snapshot.name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in texts), encoding="utf-8")
    else:
        place.mkdir()
        schema = pa.schema([(name, pa.string()) for name in COLUMNS])
        pq.write_table(pa.Table.from_pylist(texts, schema), place / "part.parquet")


def _text(value: object) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S.%f}" if isinstance(value, datetime) else f"{value}"


def marts(pipeline: Pipeline, changes: Sequence[Change]) -> list[str]:
    """Return what differs from the oracle, and what the lake's own proofs find."""
    found = []
    tracked = ["ts", "name", "qty", "note"]
    for mart, rows, extra in (
        ("things", current(changes, [*COLUMNS]), []),
        ("soft", soft(changes, [*COLUMNS]), ["is_deleted", "deleted_at"]),
        ("things_history", history(changes, [*COLUMNS], tracked), ["valid_from", "valid_to", "is_current"]),
    ):
        names = [*COLUMNS, *extra]
        have = query(pipeline, f"SELECT {', '.join(names)} FROM marts.{mart}")
        one = sorted(repr(list(row)) for row in have.rows)
        other = sorted(repr([row[name] for name in names]) for row in rows)
        if one != other:
            found.append(f"{mart} has {[r for r in one if r not in other]}, lacks {[r for r in other if r not in one]}")
    return found + [f"{finding}" for finding in check(pipeline) if finding.ok is False]


def differences(folder: Path, form: str, seed: int, patch: pytest.MonkeyPatch) -> list[str]:
    """Let copies and changes arrive in a drawn order, some twice, with runs that die."""
    drawn, chance = Drawn(seed), Random(seed)
    pipeline = declared(folder, form)
    # As when the copies were named by a person: the exact times are declared.
    at = {f"{snapshot.name}{ending}": snapshot.at for snapshot in drawn.snapshots for ending in ("", ".jsonl")}
    [table] = pipeline.tables
    pipeline = pipeline.model_copy(
        update={"tables": (table.model_copy(update={"source": table.source.model_copy(update={"at": at})}),)}
    ).at(folder)
    # Each file is of another time, and a form that numbers its records must not number them again.
    staged = {f"c{number}": FORMS[form][2].write(_made(folder / f"c{number}"), number, part) for number, part in drawn.told.items()}
    copies = {snapshot.name: snapshot for snapshot in drawn.snapshots}
    arrived: set[str] = set()
    for names in deliveries([*staged, *copies], seed):
        for name in names:
            if name in copies and name not in arrived:
                write_copy(folder, form, copies[name], chance)
            for file in staged.get(name, ()):
                again = "again-" if name in arrived else ""
                shutil.copy(file, folder / "landing" / f"{again}{file.name}")
            arrived.add(name)
        if chance.random() < 0.4:
            patch.setenv("FRAZIL_FAILPOINT", f"{chance.choice(_FAILPOINTS)}:raise")
            with suppress(RunFailedError):
                frazil.run(pipeline, spark=spark_session(pipeline))
            patch.delenv("FRAZIL_FAILPOINT")
        frazil.run(pipeline, spark=spark_session(pipeline))
    found = marts(pipeline, drawn.expected())
    have = sorted(map(repr, query(pipeline, f"SELECT {', '.join(COLUMNS)} FROM marts.things").rows))
    if have != sorted(repr(tuple(row[name] for name in COLUMNS)) for row in drawn.truth()):
        found.append(f"{seed}: the table is not what it was at the source")
    return found


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.spark
@pytest.mark.parametrize(("form", "seed"), [("dumps and debezium", 1), ("loads and dms", 2)])
def test_snapshots_and_changes_meet(
    form: str, seed: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs

    assert differences(tmp_path, form, seed, monkeypatch) == []


@pytest.mark.spark
@pytest.mark.laws
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(100, 108))
def test_handovers_converge(
    form: str, seed: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs

    assert differences(tmp_path, form, seed, monkeypatch) == []
