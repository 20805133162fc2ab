"""ERASE, keys of several columns: shared values do not identify a row, and a killed erase has one receipt."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import frazil
from frazil import api
from frazil.cli.commands.erase import show_erase
from frazil.erase.report import EraseProof, EraseReport, OccurrencesLeftError
from frazil.failpoints import FailpointReached
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: customers
    source: {kind: dms, path: ./landing, header: true}
    keys: [shop, email]
    sequence_by: [ts]
    columns: [{name: shop}, {name: email}, {name: ts, type: timestamp}, {name: referred_by}]
    marts: [{kind: current}]
"""
FILES = {
    "20260101-000000000.csv": ("berlin-01,bob@example.org,2026-01-01 00:00:00,",),
    "20260102-000000000.csv": (
        "berlin-01,cyd@example.org,2026-01-02 00:00:00,",
        "berlin-01,ann@example.org,2026-01-02 00:00:00,bob@example.org",
        "madrid-02,bob@example.org,2026-01-02 00:00:00,",
    ),
}


def key(shop: str, name: str) -> list[str]:
    return [json.dumps({"shop": shop, "email": f"{name}@example.org"})]


@pytest.mark.laws
def test_a_killed_erase_with_shared_parts_of_keys_is_reported_in_full(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    (tmp_path / "landing").mkdir()
    for name, lines in FILES.items():
        text = "\n".join(["Op,shop,email,ts,referred_by", *(f"I,{line}" for line in lines), ""])
        (tmp_path / "landing" / name).write_text(text, encoding="utf-8")
    pipeline = frazil.load(tmp_path)
    session = spark_session(pipeline)
    frazil.run(pipeline, spark=session)

    monkeypatch.setenv("FRAZIL_FAILPOINT", "erase.after_block:raise")
    with pytest.raises(FailpointReached):
        api.erase(tmp_path, "customers", keys=key("berlin-01", "bob"), spark=session)
    monkeypatch.delenv("FRAZIL_FAILPOINT")
    foreseen = api.erase_preview(tmp_path, "customers", keys=key("berlin-01", "cyd"), spark=session)
    resumed = api.erase(tmp_path, "customers", keys=key("berlin-01", "cyd"), spark=session)

    # The dry run says what becomes of the subjects of both.
    assert (foreseen.resumed, foreseen.subjects, foreseen.files) == (True, resumed.subjects, resumed.files)
    assert [layer.rows for layer in foreseen.layers] == [layer.rows for layer in resumed.layers]
    # Both subjects are in the receipt, and both files; of the first only the hash is known.
    receipt = json.loads((tmp_path / "lake" / ".frazil" / "erased" / f"{resumed.erase_id}.json").read_text("utf-8"))
    assert (resumed.resumed, resumed.subjects, receipt["subjects"], len(set(receipt["keys"]))) == (True, 2, 2, 2)
    assert resumed.files == tuple(f"landing/{name}" for name in FILES)
    # The shop has another customer, so its name is nothing that was left over.
    assert resumed.proof is not None
    assert (resumed.proof.found, resumed.proof.by_hash, resumed.proof.bytes_searched) == ((), 1, False)

    # Another row has this address as part of its own key: where else it stands, nobody is told of.
    again = api.erase(tmp_path, "customers", keys=key("berlin-01", "bob"), spark=session)
    assert again.proof is not None
    assert (again.subjects, again.resumed, again.proof.found, again.proof.by_hash) == (1, False, (), 0)
    assert (again.proof.bytes_searched, again.files) == (False, ())

    # Nobody has it as a key any more, and a row names it.
    with pytest.raises(OccurrencesLeftError, match="values: 1") as left:
        api.erase(tmp_path, "customers", keys=key("madrid-02", "bob"), spark=session)
    assert left.value.report.proof is not None
    assert left.value.report.proof.bytes_searched
    assert api.query(tmp_path, "SELECT shop, email FROM marts.customers").rows == [("berlin-01", "ann@example.org")]
    assert [finding for finding in api.check(tmp_path) if finding.ok is False] == []


def test_people_read_that_keys_of_a_killed_erase_were_not_searched_as_texts(capsys: pytest.CaptureFixture[str]) -> None:
    proof = EraseProof(rows=7, files=3, bytes_searched=False, by_hash=2)

    show_erase(EraseReport(table="t", subjects=3, layers=(), resumed=True, proof=proof))

    assert capsys.readouterr().out.splitlines()[-4:] == [
        "an earlier erase that was killed was finished as well",
        "searched 7 rows and 3 files: no key is left",
        "2 keys of the erase that was killed are known by their hashes only.",
        "To search bad records, other columns and bytes for them, erase them again.",
    ]
