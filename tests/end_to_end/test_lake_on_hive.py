"""A lake whose catalog is a real Hive metastore, by the command as users have it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.end_to_end.command import frazil

from frazil import api
from frazil.testing.hive import hive_metastore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.server, pytest.mark.spark]

DECLARATION = """\
pipeline: shop
lake: {{warehouse: ./lake, catalog: {{type: hive, uri: "{uri}"}}}}
tables:
  - name: orders
    source: {{kind: dms, path: ./landing, header: true}}
    keys: [id]
    sequence_by: [updated_at]
    columns: [{{name: id, type: int}}, {{name: city}}, {{name: updated_at, type: timestamp}}]
    marts:
      - {{kind: current, deletes: soft, live_view: orders_live}}
      - {{kind: history}}
gold:
  - {{name: cities, sql: "SELECT city, count(*) AS orders FROM {{{{ orders }}}} WHERE NOT is_deleted GROUP BY city"}}
"""
LOAD = "id,city,updated_at\n1,Oslo,2026-01-01 00:00:00\n2,Rome,2026-01-01 00:00:00\n"
CHANGES = "op,id,city,updated_at\nU,1,Bergen,2026-01-02 00:00:00\nD,2,,2026-01-02 00:00:00\n"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lake of two batches, while its metastore runs."""
    folder = tmp_path_factory.mktemp("hive")
    (folder / "landing").mkdir(parents=True)
    (folder / "landing" / "LOAD00000001.csv").write_text(LOAD)
    with hive_metastore() as uri:
        (folder / "frazil.yml").write_text(DECLARATION.format(uri=uri))
        frazil(folder, "run")
        (folder / "landing" / "20260102-000000000.csv").write_text(CHANGES)
        assert "ingest 1 file" in frazil(folder, "plan", java=False)
        frazil(folder, "run")
        yield folder


@pytest.mark.laws
def test_a_lake_is_kept_by_a_hive_metastore_and_read_without_java(shop: Path) -> None:
    assert json.loads(frazil(shop, "run", "--json", java=False))["tables"][0]["outcome"] != "done"
    assert api.query(shop, "select id, city, is_deleted from marts.orders order by 1").rows == [
        (1, "Bergen", False),
        (2, "Rome", True),
    ]
    assert api.query(shop, "select city, orders from gold.cities").rows == [("Bergen", 1)]
    assert "Bergen" in frazil(shop, "key", "orders", "1", java=False)
    assert "batch 2" in frazil(shop, "status", java=False)
    assert "proofs hold" in frazil(shop, "check", java=False)


@pytest.mark.laws
def test_it_is_maintained_and_a_key_is_erased(shop: Path) -> None:
    maintained = json.loads(frazil(shop, "maintain", "--json"))
    assert {"marts.orders", "marts.orders_history"} <= {one["table"] for one in maintained}
    frazil(shop, "erase", "--select", "orders", "--key", "2", "--yes")
    assert api.query(shop, "select id from marts.orders").rows == [(1,)]
    assert "proofs hold" in frazil(shop, "check", java=False)
