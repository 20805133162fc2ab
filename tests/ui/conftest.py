"""A small lake for the page: late, deleted, quarantined and hostile rows, personal data, and a bitemporal history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import frazil
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DECLARATION = """\
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: items
    source: {kind: dms, path: ./landing, header: true, settle_seconds: 0}
    keys: [id]
    sequence_by: [ts]
    columns:
      - {name: id, type: int}
      - {name: ts, type: timestamp}
      - {name: name, type: string}
      - {name: price, type: "decimal(10,2)"}
      - {name: mail, type: string, pii: mask}
    marts:
      - {kind: current}
      - {kind: history, bitemporal: true}
gold:
  - {name: prices, sql: "select count(*) as items, sum(price) as total from {{ items }}"}
"""
HOSTILE = "<script>alert(1)</script>"
BIDI = "invoice\u202egpj.exe"
HEAD = "op,id,ts,name,price,mail\n"
FIRST = {
    "LOAD00000001.csv": f"""\
I,1,2026-01-01 08:00:00,ice,1.10,a@x.org
I,2,2026-01-01 08:00:00,snow,2.20,b@x.org
I,3,2026-01-01 08:00:00,{HOSTILE},3.30,c@x.org
""",
    "20260105-000000001.csv": f"""\
I,4,2026-01-02 10:00:00,hail,four,d@x.org
U,1,2026-01-05 08:00:00,ice,1.50,a@x.org
D,2,2026-01-02 09:00:00,snow,2.20,b@x.org
I,6,2026-01-02 11:00:00,{BIDI},5.00,e@x.org
I,7,2026-01-02 11:00:00,=1+1,6.00,e@x.org
""",
}
SECOND = {
    "20260107-000000001.csv": """\
U,1,2026-01-03 20:00:00,ice,1.30,a@x.org
U,1,2026-01-06 08:00:00,ice,1.70,a@x.org
"""
}


@pytest.fixture(scope="session")
def project(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the lake after two runs; the second one brings a late change of key 1."""
    del spark  # only there so that Java runs, with the settings of the tests
    folder = tmp_path_factory.mktemp("page")
    (folder / "landing").mkdir()
    (folder / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    spark_session(frazil.load(folder))
    for files in (FIRST, SECOND):
        for name, text in files.items():
            (folder / "landing" / name).write_text(HEAD + text, encoding="utf-8")
        frazil.run(folder)
    return folder
