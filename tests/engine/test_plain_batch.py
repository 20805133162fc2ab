"""Whether Arrow or Spark types a batch, silver and quarantine are the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

import frazil
from frazil.engine.options import RunOptions
from frazil.engine.run import run
from frazil.lake.heads import head
from frazil.lake.session import spark_session
from frazil.plan.policy import Policy

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


@pytest.mark.long
def test_arrow_and_spark_make_the_same_changes(tmp_path: Path, spark: SparkSession) -> None:
    del spark  # only there so that Java runs
    made: list[tuple[list[str], list[str], int]] = []
    for who in ("driver", "stream"):
        folder = tmp_path / who
        (folder / "landing").mkdir(parents=True)
        (folder / "frazil.yml").write_text(DECLARATION)
        pipeline = frazil.load(folder)
        options = RunOptions(policy=Policy(reader=who))
        plain = []
        for first, documents, ops in ((1000, USUAL[:10], "IU"), (2000, [*USUAL, *OTHERS], "U"), (3000, USUAL, "Ux D")):
            land(folder, first, documents, ops)
            session = spark_session(pipeline)
            run(pipeline, spark=session, options=options)
            summary = head(session, "lake.silver.things_changes").summary
            plain.append(summary.get("frazil.plain"))
        made.append(
            (rows_of(session, "changes"), rows_of(session, "quarantine"), session.table("lake.marts.things").count())
        )
        assert plain == ([None] * 3 if who == "driver" else ["10", "20", None])

    assert made[0] == made[1]
    assert len(made[0][1]) == 7 + 10
