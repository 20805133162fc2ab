"""Whether Arrow or Spark types a batch, silver and quarantine are the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

import frazil
from frazil.lake.refs import head
from frazil.plan.policy import Policy
from frazil.runner.batch.batch_stats import number_of
from frazil.runner.options import RunOptions
from frazil.runner.report import RunFailedError
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DECLARATION: Final = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: things
    source: {kind: audit_log, path: ./landing, table: things}
    keys: [id]
    sequence_by: [changed_at]
    columns:
      - {name: id, type: bigint}
      - {name: amount, type: "decimal(12,2)"}
      - {name: name, type: string, nullable: false, on_violation: quarantine}
      - {name: changed_at, type: timestamp}
    marts: [{kind: current}]
"""
USUAL: Final = [
    f'{{"id": {number}, "amount": {number}.5, "name": "n{number}", "changed_at": "2026-01-01T00:00:{number:02}+00:00"}}'
    for number in range(20)
]
OTHERS: Final = [
    '{"id": 30, "amount": 1e2, "name": "an exponent", "changed_at": "2026-01-01 00:00"}',
    '{"id": 31, "amount": 1.005, "name": "too many digits", "changed_at": "2026-01-01T00:00:00"}',
    '{"id": null, "amount": 1, "name": "no key", "changed_at": "2026-01-01T00:00:00"}',
    '{"id": 9223372036854775807, "amount": null, "name": "\\ud83d\\ude00", "changed_at": "2026-01-01T00:00:00Z"}',
    '{"id": 33, "amount": 1, "name": null, "changed_at": "2026-01-01T00:00:00Z"}',
    '{"id": 34, "changed_at": "2026-01-01T00:00:00Z", "name": "no amount"}',
    '{"id": 35, "amount": 1, "name": "twice", "ID": 36, "changed_at": "2026-01-01T00:00:00Z"}',
    '{"id": 37, "amount": 1, "name": "half a pair \\ud83d", "changed_at": "2026-01-01T00:00:00Z"}',
    '{"id": 38, "amount": 1, "name": "no number of a record", "changed_at": "2026-01-01T00:00:00Z"}',
    "[1]",
]


def land(folder: Path, first: int, documents: list[str], ops: str) -> None:
    records = [
        {
            "audit_event_id": "none" if "no number" in document else first + number,
            "audit_operation": ops[number % len(ops)],
            "audit_timestamp": "2026-01-01 00:00:00",
            "tbl_name": "things",
            "raw_data": document,
        }
        for number, document in enumerate(documents)
    ]
    (folder / "landing" / f"{first}.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))


def rows_of(session: SparkSession, table: str) -> list[Any]:
    rows = session.table(f"lake.silver.things_{table}").drop("_cdc_arrived_at")
    return sorted(map(repr, rows.collect()))


WAYS: Final = (
    Policy(reader="driver", plain=False),
    Policy(reader="driver"),
    Policy(reader="stream"),
    Policy(reader="stream", plain_bytes=1),
)
"""The first one makes all changes by Spark, the last one makes those of Arrow twice."""


@pytest.mark.long
def test_arrow_and_spark_make_the_same_changes(tmp_path: Path, spark: SparkSession) -> None:
    del spark  # only there so that Java runs
    made: list[tuple[list[str], list[str], int]] = []
    for number, policy in enumerate(WAYS):
        folder = tmp_path / f"{number}"
        (folder / "landing").mkdir(parents=True)
        (folder / "frazil.yml").write_text(DECLARATION)
        pipeline = frazil.load(folder)
        plain = []
        for first, documents, ops in ((1000, USUAL[:10], "IU"), (2000, [*USUAL, *OTHERS], "U"), (3000, USUAL, "Ux D")):
            land(folder, first, documents, ops)
            session = spark_session(pipeline)
            frazil.run(pipeline, spark=session, options=RunOptions(policy=policy))
            summary = head(session, "lake.silver.things_changes").summary
            plain.append(summary.get("frazil.plain"))
        made.append(
            (rows_of(session, "changes"), rows_of(session, "quarantine"), session.table("lake.marts.things").count())
        )
        assert plain == (["10", "21", None] if policy.plain else [None] * 3)

    assert all(one == made[0] for one in made)
    assert len(made[0][1]) == 7 + 10


DMS: Final = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: things
    source: {kind: dms, path: ./landing, header: true}
    keys: [id]
    sequence_by: [at]
    columns:
      - {name: id, type: int}
      - {name: at, type: timestamp}
      - {name: status, accepted_values: [new, paid], nullable: false}
      - {name: code, pattern: "^[A-Z]{2}[0-9]+$", max_length: 4}
      - {name: total, type: "decimal(9,2)", min: 0, on_violation: warn}
      - {name: part, type: "decimal(9,2)"}
      - name: "*"
    rules:
      - {name: sum, expr: "part <= total"}
      - {name: quotient, expr: "100 / part < 200", on_violation: warn}
    marts: [{kind: current}, {kind: history}]
"""
LOAD: Final = [
    "id,at,status,code,total,part",
    "1,2026-01-01 00:00:00,new,AB1,5,1",
    "2,2026-01-01 00:00:00,new,AB2,5,5.00",
]
FILES: Final = (
    ("LOAD00000001.csv", LOAD),
    (
        "20260102-000000000.csv",
        [
            "op,id,at,status,code,total,part",
            "U,1,2026-01-02 00:00:00,paid,AB11,6,2",
            "u,2,2026-01-02 00:00:00,paid,AB2,6,2",  # not as usual, but known
            "I,3,2026-01-02 00:00:00,lost,AB3,1,1",
            "I,4,2026-01-02 00:00:00,new,ab4,1,1",
            "I,5,2026-01-02 00:00:00,new,AB555,1,1",
            "I,6,2026-01-02 00:00:00,new,AB6,1,2",
            "I,7,2026-01-02 00:00:00,new,AB7,-1,-1",
            "I,8,2026-01-02 00:00:00,new,AB8,1,0",
            "I,9,2026-01-02 00:00:00,new,,1,",
            "D,1,2026-01-03 00:00:00,,,,",
            "D,6,2026-01-03 00:00:00,lost,x,-1,7",
            "X,7,2026-01-03 00:00:00,new,AB7,1,1",
            ",8,2026-01-03 00:00:00,new,AB7,1,1",
            "I,1e1,2026-01-03 00:00:00,new,AB7,1,1",
            "I,11,2026-01-03,new,AB7,1,1",
        ],
    ),
    (
        "20260103-000000000.csv",
        ["op,id,at,status,code,total,part,city", "I,20,2026-01-03 00:00:00,new,AB1,5,5,Oslo"],
    ),
    ("20260104-000000000.csv", ["op,id,at,status,code,total,part", "U,20,2026-01-04 00:00:00,paid,AB1,5,5"]),
)
KILLED: Final = ["op,id,at,status,code,total,part,city", "U,20,2026-01-05 00:00:00,paid,AB1,5,5,Rome"]
WIDER: Final = ["op,id,at,status,code,total,part,city,zip", "U,1,2026-01-06 00:00:00,paid,AB1,5,5,Rome,00100"]
TOGETHER: Final = ((0,), (1,), (2, 3))


@pytest.mark.long
def test_files_of_dms_with_rules_become_the_same_changes(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark
    made: list[tuple[Any, ...]] = []
    for number, policy in enumerate(WAYS):
        folder = tmp_path / f"{number}"
        (folder / "landing").mkdir(parents=True)
        (folder / "frazil.yml").write_text(DMS)
        pipeline, plain, told = frazil.load(folder), [], []
        for some in TOGETHER:
            for name, lines in (FILES[one] for one in some):
                (folder / "landing" / name).write_text("\n".join([*lines, ""]))
            session = spark_session(pipeline)
            [report] = frazil.run(pipeline, spark=session, options=RunOptions(policy=policy)).tables
            plain.append(head(session, "lake.silver.things_changes").summary.get("frazil.plain"))
            told.append((report.changes, report.quarantined, report.broken_rules, report.warnings))
        # A run dies between bronze and silver, and the next file has one more column.
        (folder / "landing" / "20260105-000000000.csv").write_text("\n".join([*KILLED, ""]))
        monkeypatch.setenv("FRAZIL_FAILPOINT", "bronze.after_publish:raise")
        with pytest.raises(RunFailedError, match="FailpointReached"):
            frazil.run(pipeline, spark=spark_session(pipeline), options=RunOptions(policy=policy))
        monkeypatch.delenv("FRAZIL_FAILPOINT")
        (folder / "landing" / "20260106-000000000.csv").write_text("\n".join([*WIDER, ""]))
        session = spark_session(pipeline)
        frazil.run(pipeline, spark=session, options=RunOptions(policy=policy))
        plain.append(head(session, "lake.silver.things_changes").summary.get("frazil.plain"))
        marts = [
            sorted(map(repr, session.table(f"lake.marts.{name}").collect())) for name in ("things", "things_history")
        ]
        made.append((rows_of(session, "changes"), rows_of(session, "quarantine"), marts, told))
        # What breaks a rule or has an unusual form is Spark's.
        assert plain == (["2", "4", "2", "1"] if policy.plain else [None] * 4)

    assert all(one == made[0] for one in made)
    assert made[0][3][1][2] == {"min of total": 1, "quotient": 1}


@pytest.mark.long
def test_dumps_become_the_same_changes(tmp_path: Path, spark: SparkSession) -> None:
    del spark
    made = []
    for number, policy in enumerate(WAYS):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        (folder / "frazil.yml").write_text(
            "pipeline: shop\nlake: {warehouse: ./lake}\ntables:\n  - name: things\n"
            "    source: {kind: snapshot, path: ./dumps, settle_seconds: 0, max_delete_fraction: 1}\n    keys: [id]\n"
            "    columns: [{name: id, type: int}, {name: city, max_length: 6}]\n    marts: [{kind: history}]\n"
        )
        pipeline = frazil.load(folder)
        for day, lines in enumerate((["1,Oslo", "2,Rome"], ["1,Bergen", "3,Kristiansand"], ["3,Rome"])):
            dump = folder / "dumps" / f"2026-01-0{day + 1}"
            dump.mkdir(parents=True)
            (dump / "things.csv").write_text("\n".join(["id,city", *lines, ""]))
            session = spark_session(pipeline)
            frazil.run(pipeline, spark=session, options=RunOptions(policy=policy))
            assert (head(session, "lake.silver.things_changes").summary.get("frazil.plain") is None) != policy.plain
        marts = session.table("lake.marts.things_history").select("id", "city", "is_current").collect()
        made.append((rows_of(session, "quarantine"), rows_of(session, "changes"), sorted(map(repr, marts))))

    assert all(one == made[0] for one in made)
    assert len(made[0][0]) == 1


EVENTS: Final = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: things
    source: {kind: debezium, path: ./landing}
    keys: [id]
    columns: [{name: id, type: int}, {name: city}, {name: note}]
    marts: [{kind: current}, {kind: history}]
"""


def event(op: str, lsn: int, before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    source = {"connector": "postgresql", "lsn": lsn, "ts_ms": 1_767_225_600_000 + lsn}
    return json.dumps({"before": before, "after": after, "source": source, "op": op, "ts_ms": 1_767_225_600_000})


@pytest.mark.laws
@pytest.mark.long
def test_events_become_the_same_changes(tmp_path: Path, spark: SparkSession) -> None:
    del spark
    oslo, rome, bonn = ({"id": key, "city": city, "note": "n"} for key, city in enumerate(("Oslo", "Rome", "Bonn")))
    batches = (
        [event("c", 10, None, oslo), event("r", 11, None, rome)],
        [event("u", 20, oslo, {"id": 0, "city": "Oslo 2"}), event("d", 21, rome, None)],  # a note that is not said
        [event("u", 30, {"id": 0}, {"id": 7, "city": "Moved", "note": "n"}), event("c", 31, None, bonn)],
        [event("u", 40, {"id": 7}, {"id": 7, "city": "There", "note": None})],
        [event("u", 25, {"id": 0}, {"id": 0, "city": "Late", "note": "late"})],
        [event("t", 50, None, None)],
        [event("c", 60, None, oslo)],
    )
    made = []
    for number, policy in enumerate(WAYS):
        folder = tmp_path / f"{number}"
        (folder / "landing").mkdir(parents=True)
        (folder / "frazil.yml").write_text(EVENTS)
        pipeline, plain, marts = frazil.load(folder), [], []
        for at, lines in enumerate(batches):
            (folder / "landing" / f"{at}.jsonl").write_text("\n".join([*lines, ""]))
            session = spark_session(pipeline)
            frazil.run(pipeline, spark=session, options=RunOptions(policy=policy))
            plain.append(head(session, "lake.silver.things_changes").summary.get("frazil.plain"))
            marts += [
                sorted(map(repr, session.table(f"lake.marts.{name}").collect()))
                for name in ("things", "things_history")
            ]
        made.append((rows_of(session, "changes"), rows_of(session, "quarantine"), marts))
        # A change of key, a change that comes before one, and a truncate are Spark's; a batch after them is not.
        assert plain == (["2", "2", None, "1", None, None, "1"] if policy.plain else [None] * 7)

    assert all(one == made[0] for one in made)
    assert [len(rows) for rows in made[0][2][::2]] == [2, 1, 2, 2, 2, 0, 1]


def test_orders_of_truncates_are_read_as_numbers() -> None:
    assert number_of("-7", "bigint") == -7
    assert number_of("1970-01-03", "date") == 2
    assert number_of("1970-01-01 00:00:01.25", "timestamp") == 1_250_000
    for text, kind in (("a", "string"), ("+10000-01-01", "date"), ("1.5", "int")):
        with pytest.raises(ValueError, match=r".+"):
            number_of(text, kind)
