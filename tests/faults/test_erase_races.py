"""ERASE beside a run that no lock holds off, as on an object store: the run is refused, and the lake stays whole."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from tests.erase.test_erase import BACK, FIRST, SECOND, land
from tests.failing import run_fails_with

import frazil
from frazil import api
from frazil.catalog import lock
from frazil.erase import job
from frazil.errors import BusyError
from frazil.failpoints import FailpointReached
from frazil.lake import tables
from frazil.runner.steps import ingest
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from frazil.spec import Pipeline

pytestmark = pytest.mark.spark
DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: customers
    source: {kind: dms, path: ./landing, header: true}
    keys: [email]
    sequence_by: [ts]
    columns: [{name: email}, {name: ts, type: timestamp}, {name: total, type: "decimal(8,2)"}, {name: referred_by}]
"""
STRANGER = "nobody@example.org"


@pytest.fixture
def unlocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """A lake without a lock, from which nothing was erased yet."""
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    land(tmp_path, "1.csv", FIRST)
    pipeline = frazil.load(tmp_path)
    frazil.run(pipeline)
    monkeypatch.setattr(lock, "lock", lambda _: nullcontext())
    return pipeline


@pytest.fixture
def shop(unlocked: Pipeline) -> Pipeline:
    """A lake without a lock, from which a key without records was erased once, and a file that was not taken yet."""
    erase_stranger(unlocked)
    land(unlocked.folder, "2.csv", SECOND)
    return unlocked


def erase_stranger(pipeline: Pipeline) -> None:
    """Erase a key without rows: nothing is deleted."""
    report = api.erase(pipeline, "customers", keys=[STRANGER], spark=spark_session(pipeline))
    assert report.proof is not None
    assert report.proof.is_clean


def once(wanted: str, do: Callable[[], None]) -> Callable[[str], None]:
    """Return a failpoint at which something is done the first time that it is reached."""
    done: list[str] = []

    def reached(name: str) -> None:
        if name == wanted and not done:
            done.append(name)
            do()

    return reached


@pytest.mark.long
def test_a_run_is_refused_that_an_erase_of_a_key_without_records_overtakes(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's files are written and not committed: to the erase they are orphans."""
    monkeypatch.setattr(ingest, "failpoint", once("bronze.before_publish", lambda: erase_stranger(shop)))

    with run_fails_with(BusyError, "another run published first"):
        frazil.run(shop)

    frazil.run(shop)
    assert all(finding.ok is not False for finding in api.check(shop))


@pytest.mark.laws
@pytest.mark.long
def test_the_first_two_erases_at_once_keep_their_hashes_with_one_salt(
    unlocked: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both make the table of hashes; the one that does is killed, and the other ends what it began."""
    spark = spark_session(unlocked)

    def make_it_after_another(*given: Any) -> None:
        monkeypatch.setattr(job, "ensure", tables.ensure)
        monkeypatch.setenv("FRAZIL_FAILPOINT", "erase.after_block:raise")
        with pytest.raises(FailpointReached):
            api.erase(unlocked, "customers", keys=["cyd@example.org"], spark=spark)
        monkeypatch.delenv("FRAZIL_FAILPOINT")
        tables.ensure(*given)

    monkeypatch.setattr(job, "ensure", make_it_after_another)
    api.erase(unlocked, "customers", keys=["bob@example.org"], spark=spark)
    land(unlocked.folder, "2.csv", BACK)
    frazil.run(unlocked)

    assert api.query(unlocked, "SELECT email FROM marts.customers ORDER BY 1").rows == [
        ("ann@example.org",),
        ("dan@example.org",),
    ]
    assert [one.unfinished_erase for one in api.status(unlocked).tables] == [None]
