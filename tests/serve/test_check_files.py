"""The proofs from file to change hold on what adds up, and fail on every record that is lost, added or doubled."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import obstore
import pytest
from obstore.store import MemoryStore
from tests.databases import empty_database
from tests.serve.in_memory import layer

import frazil
from frazil.serve.check.files import file_steps
from frazil.serve.check.finding import Proof
from frazil.serve.layers import Layers
from frazil.silver.baseline import Baseline
from frazil.silver.contract import settle
from frazil.spec import Column, DmsFiles, Pipeline, Table
from frazil.storage import store_client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from frazil.serve.check.finding import Verdict
    from frazil.spec.model.stores import StoreAccess

FILES: Final = {"a.csv": 200, "b.csv": 64, "c.csv": 1}
BAD: Final = 10
"""Every tenth record is in quarantine; every hundredth cannot be taken apart."""

TABLES: Final = """
CREATE TABLE bronze (_cdc_kind TEXT, _cdc_file TEXT, _cdc_row BIGINT, _cdc_batch BIGINT, _cdc_ledger STRUCT(
    name TEXT, size_bytes BIGINT, sha256 TEXT, "rows" BIGINT, bad BIGINT, headers BIGINT, "foreign" BIGINT,
    same_as TEXT));
CREATE TABLE changes (_cdc_class TEXT, _cdc_file TEXT, _cdc_row BIGINT, _cdc_batch BIGINT);
CREATE TABLE quarantine (_cdc_file TEXT, _cdc_row BIGINT, _cdc_batch BIGINT);
"""

LOST, ADDED, DOUBLED = (
    "neither a change nor in quarantine",
    "no record of its own",
    "record is more than one change",
)


@contextmanager
def lake(folder: Path) -> Iterator[Proof]:
    """Three files and their records: in bronze, and from there in changes or quarantine; a second batch too."""
    columns = (Column(name="id", type="int"), Column(name="ts", type="timestamp"))
    source = DmsFiles(path=("landing",), header=True)
    table = Table(name="things", source=source, keys=("id",), sequence_by=("ts",), columns=columns)
    with empty_database() as connection:
        connection.execute(TABLES)
        (folder / "landing").mkdir()
        for batch, (name, records) in enumerate(FILES.items(), 1):
            file = folder / "landing" / name
            file.write_text("op,id,ts\n" + "I,1,2026\n" * records, encoding="utf-8")
            bad = records // 100
            connection.execute(
                "INSERT INTO bronze VALUES ('file', ?, NULL, ?, {'name': ?, 'size_bytes': ?, 'sha256': ?, 'rows': ?, "
                "'bad': ?, 'headers': 1, 'foreign': 0, 'same_as': NULL})",
                [f"landing/{name}", batch, name, file.stat().st_size, name, records - bad, bad],
            )
            connection.execute(
                "INSERT INTO bronze SELECT CASE WHEN i % 100 = 0 THEN 'bad' ELSE 'record' END, ?, i, ?, NULL "
                "FROM range(1, ? + 1) AS t(i)",
                [f"landing/{name}", batch, records],
            )
        connection.execute(
            "INSERT INTO changes SELECT 'upsert', _cdc_file, _cdc_row, _cdc_batch FROM bronze "
            f"WHERE _cdc_kind = 'record' AND _cdc_row % {BAD} <> 0"
        )
        # A change of key is two changes.
        connection.execute("INSERT INTO changes SELECT 'delete', * EXCLUDE (_cdc_class) FROM changes LIMIT 7")
        connection.execute(
            "INSERT INTO quarantine SELECT _cdc_file, _cdc_row, _cdc_batch FROM bronze "
            f"WHERE _cdc_kind <> 'file' AND _cdc_row % {BAD} = 0"
        )
        here = Layers(
            table=table,
            bronze=layer("bronze", {}),
            changes=layer("changes", {}),
            quarantine=layer("quarantine", {}),
            marts=(),
            columns=(),
            contract=settle(table, {}),
            event_times=(),
            fields={},
        )
        pipeline = Pipeline(pipeline="p", lake=frazil.Lake(warehouse="lake"), tables=(table,)).at(folder)
        yield Proof(pipeline=pipeline, here=here, connection=connection)


def verdicts(proof: Proof) -> dict[str, Verdict]:
    """Do all proofs; by their words."""
    return {step.what.rpartition(": ")[2]: step.prove() for step in file_steps(proof)}


PATHS, CONTENTS, RECOUNT, LEDGER, WENT_ON = (
    "look for files taken twice",
    "look for contents taken twice",
    "count the records of the files",
    "compare with its ledger",
    "look for each record of bronze",
)


def test_matching_counts_are_proven(tmp_path: Path) -> None:
    with lake(tmp_path) as proof:
        assert verdicts(proof) == {
            PATHS: (True, "each of 3 paths was taken once"),
            CONTENTS: (True, "no content was taken twice"),
            RECOUNT: (True, "268 lines of 3 files are the ledger's"),
            LEDGER: (True, "263 records and 2 bad are the ledger's"),
            WENT_ON: (True, "each of 265 records is a change or in quarantine, batch 3"),
        }


def test_a_file_in_a_store_is_counted_as_the_version_that_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at once, and so read in parts, whatever its size."""
    bucket, looked = MemoryStore(), list[str]()
    describe = store_client.describe

    def noted(access: StoreAccess, key: str) -> dict[str, Any]:
        looked.append(key)
        return describe(access, key)

    monkeypatch.setattr(store_client, "client", lambda _: bucket)
    monkeypatch.setattr(store_client, "describe", noted)
    with lake(tmp_path) as proof:
        proof.connection.execute("UPDATE bronze SET _cdc_file = 's3://raw/' || _cdc_file")
        for name in FILES:
            obstore.put(bucket, f"landing/{name}", (tmp_path / "landing" / name).read_bytes())

        assert verdicts(proof)[RECOUNT] == (True, "268 lines of 3 files are the ledger's")
    assert sorted(looked) == [f"landing/{name}" for name in FILES]


LEDGER_SAYS = (
    "UPDATE bronze SET _cdc_ledger = struct_update(_cdc_ledger, {}) WHERE _cdc_kind = 'file' AND _cdc_batch < {}"
)
A_63, A_64 = ("_cdc_file = 'landing/a.csv' AND _cdc_row = 63", "_cdc_file = 'landing/a.csv' AND _cdc_row = 64")


@pytest.mark.parametrize(
    ("damage", "wrong", "says"),
    [
        ("INSERT INTO bronze FROM bronze WHERE _cdc_kind = 'file' AND _cdc_batch = 1", PATHS, "landing/a.csv"),
        (
            LEDGER_SAYS.format("sha256 := 'same'", 3),
            CONTENTS,
            "1 content was taken twice: landing/a.csv = landing/b.csv",
        ),
        (
            LEDGER_SAYS.format("headers := 0", 2),
            RECOUNT,
            "1 of 3 files: landing/a.csv has 201 records, the ledger says 200",
        ),
        (f"DELETE FROM bronze WHERE {A_63}", LEDGER, "bronze holds 199 records, the ledger says 200"),
        (f"UPDATE bronze SET _cdc_kind = 'bad' WHERE {A_63}", LEDGER, "bronze holds 200 records"),
        (f"UPDATE bronze SET _cdc_row = 64 WHERE {A_63}", LEDGER, "bronze holds 200 records"),
        ("DELETE FROM bronze WHERE _cdc_batch = 2 AND _cdc_kind <> 'file'", LEDGER, "bronze holds 0 records"),
        ("DELETE FROM bronze WHERE _cdc_batch = 2 AND _cdc_kind = 'file'", LEDGER, "the ledger says 0"),
        (
            f"DELETE FROM bronze WHERE {A_63}",
            WENT_ON,
            f"1 change or quarantined record has {ADDED}: landing/a.csv row 63",
        ),
        (f"DELETE FROM changes WHERE {A_64}", WENT_ON, f"1 record is {LOST}: landing/a.csv row 64"),
        (f"UPDATE changes SET _cdc_batch = 4 WHERE {A_63}", WENT_ON, f"1 record is {LOST}: landing/a.csv row 63"),
        ("DELETE FROM quarantine WHERE _cdc_row = 60", WENT_ON, f"2 records are {LOST}: landing/a.csv row 60"),
        (f"UPDATE changes SET _cdc_row = 264 WHERE {A_64}", WENT_ON, f"{ADDED}: landing/a.csv row 264"),
        (f"UPDATE changes SET _cdc_row = NULL WHERE {A_64}", WENT_ON, f"1 record is {LOST}: landing/a.csv row 64"),
        (f"UPDATE changes SET _cdc_row = -1 WHERE {A_64}", WENT_ON, f"{ADDED}: landing/a.csv row -1"),
        (f"UPDATE changes SET _cdc_file = 'landing/d.csv' WHERE {A_64}", WENT_ON, f"{ADDED}: landing/d.csv row 64"),
        (f"INSERT INTO changes FROM changes WHERE {A_64}", WENT_ON, f"1 {DOUBLED}: landing/a.csv row 64"),
        ("INSERT INTO quarantine FROM quarantine LIMIT 1", WENT_ON, f"1 change or quarantined record has {ADDED}"),
        (
            f"INSERT INTO quarantine SELECT _cdc_file, _cdc_row, 1 FROM changes WHERE {A_64}",
            WENT_ON,
            f"1 change or quarantined record has {ADDED}: landing/a.csv row 64",
        ),
        ("DELETE FROM changes", WENT_ON, "239 records are neither"),
    ],
)
def test_what_does_not_add_up_is_found(tmp_path: Path, damage: str, wrong: str, says: str) -> None:
    with lake(tmp_path) as proof:
        proof.connection.execute(damage)
        ok, detail = verdicts(proof)[wrong]

    assert ok is False
    assert says in detail


def test_a_record_taken_by_two_batches_is_found(tmp_path: Path) -> None:
    with lake(tmp_path) as proof:
        proof.connection.execute(f"INSERT INTO bronze SELECT * REPLACE (2 AS _cdc_batch) FROM bronze WHERE {A_64}")
        found = verdicts(proof)

    assert [what for what, (ok, _) in found.items() if ok is False] == [LEDGER, WENT_ON]


def test_changed_files_fail_and_missing_ones_are_noted(tmp_path: Path) -> None:
    with lake(tmp_path) as proof:
        (tmp_path / "landing" / "c.csv").unlink()
        gone = verdicts(proof)[RECOUNT]
        file = tmp_path / "landing" / "b.csv"
        content = file.read_bytes()
        file.write_bytes(content.replace(b"\nI", b"xI", 1))
        same_size = verdicts(proof)[RECOUNT]
        file.write_bytes(content + b"x")
        longer = verdicts(proof)[RECOUNT]
        file.unlink()
        file.mkdir()
        folder = verdicts(proof)[RECOUNT]

    note = "; 1 file is no longer there"
    assert gone == (True, f"266 lines of 2 files are the ledger's{note}")
    assert same_size == (False, f"1 of 3 files: landing/b.csv has 64 records, the ledger says 65{note}")
    assert longer == (False, f"1 of 3 files: landing/b.csv has another size than when it was taken{note}")
    assert folder[0] is False


def test_files_that_are_all_gone_cannot_be_counted(tmp_path: Path) -> None:
    with lake(tmp_path) as proof:
        for file in (tmp_path / "landing").iterdir():
            file.unlink()
        found = verdicts(proof)

    assert found[RECOUNT] == (None, "0 lines of 0 files are the ledger's; 3 files are no longer there")


def test_folded_records_are_counted_and_the_others_proven(tmp_path: Path) -> None:
    with lake(tmp_path) as proof:
        baseline = Baseline(before="2026-01-01 00:00:00", batch=3)
        for sql in (
            "ALTER TABLE bronze ADD COLUMN _cdc_offset BIGINT",
            "ALTER TABLE changes ADD COLUMN ts TIMESTAMPTZ DEFAULT '2026-02-01 00:00:00+00'",
            "UPDATE changes SET ts = '2025-01-01 00:00:00+00' WHERE _cdc_file = 'landing/a.csv' AND _cdc_row <= 40",
            "DELETE FROM changes WHERE ts < '2026-01-01 00:00:00+00' AND _cdc_row <> 7",
            "DELETE FROM bronze WHERE _cdc_file = 'landing/a.csv' AND _cdc_row <= 40 AND _cdc_row % 10 <> 0",
            "INSERT INTO bronze (_cdc_kind, _cdc_file, _cdc_offset) VALUES ('folded', 'landing/a.csv', 36)",
        ):
            proof.connection.execute(sql)

        def seen(**bronze: str) -> dict[str, Verdict]:
            held = layer("bronze", {"_cdc_offset": "bigint"}, **bronze)
            here = replace(proof.here, bronze=held, changes=layer("changes", {}, **baseline.in_bookmark()))
            return verdicts(replace(proof, here=here, kept=set()))

        found, unfinished = seen(baseline=baseline.before), seen()

        records = "263 records and 2 bad are the ledger's; 36 of them are folded into the baseline"
        assert found[LEDGER] == (True, records)
        assert found[WENT_ON] == (True, "each of 229 records is a change or in quarantine, batch 3")
        assert unfinished[WENT_ON] == (None, "a fold of old changes has not ended: frazil run ends it")
        proof.connection.execute("DELETE FROM changes WHERE _cdc_file = 'landing/a.csv' AND _cdc_row = 64")
        assert LOST in seen(baseline=baseline.before)[WENT_ON][1]
