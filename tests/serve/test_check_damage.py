"""A table that cannot be read is a failed proof with a way out; all that does not need it is proven."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

import frazil
from frazil.iceberg.metadata import local_path
from frazil.serve.check.check import Finding, check
from frazil.serve.tables import tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline

pytestmark = pytest.mark.spark

DECLARATION: Final = """\
pipeline: pair
lake: {warehouse: ./lake}
tables:
  - name: left
    source: {kind: dms, path: ./landing, header: true, settle_seconds: 0}
    keys: [id]
    max_repeated_key_fraction: 1
    sequence_by: [ts]
    columns: [{name: id, type: int}, {name: ts, type: timestamp}, {name: name, type: string}]
    marts: [{kind: current}, {kind: history}]
  - name: right
    source: {kind: dms, path: ./landing, header: true, settle_seconds: 0}
    keys: [id]
    max_repeated_key_fraction: 1
    sequence_by: [ts]
    columns: [{name: id, type: int}, {name: ts, type: timestamp}, {name: name, type: string}]
    marts: [{kind: current}, {kind: history}]
"""
FILE: Final = """\
op,id,ts,name
I,1,2026-01-01 08:00:00,ice
I,2,2026-01-01 08:00:00,snow
U,2,2026-01-02 08:00:00,firn
"""
PROOFS_OF_A_TABLE: Final = 13


@pytest.fixture(scope="module")
def pair(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Two tables of the same files."""
    del spark
    folder = tmp_path_factory.mktemp("pair")
    (folder / "landing").mkdir()
    (folder / "landing" / "LOAD00000001.csv").write_text(FILE, encoding="utf-8")
    (folder / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    pipeline = frazil.load(folder)
    frazil.run(pipeline)
    return pipeline


def file_of(pipeline: Pipeline, table: str, kind: str) -> Path:
    """Find a file of a table's newest snapshot: its metadata, manifest list, a manifest, or a data file."""
    namespace, _, name = table.partition(".")
    metadata = local_path(tables(pipeline)[namespace, name])
    assert metadata is not None
    snapshot = json.loads(metadata.read_bytes())["snapshots"][-1]
    match kind:
        case "metadata":
            return metadata
        case "manifest list":
            found = local_path(snapshot["manifest-list"])
        case "manifest":
            found = next(metadata.parent.glob("*-m0.avro"))
        case _:
            found = next((metadata.parent.parent / "data").rglob("*.parquet"))
    assert found is not None
    return found


@contextmanager
def damaged(file: Path, damage: Callable[[bytes], bytes | None]) -> Iterator[None]:
    """Give a file other bytes, or delete it, and put it back afterwards."""
    before = file.read_bytes()
    after = damage(before)
    file.unlink()
    try:
        if after is not None:
            file.write_bytes(after)
        yield
    finally:
        file.write_bytes(before)


DAMAGES: Final[dict[str, Callable[[bytes], bytes | None]]] = {
    "deleted": lambda _: None,
    "emptied": lambda _: b"",
    "cut": lambda content: content[: len(content) // 2],
    "overwritten": lambda content: b"x" * len(content),
}


def of(findings: list[Finding], table: str) -> list[Finding]:
    return [one for one in findings if one.source_table == table]


@pytest.mark.long
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", ["metadata", "manifest list", "manifest", "data"])
def test_a_damaged_mart_is_a_failed_proof_and_the_others_are_proven(pair: Pipeline, kind: str, damage: str) -> None:
    file = file_of(pair, "marts.left", kind)
    with damaged(file, DAMAGES[damage]):
        findings = check(pair)

    (failed,) = [one for one in findings if one.ok is False]
    assert (failed.source_table, failed.table) == ("left", "marts.left")
    assert failed.code in {"FZ300", "FZ306"}  # that of DuckDB's reader, or of the file that is looked for before
    assert f"{file}" in failed.detail
    assert failed.hint == "frazil run --full-refresh --select left"
    assert len(of(findings, "left")) == PROOFS_OF_A_TABLE
    unknown = [(one.law, one.table, one.detail) for one in findings if one.ok is None]
    reason = "marts.left cannot be read"
    assert ("AGREE", "marts.left, marts.left_history", reason) in unknown
    assert {detail for _, _, detail in unknown} == {reason}
    assert ("CONVERGE", "marts.left_history", True) in [(one.law, one.table, one.ok) for one in findings]
    assert [one.ok for one in of(findings, "right")] == [True] * PROOFS_OF_A_TABLE


def test_the_lake_of_these_tests_is_sound(pair: Pipeline) -> None:
    assert [one.ok for one in check(pair)] == [True] * 2 * PROOFS_OF_A_TABLE


@pytest.mark.parametrize("kind", ["metadata", "manifest", "data"])
def test_damaged_changes_stop_only_the_proofs_that_need_them(pair: Pipeline, kind: str) -> None:
    with damaged(file_of(pair, "silver.left_changes", kind), DAMAGES["deleted"]):
        found = {(one.law, one.table): one.ok for one in of(check(pair), "left")}

    assert [table for (_, table), ok in found.items() if ok is False] == ["silver.left_changes"]
    assert found["NOTHING-LOST", "bronze.left"]
    assert found["ORDER", "marts.left"]
    assert found["CONVERGE", "marts.left"] is None
    assert found["AGREE", "marts.left, marts.left_history"] is (None if kind == "metadata" else True)


def test_bronze_cannot_be_rebuilt(pair: Pipeline) -> None:
    with damaged(file_of(pair, "bronze.left", "data"), DAMAGES["deleted"]):
        (failed,) = [one for one in check(pair) if one.ok is False]

    assert (failed.law, failed.table) == ("NOTHING-LOST", "bronze.left")
    assert failed.hint == "restore the file from a backup: bronze cannot be rebuilt"


def test_a_declaration_that_does_not_fit_fails_its_table_alone(pair: Pipeline) -> None:
    text = DECLARATION.replace("name: name, type: string}", "name: nmae, type: string}", 1)
    file = pair.folder / "typo.yml"
    file.write_text(text, encoding="utf-8")
    findings = check(frazil.load(file))

    (failed,) = of(findings, "left")
    assert (failed.ok, failed.code, failed.table) == (False, "FZ502", "left")
    assert failed.detail == "table 'left': column 'nmae' is a field of no file"
    assert [one.ok for one in of(findings, "right")] == [True] * PROOFS_OF_A_TABLE


def test_a_listener_gets_each_proof_as_it_is_done(pair: Pipeline) -> None:
    class Heard:
        """Records its calls."""

        def __init__(self) -> None:
            self.events: list[str] = []
            self.findings: list[Finding] = []

        def began(self, table: str, what: str) -> None:
            """Write it down."""
            self.events.append(f"{table}: {what}")

        def progressed(self, table: str, how_far: str) -> None:
            """Write it down."""
            self.events.append(f"{table}: {how_far}")

        def found(self, finding: Finding) -> None:
            """Write it down."""
            self.events.append(f"{finding.source_table}: {finding.law}")
            self.findings.append(finding)

    heard = Heard()
    findings = check(pair, select=["right"], listener=heard)

    assert heard.findings == findings
    assert {event.partition(":")[0] for event in heard.events} == {"right"}
    recount = heard.events.index("right: count the records of the files")
    assert heard.events[recount + 1 : recount + 3] == ["right: 100 %", "right: NOTHING-LOST"]
