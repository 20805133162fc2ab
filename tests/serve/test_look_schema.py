"""The columns of a table, and the layouts of its files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.hostile.situation import command

import frazil
from frazil import api
from frazil.errors import StorageError
from frazil.spark.session import spark_session
from frazil.spec.sql.select import UnknownSelectionError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DECLARATION = """
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{kind: dms, path: ./landing, header: true, settle_seconds: 0}}
    keys: [id]
    columns: [{{name: id, type: int}}, {{name: twice, type: int, expr: "cast(id AS int) * 2"}}{rest}]
"""
FILES = {
    "LOAD00000001.csv": "op,id,note\nI,1,a\n",
    "20260102-000000000.csv": "op,id,note\nI,2,b\n",
    "20260104-000000000.csv": "op,id,rest,note,gift\nI,3,x,b,y\n",
}
LATE = {"20260103-000000000.csv": "op,id,rest\nI,4,z\n"}


@pytest.fixture
def folder(tmp_path: Path, spark: SparkSession) -> Path:
    del spark  # only there so that Java runs
    (tmp_path / "frazil.yml").write_text(DECLARATION.format(rest=', "*"'))
    (tmp_path / "landing").mkdir()
    for files in (FILES, LATE):
        for name, text in files.items():
            (tmp_path / "landing" / name).write_text(text)
        pipeline = frazil.load(tmp_path)
        frazil.run(pipeline, spark=spark_session(pipeline))
    return tmp_path


def test_layouts_are_in_the_order_of_the_source_with_their_changes(folder: Path) -> None:
    found = api.schema(folder, "orders")

    assert [(one.file.rpartition("/")[2], one.batch, one.added, one.removed) for one in found.changes] == [
        ("LOAD00000001.csv", 1, (), ()),
        ("20260103-000000000.csv", 2, (("rest", "string"),), ("note",)),
        ("20260104-000000000.csv", 1, (("note", "string"), ("gift", "string")), ()),
    ]
    assert [(one.name, one.type, one.comes_from, one.is_declared, one.since_batch) for one in found.columns] == [
        ("id", "int", "field", True, 1),
        ("twice", "int", "expr", True, 1),
        ("note", "string", "field", False, 1),
        ("rest", "string", "field", False, 1),
        ("gift", "string", "field", False, 1),
    ]
    assert found.undeclared == ()


def test_fields_without_a_column_are_named_and_the_command_shows_it_all(folder: Path) -> None:
    (folder / "frazil.yml").write_text(DECLARATION.format(rest=", {name: note}"))
    said = command("status", "orders", "-p", f"{folder}")
    words = " ".join(said.text.split())

    assert said.code == 0
    assert "2 fields are in bronze only: rest, gift" in words
    assert "20260103-000000000.csv + rest string, - note" in words
    assert "twice int an expression yes 1" in words
    assert json.loads(command("status", "orders", "-p", f"{folder}", "--json").stdout)["undeclared"] == [
        ["rest", "string"],
        ["gift", "string"],
    ]


def test_schema_refuses_an_unknown_table_and_a_missing_lake(folder: Path) -> None:
    with pytest.raises(UnknownSelectionError):
        api.schema(folder, "order")
    (folder / "frazil.yml").write_text(DECLARATION.format(rest="").replace("./lake", "./other"))
    with pytest.raises(StorageError):
        api.schema(folder, "orders")
