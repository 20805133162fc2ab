"""Of each table it is said that its source was not looked at, and with what it is; and what brings lost rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frazil import api
from frazil.serve.check.compare import way_to_lost_rows

if TYPE_CHECKING:
    from pathlib import Path

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
