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
import yaml
from tests.sources.audit_log import AuditLogCsv
from tests.sources.test_conformance import DebeziumEnvelopes, DmsCsv

import frazil
from frazil import api
from frazil.engine.report import RunFailedError
from frazil.errors import DeclarationError
from frazil.lake.session import spark_session
from frazil.serve.check import check
from frazil.serve.query import query
from frazil.sources.handover.capture import TakenFieldError, UnknownTimeError, captures
from frazil.sources.handover.rows import compared_table
from frazil.sources.kinds import rows_at_source, source_of
from frazil.sources.snapshot.capture import BadKeyError
from frazil.sources.snapshot.dumps import UnreadableDumpError
from frazil.spec.kinds.handover import Handover
from frazil.spec.parse import parse
from frazil.testing.changes import COLUMNS, csv_field, deliveries, oracle_changes, random_history
from frazil.testing.oracle import Snapshot, current, handed_over, history, soft

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline
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
    source: {{kind: handover, snapshots: {snapshots}, landing: ./copies,
      changes: {changes.source}, {time}, {settings}}}
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
        """Return the changes that the law makes of what is told."""
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
    staged = {
        f"c{number}": FORMS[form][2].write(_made(folder / f"c{number}"), number, part)
        for number, part in drawn.told.items()
    }
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
@pytest.mark.long
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


def dump(folder: Path, name: str, ids: Sequence[int]) -> None:
    (folder / "dumps").mkdir(parents=True, exist_ok=True)
    rows = [{"id": key, "ts": "2026-01-01 00:00:00", "name": "n", "qty": 1, "note": None} for key in ids]
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "dumps" / f"{name}.jsonl").write_text(text, encoding="utf-8")


def change(folder: Path, number: int, lines: Sequence[str]) -> None:
    (folder / "landing").mkdir(parents=True, exist_ok=True)
    text = "op,id,ts,name,qty,note\n" + "".join(f"{line}\n" for line in lines)
    (folder / "landing" / f"20260101-{number:09}.csv").write_text(text, encoding="utf-8")


def run(pipeline: Pipeline) -> None:
    frazil.run(pipeline, spark=spark_session(pipeline))


def ids(pipeline: Pipeline) -> list[int]:
    return [key for (key,) in query(pipeline, "SELECT id FROM marts.things ORDER BY id").rows]


@pytest.mark.spark
@pytest.mark.long
def test_a_snapshot_that_would_delete_too_much_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    usual = declared(tmp_path, "dumps and dms", "max_delete_fraction: 0.2")
    dump(tmp_path, "2026-01-01", range(20))
    # Ten more came, and ten of the first went: half of what the first snapshot had is not missed.
    change(tmp_path, 1, [f"I,{key},2026-01-02 00:00:00,n,1," for key in range(20, 30)])
    change(tmp_path, 2, [f"D,{key},2026-01-02 00:00:00,,," for key in range(10)])
    run(usual)
    dump(tmp_path, "2026-01-03", range(10, 28))
    run(usual)
    assert ids(usual) == [*range(10, 28)]

    dump(tmp_path, "2026-01-04", range(10, 14))
    with pytest.raises(RunFailedError) as refused:
        run(usual)

    assert [error.code for error in refused.value.report.errors] == ["FZ402"]
    assert "lacks 14 of 18 rows" in f"{refused.value}"
    assert ids(usual) == [*range(10, 28)]

    without = declared(tmp_path, "dumps and dms", "max_delete_fraction: 0.2, leave_out: [2026-01-04.jsonl]")
    run(without)
    assert ids(without) == [*range(10, 28)]
    assert [row[0] for row in query(without, "SELECT DISTINCT rule FROM silver.things_quarantine").rows] == ["record"]

    run(declared(tmp_path, "dumps and dms", "max_delete_fraction: 0.8"))
    assert ids(usual) == [*range(10, 14)]
    run(usual)
    api.rebuild(usual, spark=spark_session(usual))
    assert ids(usual) == [*range(10, 14)]
    assert [f"{finding}" for finding in check(usual) if finding.ok is False] == []


@pytest.mark.spark
def test_a_change_needs_a_time(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    pipeline = declared(tmp_path, "dumps and dms", "max_delete_fraction: 1, overlap_seconds: 3600")
    dump(tmp_path, "2026-01-02T0000", [1, 2, 3])
    change(
        tmp_path,
        1,
        [
            "U,1,2026-01-01 23:30:00,within the overlap,1,",
            "U,2,2026-01-01 22:30:00,before,1,",
            "U,3,2026-01-02T01:00:00+02:00,in another zone,1,",
            "U,3,soon,no time,1,",
            "D,3,,,,",
        ],
    )

    run(pipeline)

    assert query(pipeline, "SELECT id, name FROM marts.things ORDER BY id").rows == [
        (1, "within the overlap"),
        (2, "n"),
        (3, "in another zone"),
    ]
    found = query(pipeline, "SELECT reason FROM silver.things_quarantine").rows
    assert found == [("no time in ts",), ("no time in ts",)]


def test_nothing_is_landed_of_a_snapshot_whose_time_is_unknown(tmp_path: Path) -> None:
    [table] = declared(tmp_path, "dumps and dms").tables
    [capture] = captures(declared(tmp_path, "dumps and dms"), [table])
    dump(tmp_path, "rows", [1])

    with pytest.raises(UnknownTimeError, match=r"nothing says when snapshot rows\.jsonl was taken"):
        capture.land(tmp_path, lambda _: None)

    (tmp_path / "dumps" / "rows.jsonl").rename(tmp_path / "dumps" / "2999-01-01.jsonl")
    with pytest.raises(UnknownTimeError, match="and its files are from"):
        capture.land(tmp_path, lambda _: None)
    assert not (tmp_path / "copies").exists()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"id": 1}\n{"id": 1}\n', BadKeyError),
        ('{"id": 1}\n{"id": \n', UnreadableDumpError),
        ('{"id": 1, "__at": 1}\n', TakenFieldError),
        ('{"name": 1}\n', BadKeyError),
    ],
)
def test_a_snapshot_that_cannot_be_right_is_refused(text: str, error: type[Exception], tmp_path: Path) -> None:
    pipeline = declared(tmp_path, "dumps and dms")
    [capture] = captures(pipeline, pipeline.tables)
    (tmp_path / "dumps" / "2026-01-01.jsonl").write_text(text, encoding="utf-8")

    with pytest.raises(error):
        capture.land(tmp_path, lambda _: None)
    assert not [*(tmp_path / "copies").rglob("*.parquet")]


@pytest.mark.parametrize("form", FORMS)
def test_nothing_of_a_handover_is_plain(form: str, tmp_path: Path) -> None:
    """What is typed without Spark would not know of a snapshot in the same batch."""
    [table] = declared(tmp_path, form).tables
    fields = ("__at", "__snapshot", "__snapshot_step", "audit_event_id", "audit_operation", "raw_problem", *COLUMNS)

    assert source_of(table).meaning({name: name for name in fields}, "_cdc_position").plain is None


@pytest.mark.parametrize(
    ("snapshots", "changes", "compared"),
    [
        ("{kind: snapshot, path: ./dumps}", "{kind: dms, path: ./landing}", None),
        ("{kind: snapshot, url: x, table: y, every_minutes: 1}", "{kind: dms, path: ./landing}", "snapshot"),
        (
            "{kind: snapshot, url: x, table: y, every_minutes: 1}",
            "{kind: audit_log, url: x, log: l, table: y}",
            "audit_log",
        ),
        ("{kind: dms, path: ./loads}", "{kind: audit_log, url: x, log: l, table: y}", "audit_log"),
        ("{kind: dms, path: ./loads}", "{kind: audit_log, path: ./landing, table: y}", None),
    ],
)
def test_a_handover_is_compared_where_one_of_its_parts_has_a_table(
    snapshots: str, changes: str, compared: str | None, tmp_path: Path
) -> None:
    if "url: x, log" in changes:
        changes = changes.replace("}", ", landing: ./log}")
    [table] = declared(tmp_path, "dumps and dms").tables
    given = {
        **table.source.model_dump(mode="json"),
        "snapshots": yaml.safe_load(snapshots),
        "changes": yaml.safe_load(changes),
    }
    table = table.model_copy(update={"source": Handover.model_validate(given)})
    part, elsewhere = compared_table(table), table.source.landed_in("/elsewhere")

    assert (part and part.source.kind) == compared
    assert (rows_at_source(table) is None) == (compared is None)
    assert (elsewhere is not None) == ("url: x, log" in changes)
    if elsewhere is not None:
        assert elsewhere.changes.landing == "/elsewhere"
        assert elsewhere.landing.startswith("/elsewhere/")


def test_a_snapshot_is_landed_once(tmp_path: Path) -> None:
    pipeline = declared(tmp_path, "dumps and dms")
    [capture] = captures(pipeline, pipeline.tables)
    dump(tmp_path, "2026-01-01", [1, 2])
    dump(tmp_path, "2026-01-02", [1, 2])

    assert capture.land(tmp_path, lambda _: None).records == 6
    assert capture.land(tmp_path, lambda _: None).files == 0


@pytest.mark.parametrize(
    ("part", "other", "problem"),
    [
        ("keys: [id]", "keys: [id]\n    sequence_by: [ts]", "has sequence_by"),
        ("time: ts, ", "", "nothing says when a change"),
        ("columns: [", 'columns: ["*", ', "declares no columns of its own"),
        ("path: ./dumps", "path: ./dumps, landing: ./x", "landing of the snapshots"),
        ("{kind: snapshot, path: ./dumps, settle_seconds: 0}", "{kind: snapshot, url: x, table: y}", "at every run"),
        ("landing: ./copies", "landing: ./landing/copies", "lies in one folder with changes"),
        ("path: ./dumps", "path: ./copies/things", "lie in one folder with copies"),
        (DUMPS, "{kind: dms, path: [./a, ./b]}", "are not in one folder"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused(part: str, other: str, problem: str) -> None:
    text = """
pipeline: handover
lake: {warehouse: ./lake}
tables:
  - name: things
    source:
      {kind: handover, snapshots: SNAPSHOTS, time: ts, landing: ./copies,
      changes: {kind: dms, path: ./landing, header: true}}
    keys: [id]
    columns: [{name: id, type: int}, {name: ts, type: timestamp}]
""".replace("SNAPSHOTS", DUMPS)
    parse(text)

    with pytest.raises(DeclarationError, match=problem):
        parse(text.replace(part, other))
