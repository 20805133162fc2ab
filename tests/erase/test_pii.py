"""Columns with pii: no byte of a lake has one of their values, and an erase takes a key as people know it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.erase.test_erase import all_bytes

import frazil
from frazil import api
from frazil.runner.report import RunFailedError
from frazil.serve.check.check import check
from frazil.serve.key import explain_key
from frazil.serve.query.query import query
from frazil.spark.session import spark_session
from frazil.spec.pii import hashed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

KEY = "0123456789abcdef0123456789abcdef"
DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
pii_key: "${env:SHOP_PII_KEY}"
tables:
  - name: customers
    source: {kind: dms, path: ./landing/dms, header: true, before_image_prefix: BI_}
    keys: [email]
    sequence_by: [ts]
    columns:
      - {name: email, pii: hmac}
      - {name: ts, type: timestamp}
      - {name: phone, pii: mask}
      - {name: street, pii: drop}
      - {name: total, type: int}
      - {name: bucket, expr: "left(email, 4)"}
    marts: [{kind: current}, {kind: history}]
  - name: people
    source: {kind: audit_log, path: ./landing/log, table: public.people, old_data: old}
    keys: [email]
    columns: [{name: email, pii: hmac}, {name: phone, pii: mask}, {name: street, pii: drop}, {name: n, type: int}]
"""
PRIVATE = [b"ann@example.org", b"old@example.org", b"bob@example.org", b"+47 1234", b"Main Street"]
CSV = """Op,BI_email,email,ts,phone,street,total
I,,old@example.org,2026-01-01 00:00:00,+47 1234,Main Street,1
U,old@example.org,ann@example.org,2026-01-02 00:00:00,+47 1234,"Main Street, 2",2
I,,bob@example.org,2026-01-01 00:00:00,+47 1234,Main Street,1
U,,bob@example.org,2026-01-03 00:00:00,+47 1234,Main Street,no number of bob
U,,bob@example.org,2026-01-04 00:00:00
"""


def log(number: int, op: str, email: str, before: str | None, n: object) -> str:
    row = {"email": email, "phone": "+47 1234", "street": "Main Street", "n": n}
    line = {
        "audit_event_id": number,
        "audit_operation": op,
        "audit_timestamp": f"2026-01-0{number} 00:00:00",
        "tbl_schema": "public",
        "tbl_name": "people",
        "raw_data": json.dumps(row),
        "old": None if before is None else json.dumps({**row, "email": before}),
    }
    return f"{json.dumps(line)}\n"


@pytest.mark.spark
@pytest.mark.long
def test_no_byte_of_the_lake_has_a_private_value_and_a_key_is_erased_by_its_plain_text(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark
    monkeypatch.setenv("SHOP_PII_KEY", KEY)
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    for kind in ("dms", "log"):
        (tmp_path / "landing" / kind).mkdir(parents=True)
    (tmp_path / "landing" / "dms" / "20260101-000000000.csv").write_text(CSV, encoding="utf-8")
    changes = [
        log(1, "I", "old@example.org", None, 1),
        log(2, "U", "ann@example.org", "old@example.org", 2),
        log(3, "I", "bob@example.org", None, "no number"),
        "bob@example.org is no JSON\n",
    ]
    (tmp_path / "landing" / "log" / "1.jsonl").write_text("".join(changes), encoding="utf-8")
    pipeline, lake = frazil.load(tmp_path), tmp_path / "lake"
    session = spark_session(pipeline)
    frazil.run(pipeline, spark=session)

    ann, bob = (hashed(KEY.encode(), f"{name}@example.org") for name in ("ann", "bob"))
    held = [*all_bytes(lake)]
    assert {word: path for path, data in held for word in [*PRIVATE, KEY.encode()] if word in data} == {}
    assert any(ann.encode() in data for _, data in held)
    for mart in ("customers", "people"):
        rows = query(pipeline, f"SELECT email, phone, street FROM marts.{mart} ORDER BY email").rows
        assert rows == sorted([(ann, "***", None)] + ([(bob, "***", None)] if mart == "customers" else []))
    assert {rule for (rule,) in query(pipeline, "SELECT rule FROM silver.customers_quarantine").rows} == {
        "cast",
        "record",
    }
    assert [finding.ok for finding in check(pipeline) if finding.ok is False] == []
    assert len(explain_key(pipeline, "customers", ["bob@example.org"]).records) == 2
    assert explain_key(pipeline, "customers", [ann]).is_known

    report = api.erase(tmp_path, "customers", keys=["bob@example.org"], spark=session)

    assert (report.subjects, report.proof and report.proof.found) == (1, ())
    assert [path for path, data in all_bytes(lake / "marts" / "customers") if bob.encode() in data] == []
    (tmp_path / "landing" / "dms" / "20260102-000000000.csv").write_text(CSV, encoding="utf-8")
    (tmp_path / "landing" / "dms" / "20260103-000000000.csv").write_text(f"{CSV}\n", encoding="utf-8")
    frazil.run(frazil.load(tmp_path), spark=session)
    assert query(pipeline, "SELECT email FROM marts.customers").rows == [(ann,)]

    monkeypatch.setenv("SHOP_PII_KEY", KEY[::-1])
    (tmp_path / "landing" / "log" / "2.jsonl").write_text(log(4, "I", "cyd@example.org", None, 1), encoding="utf-8")
    with pytest.raises(RunFailedError, match="another key"):
        frazil.run(frazil.load(tmp_path), spark=session)
    monkeypatch.setenv("SHOP_PII_KEY", KEY)
    (tmp_path / "frazil.yml").write_text(DECLARATION.replace("street, pii: drop", "street"), encoding="utf-8")
    with pytest.raises(RunFailedError, match="pii of its columns was"):
        frazil.run(frazil.load(tmp_path), spark=session)
