"""Every kind of source, in every form, passes the suite that any source must pass."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.sources.forms import FORMS, DmsCsv, Handover
from tests.sources.tiny import tiny_kind

import frazil
from frazil.serve.check.check import check
from frazil.serve.query.query import query
from frazil.sources.capture import Landed
from frazil.sources.postgres.capture import PostgresCapture
from frazil.spark.session import spark_session
from frazil.testing.conformance import CASES, Engine, World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def tiny() -> Iterator[None]:
    """A second kind of source, for these tests only."""
    with tiny_kind():
        yield


@pytest.fixture(autouse=True)
def landed(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's changes are landed already: the suite tests reading."""
    monkeypatch.setattr(PostgresCapture, "land", lambda *_: Landed())


@pytest.fixture(scope="module")
def engine(spark: SparkSession) -> Engine:
    del spark  # only there so that Java runs

    def run(folder: Path) -> None:
        pipeline = frazil.load(folder)
        frazil.run(pipeline, spark=spark_session(pipeline))

    def rows(folder: Path, sql: str) -> list[dict[str, Any]]:
        found = query(frazil.load(folder), sql)
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]

    def proofs(folder: Path) -> tuple[bool, str]:
        findings = check(frazil.load(folder))
        return all(finding.ok is not False for finding in findings), "\n".join(map(str, findings))

    return Engine(run, rows, proofs)


USUAL = {
    "dms csv": ("keeps_order", "takes_late_arrivals", "goes_on_after_a_crash"),
    "debezium": ("keeps_order", "keeps_what_nobody_can_read"),
    **dict.fromkeys(("postgres", "tiny"), ("keeps_order",)),
}
"""Form -> the cases that it goes through every time; the others it does with the laws."""


def _marks(form: str, case: str) -> list[pytest.MarkDecorator]:
    return [] if case in USUAL.get(form, ()) else [pytest.mark.laws]


@pytest.mark.long
@pytest.mark.parametrize(
    ("form", "case"),
    [pytest.param(form, case, marks=_marks(form, case)) for form in FORMS for case in CASES],
)
def test_a_source_conforms(form: str, case: str, engine: Engine, tmp_path: Path) -> None:
    seed, written = len(form) + len(case), FORMS[form]
    if isinstance(written, Handover):
        CASES[case](World(replace(written, seed=seed), engine, tmp_path / "world", seed, sequence_by=""))
    else:
        CASES[case](World(written, engine, tmp_path / "world", seed))


def test_a_source_that_breaks_its_contract_is_seen(engine: Engine, tmp_path: Path) -> None:
    """Files in an order of their own, where their places decide."""
    backwards = replace(DmsCsv())
    object.__setattr__(
        backwards, "write", lambda landing, number, records: DmsCsv().write(landing, 9 - number, records)
    )

    with pytest.raises(AssertionError, match="differs from the oracle"):
        CASES["keeps_order"](World(backwards, engine, tmp_path / "world", seed=3))
