"""A pipeline of one table with two marts, in a folder of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

import frazil
from frazil.engine.options import RunOptions
from frazil.lake.session import spark_session
from frazil.plan.policy import DEFAULT_POLICY, Policy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.engine.report import TableReport
    from frazil.spec import Pipeline

_DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: dms, path: ./landing, header: true}
    keys: [id]
    sequence_by: [ts]
    columns: [{name: id, type: bigint}, {name: ts, type: timestamp}, {name: note, type: string}]
    marts: [{kind: current}, {kind: history}]
"""


@dataclass(frozen=True)
class Shop:
    """Orders with a current and a history table."""

    pipeline: Pipeline
    session: SparkSession
    policy: Policy = DEFAULT_POLICY

    def by(self, **thresholds: Any) -> Shop:
        """The same shop, its runs with other thresholds."""
        return replace(self, policy=Policy(**thresholds))

    def land(self, name: str, *records: str, names: Sequence[str] = ("id", "ts", "note")) -> None:
        """Put a file of records into the landing folder, each an ``op`` and the fields named."""
        text = "".join(f"{record}\n" for record in (",".join(["op", *names]), *records))
        (self.pipeline.folder / "landing" / name).write_text(text, encoding="utf-8")

    def run(self) -> TableReport:
        """Run; the report of the one table."""
        [table] = frazil.run(self.pipeline, spark=self.session, options=RunOptions(policy=self.policy)).tables
        return table

    def run_again(self) -> int:
        """Run with nothing new; how many steps that took."""
        return frazil.run(self.pipeline, spark=self.session, options=RunOptions(policy=self.policy)).steps


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    """A shop without orders."""
    del spark  # only there so that Java runs
    (tmp_path / "landing").mkdir()
    (tmp_path / "frazil.yml").write_text(_DECLARATION, encoding="utf-8")
    pipeline = frazil.load(tmp_path)
    return Shop(pipeline, spark_session(pipeline))
