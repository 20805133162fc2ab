"""Where the receipt of an erase is put."""

from __future__ import annotations

import datetime as dt
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from frazil.audit import run_files
from frazil.erase import report as erase_report
from frazil.erase.report import EraseReport
from frazil.errors import StorageError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


class Refusing:
    """A warehouse that accepts only its catalog's tables."""

    def write(self, name: str, content: bytes) -> None:
        raise StorageError(f"{name}, {len(content)} bytes: denied")


@pytest.mark.parametrize("below", [None, Refusing()])
def test_a_receipt_is_beside_the_declaration_where_the_warehouse_takes_no_files(
    below: Refusing | None, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "files_place", lambda *_, **__: below)
    pipeline = SimpleNamespace(pipeline="shop", folder=tmp_path)
    context: Any = SimpleNamespace(pipeline=pipeline, spark=spark, now=dt.datetime.now(dt.UTC), bronze=("lake", "b"))
    report = EraseReport(table="customers", subjects=1, layers=(), erase_id="1")

    told = erase_report.write_receipt(context, report, spark.createDataFrame([("ab",)], "key_hash string"))

    assert told == f"{tmp_path}/.frazil/erased/1.json"
    assert json.loads((tmp_path / ".frazil" / "erased" / "1.json").read_text())["keys"] == ["ab"]
