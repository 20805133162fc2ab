"""What a change of the schema costs: ``python -m bench.widen [rows] [changes]``.

Three lakes of one table take a batch of updates: as it is declared; with a nullable column more; with an ``int`` that
is a ``bigint`` now. Says what each took, which data files of the mart are others than before, and whether Spark and
DuckDB read the same rows afterwards.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

import frazil
from bench.meter import Meter
from frazil import api
from frazil.plan.policy import Policy
from frazil.runner.options import RunOptions
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DECLARATION: Final = """\
pipeline: {name}
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{kind: dms, path: ./landing, header: true, settle_seconds: 0}}
    keys: [id]
    sequence_by: [ts]
    columns:
      - {{name: id, type: bigint}}
      - {{name: ts, type: timestamp}}
      - {{name: quantity, type: {quantity}}}
      - {{name: status}}
      - {{name: note}}{more}
    marts: [{{kind: current}}]
"""
_WAYS: Final = {
    "as it was": ("int", ""),
    "a column more": ("int", "\n      - {name: weight, type: int}"),
    "int to bigint": ("bigint", ""),
}
_SECONDS_OF_2026: Final = 1_767_225_600
_OPTIONS: Final = RunOptions(policy=Policy(merge_every=1_000_000, compact_every=1_000_000))
"""Files are not compacted meanwhile: that is work of other batches."""
_SUM: Final = "count(*), sum(id), sum(quantity), count(status), max(note)"


class Lake:
    """A lake of one table."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0
        (folder / "landing").mkdir(parents=True)
        self.declare("as it was")

    def declare(self, way: str) -> None:
        """Write the declaration."""
        quantity, more = _WAYS[way]
        text = _DECLARATION.format(name=self.folder.name, quantity=quantity, more=more)
        (self.folder / "frazil.yml").write_text(text, encoding="utf-8")

    def land(self, op: str, ids: np.ndarray, **more: object) -> None:
        """Write a file of changes that are newer than all before."""
        count, number = len(ids), self.number
        self.number += 1
        times = pa.array(np.full(count, (_SECONDS_OF_2026 + number * 3600) * 1_000_000), pa.timestamp("us"))
        texts = pa.array(ids).cast(pa.string())
        columns = {
            "op": pa.array([op] * count),
            "id": pa.array(ids),
            "ts": pc.strftime(times, "%Y-%m-%d %H:%M:%S"),
            "quantity": pa.array((ids * 7919 + number) % 1000),
            "status": pa.array(np.array(["new", "paid", "sent"])[ids % 3]),
            "note": pc.binary_join_element_wise("note of ", texts, ""),
        }
        if "weight" in more:
            columns["weight"] = pa.array(ids % 100)
        if "quantity" in more:
            columns["quantity"] = pa.array(ids + 3_000_000_000)
        csv.write_csv(pa.table(columns), self.folder / "landing" / f"20260101-{number:09}.csv")

    def run(self) -> float:
        """Run; give the CPU seconds."""
        pipeline = frazil.load(self.folder)
        spark = spark_session(pipeline)
        with Meter() as meter:
            report = frazil.run(pipeline, spark=spark, options=_OPTIONS)
        print(f"  {report.tables[0].marts[0].strategy}, {meter.reading.wall_s:.1f} s", flush=True)
        return meter.reading.cpu_s

    def spark(self) -> SparkSession:
        """Open a session on the lake."""
        return spark_session(frazil.load(self.folder))

    def files(self) -> set[str]:
        """Give the mart's data files."""
        return {row[0] for row in self.spark().sql("SELECT file_path FROM lake.marts.orders.data_files").collect()}

    def is_read_alike(self) -> bool:
        """Return whether Spark and DuckDB read the same."""
        [one] = self.spark().sql(f"SELECT {_SUM} FROM lake.marts.orders").collect()
        [other] = api.query(self.folder, f"SELECT {_SUM} FROM marts.orders").rows
        return [f"{value}" for value in one] == [f"{value}" for value in other]


def main(rows: int, changes: int, rounds: int = 3) -> None:
    """Load a lake, warm up, then change its schema and back in the same turn as batches that do not."""
    chosen = np.random.default_rng(1)
    usual: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        for way in [*_WAYS][1:]:
            lake = Lake(Path(name) / way.replace(" ", "-"))
            lake.land("I", np.arange(1, rows + 1))
            lake.run()
            for number in range(rounds + 1):
                lake.land("U", chosen.choice(rows, changes, replace=False) + 1)
                cost = lake.run()
                usual += [cost] if number else []
            before = lake.files()
            lake.declare(way)
            more = {"a column more": "weight", "int to bigint": "quantity"}[way]
            lake.land("U", chosen.choice(rows, changes, replace=False) + 1, **{more: True})
            cost = lake.run()
            base, gone = statistics.median(usual[-rounds:]), before - lake.files()
            print(
                f"{way}, {changes:,} changes on {rows:,} rows: {cost:.2f} s CPU, {base:.2f} s without "
                f"({cost / base:.2f} times); {len(gone)} of {len(before)} data files rewritten; "
                f"Spark and DuckDB read {'the same' if lake.is_read_alike() else 'DIFFERENT ROWS'}; "
                f"load {os.getloadavg()[0]:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    given = [int(one) for one in sys.argv[1:]]
    main(given[0] if given else 5_000_000, given[1] if len(given) > 1 else 50_000)
