"""A pipeline of one table with two marts, in a folder of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import frazil
from frazil.plan.policy import DEFAULT_POLICY, Policy
from frazil.runner.options import RunOptions
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.runner.report import TableReport
    from frazil.spec import Pipeline


LONG = partial(pytest.param, marks=pytest.mark.laws)
"""A case that goes with the laws."""


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


def declared(folder: Path, *, keys: str, columns: str, marts: str, sequence_by: str = "ts", source: str = "") -> Shop:
    """Declare a shop in an empty folder: one table of orders, and the marts of it."""
    (folder / "landing").mkdir()
    (folder / "frazil.yml").write_text(
        f"""
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{kind: dms, path: ./landing, header: true{source}}}
    keys: [{keys}]
    sequence_by: [{sequence_by}]
    columns: [{columns}]
    marts: [{marts}]
""",
        encoding="utf-8",
    )
    pipeline = frazil.load(folder)
    return Shop(pipeline, spark_session(pipeline))
