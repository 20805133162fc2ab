"""What is in quarantine, as people and programs see it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.hostile.situation import command

from frazil import api
from frazil.spec.sql.select import UnknownSelectionError

if TYPE_CHECKING:
    from tests.serve.conftest import Shop

pytestmark = pytest.mark.spark

FILE = "landing/20260102-000000001.csv"
RAW = '{"op":"I","id":"4","ts":"2026-01-02 10:00:00","name":"hail","price":"four"}'


def test_rules_are_counted_and_records_shown_with_their_places(shop: Shop) -> None:
    found = api.quarantine(shop.folder, "items")

    [rule] = found.rules
    assert (rule.table, rule.rule, rule.column, rule.records) == ("items", "cast", "price", 1)
    assert (rule.first_batch, rule.last_batch, rule.example) == (1, 1, "not exactly a decimal(10,2): four")
    [record] = found.records
    assert (record.file, record.row, record.batch, record.reason) == (FILE, 3, 1, rule.example)
    assert record.raw == RAW


def test_without_a_table_there_are_no_records_and_the_limit_holds(shop: Shop) -> None:
    assert api.quarantine(shop.folder).rules == api.quarantine(shop.folder, "items").rules
    assert api.quarantine(shop.folder).records == ()
    assert api.quarantine(shop.folder, "items", limit=0).records == ()
    assert api.quarantine(shop.folder, "items_history", limit=1).records[0].row == 3


def test_the_command_prints_both(shop: Shop) -> None:
    said = command("quarantine", f"{shop.folder}", "--select", "items")
    lines = " ".join(said.text.split())

    assert said.code == 0
    assert "items cast price 1 1 not exactly a decimal(10,2): four" in lines
    assert f"{FILE} 3 1 price not exactly" in lines
    assert "table rule column records batch for example" in lines
    way = "frazil quarantine --select items --to FILE, then frazil replay --select items --from FILE"
    assert lines.endswith(f"1 of 1 record correct them: {way}")
    assert json.loads(command("quarantine", f"{shop.folder}", "--json").stdout)["records"] == []


def test_quarantine_refuses_an_unknown_table(shop: Shop) -> None:
    with pytest.raises(UnknownSelectionError, match="nothing is called 'item'"):
        api.quarantine(shop.folder, "item")
    with pytest.raises(UnknownSelectionError, match="means no table, but an aggregate"):
        api.quarantine(shop.folder, "gold.prices")
