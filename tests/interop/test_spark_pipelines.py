"""The file for Spark 4.3's AUTO CDC, run with a recorder in the place of ``pyspark.pipelines``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from frazil import api
from frazil.cli.main import app

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DECLARATION = """
pipeline: 'a "\\"\\"shop'
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: dms, path: ./landing, header: true}
    keys: [id]
    sequence_by: [updated_at]
    columns: [{name: id, type: int}, {name: updated_at, type: timestamp}, {name: "it's odd"}]
    marts:
      - {kind: current}
      - {kind: current, name: orders_soft, deletes: soft}
      - {kind: history, track_history_columns: ["it's odd"]}
gold:
  - {name: second, sql: "select n from {{ first }}"}
  - {name: first, sql: "select count(*) as n from {{ orders }} where `it's odd` <> 'a\\"b'"}
"""


class Recorder:
    """Notes what is declared; takes the parameters that Spark 4.3 has, and no others."""

    def __init__(self) -> None:
        self.tables: list[str] = []
        self.flows: dict[str, dict[str, Any]] = {}
        self.queries: dict[str, Callable[[], Any]] = {}

    def create_streaming_table(self, name: str, *, format: str | None = None) -> None:  # noqa: A002
        assert format == "iceberg"
        self.tables.append(name)

    def create_auto_cdc_flow(
        self,
        *,
        target: str,
        source: str,
        keys: list[str],
        sequence_by: Any,
        apply_as_deletes: Any = None,
        except_column_list: list[str] | None = None,
        stored_as_scd_type: int = 1,
        track_history_column_list: list[str] | None = None,
        track_history_except_column_list: list[str] | None = None,
    ) -> None:
        self.flows[target] = {name: value for name, value in locals().items() if name not in ("self", "target")}

    def temporary_view(self, *, name: str) -> Callable[[Any], Any]:
        return lambda function: self.queries.setdefault(name, function)

    def materialized_view(self, *, name: str, format: str | None = None) -> Callable[[Any], Any]:  # noqa: A002
        assert format == "iceberg"
        return lambda function: self.queries.setdefault(name, function)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    return tmp_path


def declared(text: str) -> Recorder:
    """Run the file; columns are what they are called, and SQL is its text."""
    recorder, spark = Recorder(), SimpleNamespace(sql=str, readStream=SimpleNamespace(table=str))
    functions = SimpleNamespace(struct=lambda *names: names, expr=str)
    modules: dict[str, Any] = {
        "pyspark": SimpleNamespace(pipelines=recorder),
        "pyspark.sql": SimpleNamespace(SparkSession=SimpleNamespace(active=lambda: spark), functions=functions),
    }

    def found(name: str, *_: Any, **__: Any) -> Any:
        return modules[name]

    exec(compile(text, "shop.py", "exec"), {"__builtins__": {"__import__": found}, "__name__": "shop"})  # noqa: S102
    return recorder


def test_marts_are_auto_cdc_flows_over_the_typed_changes(folder: Path) -> None:
    made = declared(api.spark_pipelines(folder))

    assert made.tables == [*made.flows] == ["marts.orders", "marts.orders_soft", "marts.orders_history"]
    assert made.queries["changes_of_orders"]() == "`lake`.`silver`.`orders_changes`"
    orders, history = made.flows["marts.orders"], made.flows["marts.orders_history"]
    assert (orders["source"], orders["keys"], orders["stored_as_scd_type"]) == ("changes_of_orders", ["id"], 1)
    assert orders["sequence_by"] == ("updated_at", "_cdc_position", "_cdc_row")
    assert orders["apply_as_deletes"] == "_cdc_class = 'delete'"
    assert "_cdc_class" in orders["except_column_list"]
    assert (history["stored_as_scd_type"], history["track_history_column_list"]) == (2, ["it's odd"])


def test_aggregates_are_materialized_views_each_after_what_it_reads(folder: Path) -> None:
    made = declared(api.spark_pipelines(folder))

    assert [name for name in made.queries if name.startswith("gold.")] == ["gold.first", "gold.second"]
    assert made.queries["gold.second"]() == "select n from `lake`.`gold`.`first`"
    assert "`lake`.`marts`.`orders` where `it's odd` <> 'a\"b'" in made.queries["gold.first"]()


def test_the_export_notes_what_auto_cdc_lacks(folder: Path) -> None:
    file = folder / "shop.py"

    ended = CliRunner().invoke(app, ["export", "spark-pipelines", f"{folder}", "--to", f"{file}"])

    assert ended.exit_code == 0, ended.output
    text = file.read_text(encoding="utf-8")
    assert text == api.spark_pipelines(folder)
    assert text.count("# not in AUTO CDC: deletes: soft") == 1
    shown = CliRunner().invoke(app, ["export", "spark-pipelines", f"{folder}", "--json"])
    assert '"python": ' in shown.output
