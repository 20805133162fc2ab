"""Of each table it is said that its source was not looked at, and with what it is; and what brings lost rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.failing import run_fails_with
from tests.shop import declared

from frazil import api
from frazil.errors import FrazilError
from frazil.serve.check.compare import way_to_lost_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

_DECLARATION = """
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{kind: {source}}}
    keys: [id]
    columns: [{{name: id, type: int}}, {{name: v}}]
"""
POSTGRES = "postgres, url: postgresql://nowhere/shop, table: public.orders, slot: frazil, landing: ./landing"
AUDIT_LOG = "audit_log, url: postgresql://nowhere/shop, log: public.log, table: public.orders, landing: ./landing"
SNAPSHOT = "snapshot, url: postgresql://nowhere/shop, table: public.orders, landing: ./landing"
DMS = "dms, path: ./landing"


@pytest.mark.parametrize(
    ("source", "compare", "way"),
    [
        (POSTGRES, "--source", "frazil capture --reload orders; frazil run"),
        (AUDIT_LOG, "--source", "triggers log them"),
        (SNAPSHOT, "--source", "frazil capture --select orders"),
        (DMS, "--against DUMP", "a new full load"),
    ],
)
def test_a_table_names_what_compares_it_and_what_brings_lost_rows(
    tmp_path: Path, source: str, compare: str, way: str
) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "frazil.yml").write_text(_DECLARATION.format(source=source), encoding="utf-8")

    [said] = api.not_compared(tmp_path)

    assert (said.source_table, said.law, said.ok) == ("orders", "SOURCE", None)
    assert said.hint == f"frazil check {compare} --select orders"
    pipeline = api.load(tmp_path)
    assert way in way_to_lost_rows(pipeline, pipeline.tables[0])


@pytest.mark.spark
def test_a_difference_of_a_stopped_table_names_the_failure_and_its_way_out(spark: SparkSession, tmp_path: Path) -> None:
    """To read the table again would not help."""
    del spark  # only there so that Java runs
    shop = declared(
        tmp_path,
        keys="id",
        columns="{name: id, type: int}, {name: ts, type: timestamp}, {name: note}",
        marts="{kind: current}",
    )
    shop.land("20260101.csv", "I,1,2026-01-01 00:00:00,ada")
    shop.run()
    shop.land("20260101.csv", "I,1,2026-01-01 00:00:00,ada", "I,2,2026-01-02 00:00:00,bob")
    with run_fails_with(FrazilError):
        shop.run()
    dump = tmp_path / "dump.csv"
    dump.write_text("id,ts,note\n1,2026-01-01 00:00:00,ada\n2,2026-01-02 00:00:00,bob\n", encoding="utf-8")

    [differs] = api.check_source(shop.pipeline, against=dump)
    dump.write_text("id,ts,note\n1,2026-01-01 00:00:00,ada\n", encoding="utf-8")
    [same] = api.check_source(shop.pipeline, against=dump)

    assert differs.ok is False
    assert "its newest run failed ([FZ701] " in differs.detail
    assert "put the old content back" in (differs.hint or "")
    assert (same.ok, "failed" in same.detail) == (True, False)
