"""Lineage: tables and columns from source to gold, before a lake exists and in one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.hostile.situation import command

from frazil import api
from frazil.spec.sql.select import UnknownSelectionError

if TYPE_CHECKING:
    from pathlib import Path

DECLARATION = """\
pipeline: shop
lake: {warehouse: ./lake, namespaces: {marts: facts}}
tables:
  - name: orders
    source: {kind: dms, path: ./orders}
    keys: [id]
    sequence_by: [ts]
    columns:
      - {name: id}
      - {name: ts, type: timestamp}
      - {name: net, type: int}
      - {name: twice, type: int, expr: "net * 2"}
    marts: [{kind: current, deletes: soft, live_view: orders_live}, {kind: history}]
  - {name: items, source: {kind: dms, path: ./items}, keys: [id], columns: [{name: id}]}
gold:
  - {name: revenue, sql: "select id, sum(twice) as total from {{ orders }} group by id"}
  - {name: best, sql: "select max(total) as total, 1 as one from {{ revenue }}"}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    return tmp_path


def test_a_table_has_what_it_is_made_of_and_what_is_made_of_it(project: Path) -> None:
    found = api.lineage(project, "facts.orders")

    assert [node.name for node in found.nodes] == [
        "source.orders",
        "bronze.orders",
        "silver.orders_changes",
        "facts.orders",
        "facts.orders_live",
        "gold.revenue",
        "gold.best",
    ]
    assert found.readers("facts.orders") == ("facts.orders_live", "gold.revenue")
    assert found.readers("gold.revenue") == ("gold.best",)


def test_columns_come_from_fields_through_expressions_and_sql(project: Path) -> None:
    columns = {node.name: node.columns for node in api.lineage(project).nodes}

    assert columns["silver.orders_changes"]["twice"] == (("source.orders", "net"),)
    assert columns["facts.orders"]["twice"] == (("silver.orders_changes", "twice"),)
    assert columns["facts.orders"]["is_deleted"] == ()
    assert columns["gold.revenue"]["total"] == (("facts.orders", "twice"),)
    assert columns["gold.best"] == {"total": (("gold.revenue", "total"),), "one": ()}


@pytest.mark.parametrize(
    ("word", "count"),
    [("orders", 9), ("source.orders", 9), ("items", 5), ("gold.best", 6), ("best", 6), ("orders_history", 4)],
)
def test_a_word_names_a_node(project: Path, word: str, count: int) -> None:
    assert len(api.lineage(project, word).nodes) == count


def test_an_unknown_table_is_an_error_with_a_suggestion(project: Path) -> None:
    with pytest.raises(UnknownSelectionError, match="'ordrs'") as raised:
        api.lineage(project, "ordrs")

    assert raised.value.hint == "did you mean 'orders'?"


def test_the_command_prints_a_tree_and_the_columns(project: Path) -> None:
    shown = command("lineage", "gold.best", "--project", f"{project}")
    values = json.loads(command("lineage", "gold.best", "--project", f"{project}", "--json").stdout)

    assert shown.code == 0
    assert shown.stdout.split("gold.best\n")[0].count("──") == 5
    assert "gold.revenue.total" in shown.stdout
    assert values["schema_version"] == 1
    assert values["nodes"][0]["role"] == "source"
