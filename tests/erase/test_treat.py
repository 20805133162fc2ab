"""Columns that get pii later: the lake ends as one would whose declaration had said it from the beginning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.erase.test_erase import all_bytes

import frazil
from frazil import api
from frazil.bronze.pii import MADE_BY
from frazil.erase.keys import EraseError
from frazil.errors import FrazilError
from frazil.failpoints import FailpointReached
from frazil.lake.refs import head
from frazil.plan.checks import SourceChangedError
from frazil.runner.report import RunFailedError
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline

DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
pii_key: "${env:SHOP_PII_KEY}"
tables:
  - name: customers
    source: {kind: dms, path: ./landing, header: true, before_image_prefix: BI_}
    keys: [email]
    sequence_by: [ts]
    renames: {fon: phone}
    columns:
      - {name: email, type: string}
      - {name: ts, type: timestamp}
      - {name: phone, type: string}
      - {name: street, type: string}
      - {name: total, type: int}
      - {name: bucket, expr: "left(email, 4)"}
    marts: [{kind: current}, {kind: current, name: soft, deletes: soft}, {kind: history}]
gold:
  - {name: best, sql: "SELECT phone, max(email) AS email, count(*) AS n FROM {{ customers }} GROUP BY phone"}
"""
WAYS = {"email": "hmac", "phone": "mask", "street": "drop"}
FILES = [
    """Op,BI_email,email,ts,phone,street,total
I,,old@example.org,2026-01-01 00:00:00,+47 1234,Main Street,1
U,old@example.org,ann@example.org,2026-01-02 00:00:00,+47 1234,"Main Street, 2",2
I,,bob@example.org,2026-01-01 00:00:00,,Main Street,1
U,,bob@example.org,2026-01-03 00:00:00,+47 1234,Main Street,no number of bob
U,,bob@example.org,2026-01-04 00:00:00
""",
    """Op,BI_email,email,ts,fon,street,total
U,,ann@example.org,2026-01-05 00:00:00,+47 9999,Other Street,3
I,,cyd@example.org,2026-01-05 00:00:00,+47 9999,Other Street,1
D,,bob@example.org,2026-01-06 00:00:00,+47 1234,Main Street,1
""",
    """Op,BI_email,email,ts,fon,street,total
U,,cyd@example.org,2026-01-07 00:00:00,+47 9999,Third Street,2
U,,ann@example.org,2026-01-01 12:00:00,+47 1111,Third Street,7
""",
]
PRIVATE = [b"@example.org", b"ann@", b"+47 ", b"Street"]
TABLES = [
    "bronze.customers",
    "silver.customers_changes",
    "silver.customers_quarantine",
    "marts.customers",
    "marts.soft",
    "marts.customers_history",
    "gold.best",
]


def declare(folder: Path, ways: dict[str, str]) -> Pipeline:
    text = DECLARATION
    for name, way in ways.items():
        text = text.replace(f"{{name: {name}, type: string", f"{{name: {name}, type: string, pii: {way}")
    (folder / "frazil.yml").write_text(text, encoding="utf-8")
    return frazil.load(folder)


def take(folder: Path, pipeline: Pipeline, *numbers: int) -> None:
    (folder / "landing").mkdir(parents=True, exist_ok=True)
    for number in numbers:
        (folder / "landing" / f"2026010{number + 1}-000000000.csv").write_text(FILES[number], encoding="utf-8")
    frazil.run(pipeline, spark=spark_session(pipeline))


def held(pipeline: Pipeline) -> dict[str, list[str]]:
    """The rows of every table, without what the clock says."""
    session, found = spark_session(pipeline), {}
    for name in TABLES:
        rows = session.table(f"lake.{name}").drop("_cdc_arrived_at").toArrow().to_pylist()
        for row in rows:
            if row.get("_cdc_ledger"):
                row["_cdc_ledger"].pop("modified_ns")
        found[name] = sorted(map(repr, rows))
    return found


def bookmark_of_bronze(pipeline: Pipeline) -> dict[str, Any]:
    """Return bronze's bookmark without the name of a treatment."""
    bookmark = head(spark_session(pipeline), "lake.bronze.customers").bookmark
    return {name: value for name, value in bookmark.items() if name != MADE_BY}


@pytest.mark.laws
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize(
    "failpoints",
    [
        ("treat.after_bronze",),
        pytest.param(
            (
                "treat.before_publish",
                "treat.after_bronze",
                "silver.after_publish",
                "mart.after_publish",
                "treat.after_marts",
                "treat.after_purge",
                "treat.before_end",
            ),
            marks=pytest.mark.laws,
        ),
    ],
)
def test_pii_that_comes_later_leaves_what_a_lake_would_hold_that_had_it_from_the_beginning(
    failpoints: tuple[str, ...], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark
    monkeypatch.setenv("SHOP_PII_KEY", "0123456789abcdef0123456789abcdef")
    wanted = declare_in(tmp_path / "wanted", WAYS)
    take(tmp_path / "wanted", wanted, 0, 1)
    take(tmp_path / "wanted", wanted, 2)
    folder = tmp_path / "later"
    clear = declare_in(folder, {})
    take(folder, clear, 0, 1)
    spark_session(clear).sql("ALTER TABLE lake.marts.customers CREATE TAG kept")

    pipeline = declare(folder, WAYS)
    with pytest.raises(RunFailedError, match="values of BI_email, email, phone, street, fon as they came"):
        frazil.run(pipeline, spark=spark_session(pipeline))
    bad = [finding for finding in api.check(pipeline) if finding.ok is False]
    assert [finding.table for finding in bad] == ["bronze.customers bytes"]
    before = api.treat_preview(pipeline, "customers", spark=spark_session(pipeline))
    assert before.fields == {"BI_email": "hmac", "email": "hmac", "phone": "mask", "street": "drop", "fon": "mask"}
    assert before.layers[3].refs == ("kept",)
    for name in failpoints:
        monkeypatch.setenv("FRAZIL_FAILPOINT", f"{name}:raise")
        with pytest.raises((FailpointReached, FrazilError), match=name):
            api.treat(pipeline, "customers", spark=spark_session(pipeline))
        monkeypatch.delenv("FRAZIL_FAILPOINT")
    assert api.status(pipeline).tables[0].treating
    assert "finishes the removal" in str([one.detail for one in api.check(pipeline) if one.ok is False])
    take(folder, pipeline, 2)
    report = api.treat(pipeline, "customers", spark=spark_session(pipeline))

    assert (report.found, report.resumed, report.done) == ((), True, True)
    assert {word: path for path, data in all_bytes(folder / "lake") for word in PRIVATE if word in data} == {}
    assert held(pipeline) == held(wanted)
    assert bookmark_of_bronze(pipeline) == bookmark_of_bronze(wanted)
    assert [finding for finding in api.check(pipeline) if finding.ok is False] == []
    assert frazil.run(pipeline, spark=spark_session(pipeline)).steps == 0
    with pytest.raises(EraseError, match="has no untreated values"):
        api.treat(pipeline, "customers", spark=spark_session(pipeline))
    with pytest.raises(SourceChangedError, match="cannot be brought back"):
        api.treat(declare(folder, WAYS | {"phone": "drop"}), "customers", spark=spark_session(pipeline))


def declare_in(folder: Path, ways: dict[str, str]) -> Pipeline:
    folder.mkdir()
    return declare(folder, ways)
