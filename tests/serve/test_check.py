"""Check holds on a sound lake, and finds each damage that is done on purpose."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from frazil.serve.check.check import check
from frazil.serve.tables import read_snapshot, tables

if TYPE_CHECKING:
    from tests.serve.conftest import Shop

pytestmark = pytest.mark.spark


def wrong(shop: Shop) -> set[tuple[str, str]]:
    return {(finding.law, finding.table) for finding in check(shop.pipeline) if finding.ok is False}


def told(shop: Shop, law: str, table: str) -> str:
    return next(one.detail for one in check(shop.pipeline) if (one.law, one.table) == (law, table))


def test_everything_holds_on_a_sound_lake(shop: Shop) -> None:
    findings = check(shop.pipeline)

    assert [finding for finding in findings if finding.ok is not True] == []
    assert {finding.law for finding in findings} == {
        "ONCE",
        "NOTHING-LOST",
        "KEYS",
        "LATE",
        "ORDER",
        "HISTORY",
        "CONVERGE",
        "AGREE",
    }


def test_a_lost_row_of_a_mart_is_found(shop: Shop) -> None:
    with shop.damaged("marts.items", "DELETE FROM lake.marts.items WHERE id = 3"):
        found = wrong(shop)
        detail = told(shop, "CONVERGE", "marts.items")

    assert found == {
        ("CONVERGE", "marts.items"),
        ("AGREE", "marts.items, marts.items_all"),
        ("AGREE", "marts.items, marts.items_history"),
        ("AGREE", "marts.items, marts.items_marked"),
    }
    assert detail == "1 row is missing: 3"


def test_a_changed_value_is_found(shop: Shop) -> None:
    with shop.damaged("marts.items_all", "UPDATE lake.marts.items_all SET name = 'x' WHERE is_deleted"):
        found = wrong(shop)
        detail = told(shop, "CONVERGE", "marts.items_all")

    assert found == {("CONVERGE", "marts.items_all")}
    assert detail == "1 row is missing: 2 · 1 row should not be there: 2"


def test_a_second_row_of_a_key_is_found(shop: Shop) -> None:
    twice = "INSERT INTO lake.marts.items SELECT * FROM lake.marts.items WHERE id = 5"
    with shop.damaged("marts.items", twice):
        assert ("ORDER", "marts.items") in wrong(shop)


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("SET valid_to = valid_from - INTERVAL 1 DAY WHERE id = 2", "1 version ends before it begins"),
        ("SET is_current = true WHERE id = 2", "1 version has the wrong is_current"),
        ("SET valid_to = valid_to + INTERVAL 9 DAYS WHERE id = 1", "2 versions reach into the next"),
    ],
)
def test_an_unsound_history_is_found(shop: Shop, change: str, what: str) -> None:
    with shop.damaged("marts.items_history", f"UPDATE lake.marts.items_history {change}"):
        assert told(shop, "HISTORY", "marts.items_history").startswith(what)
        assert ("CONVERGE", "marts.items_history") in wrong(shop)


def test_a_lost_record_of_bronze_is_found(shop: Shop) -> None:
    with shop.damaged("bronze.items", "DELETE FROM lake.bronze.items WHERE id = '3'"):
        found = wrong(shop)
        detail = told(shop, "NOTHING-LOST", "bronze.items")

    assert found == {
        ("NOTHING-LOST", "bronze.items"),
        ("NOTHING-LOST", "bronze.items bytes"),
        ("NOTHING-LOST", "silver.items_changes"),
    }
    assert detail == "1 file differs: landing/LOAD00000001.csv: bronze holds 2 records, the ledger says 3"


@pytest.mark.parametrize(
    "change", ["SET name = concat(name, ' ') WHERE id = '3'", "SET _cdc_raw = NULL WHERE _cdc_kind = 'file'"]
)
def test_a_byte_of_bronze_that_is_not_the_file_s_is_found(shop: Shop, change: str) -> None:
    sound = told(shop, "NOTHING-LOST", "bronze.items bytes")
    with shop.damaged("bronze.items", f"UPDATE lake.bronze.items {change}"):
        detail = told(shop, "NOTHING-LOST", "bronze.items bytes")

    assert sound == "the bytes of 3 files are rebuilt from bronze"
    assert detail.startswith(("1 file cannot be rebuilt from bronze: landing/LOAD", "3 files cannot be rebuilt from"))


def test_a_lost_record_of_quarantine_is_found(shop: Shop) -> None:
    with shop.damaged("silver.items_quarantine", "DELETE FROM lake.silver.items_quarantine"):
        detail = told(shop, "NOTHING-LOST", "silver.items_changes")

    assert detail == "1 record is neither a change nor in quarantine: landing/20260102-000000001.csv row 3"


def test_a_record_that_became_two_changes_is_found(shop: Shop) -> None:
    twice = "INSERT INTO lake.silver.items_changes SELECT * FROM lake.silver.items_changes WHERE id = 5"
    with shop.damaged("silver.items_changes", twice):
        assert wrong(shop) == {("NOTHING-LOST", "silver.items_changes")}


def test_a_file_that_was_taken_twice_is_found(shop: Shop) -> None:
    twice = "INSERT INTO lake.bronze.items SELECT * FROM lake.bronze.items WHERE _cdc_file LIKE '%LOAD%'"
    with shop.damaged("bronze.items", twice):
        found = [one.detail for one in check(shop.pipeline) if one.law == "ONCE" and not one.ok]

    assert found == [
        "1 file was taken twice: landing/LOAD00000001.csv",
        "1 content was taken twice: landing/LOAD00000001.csv = landing/LOAD00000001.csv",
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"op,id,ts,name,price\n", "has another size than when it was taken"),
        (None, "9 lines of 2 files are the ledger's; 1 file is no longer there"),
    ],
)
def test_a_changed_file_fails_and_a_missing_one_is_noted(shop: Shop, content: bytes | None, says: str) -> None:
    with shop.changed("20260103-000000001.csv", content):
        assert says in told(shop, "NOTHING-LOST", "items source")


def test_marts_at_different_batches_are_not_compared(shop: Shop) -> None:
    bookmark = dict(read_snapshot(tables(shop.pipeline)["marts", "items_history"]).bookmark) | {"batch": 1}
    setting = "spark.sql.iceberg.snapshot-property.frazil.bookmark"
    shop.session.conf.set(setting, json.dumps(bookmark))
    nothing = "INSERT INTO lake.marts.items_history SELECT * FROM lake.marts.items_history LIMIT 0"
    try:
        with shop.damaged("marts.items_history", nothing):
            shop.session.conf.unset(setting)
            findings = check(shop.pipeline)
    finally:
        shop.session.conf.unset(setting)

    assert [one.detail for one in findings if one.ok is None] == [
        "they hold batches 2 and 1: frazil run brings them to the same batch"
    ]
