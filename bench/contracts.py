"""CPU cost of rules and of bad records: ``python -m bench.contracts [rows]``.

Three lakes with the same tables load the same batches in turn. The first has no rules, the second ten rules on single
records. The third has ten rules too, three of them on whole marts. Then one lake loads a million clean changes, and
another one the same changes with 1 % bad records.
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
from frazil.plan.policy import Policy
from frazil.runner.options import RunOptions
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from frazil.runner.report import TableReport

_DECLARATION: Final = """\
pipeline: {name}
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{kind: dms, path: ./landing/orders, header: true, settle_seconds: 0}}
    keys: [id]
    sequence_by: [ts]
    columns: [{columns}]
    rules: [{rules}]
  - {{name: customers, source: {{kind: dms, path: ./landing/customers, header: true, settle_seconds: 0}},
     keys: [customer], columns: [{{name: customer, type: int}}, {{name: name}}]}}
"""
_TYPES: Final = {
    "id": "bigint",
    "ts": "timestamp",
    "code": "string",
    "customer": "int",
    "status": "string",
    "quantity": "int",
    "total": "decimal(12,2)",
    "country": "string",
    "ordered_on": "date",
    "note": "string",
}
_OF_RECORDS: Final = {
    "code": "nullable: false, max_length: 20",
    "status": "accepted_values: [new, paid, sent], nullable: false",
    "quantity": "min: 1, max: 1000",
    "total": "min: 0",
}
_MORE_OF_RECORDS: Final = _OF_RECORDS | {"country": 'pattern: "^[A-Z]{2}$"', "ordered_on": "min: 2020-01-01"}
_EXPR: Final = '{name: small, expr: "quantity * total < 100000000", on_violation: warn}'
_OF_MARTS: Final = (
    "{name: one_code, unique: [code]}, {name: known, references: {columns: [customer], to: customers}}, "
    "{name: size, row_count: {min: 1, max_decrease_fraction: 0.5}}"
)
_LAKES: Final = {
    "no rules": ({}, ""),
    "ten rules of records": (_MORE_OF_RECORDS, _EXPR),
    "ten rules, three of whole marts": (_OF_RECORDS, _OF_MARTS),
}
_CHANGES: Final = 50_000
_MANY: Final = 1_000_000
_CUSTOMERS: Final = 10_000
_SECONDS_OF_2026: Final = 1_767_225_600
_OPTIONS: Final = RunOptions(policy=Policy(merge_every=1_000_000, compact_every=1_000_000))
"""Files are not compacted meanwhile: that is work of other batches."""


class Lake:
    """A folder with a declaration, what lands there, and what each batch took.

    Attributes:
        cpu: CPU seconds of each batch.
    """

    def __init__(self, folder: Path, columns: dict[str, str], rules: str) -> None:
        self.folder, self.number, self.cpu = folder, 0, list[float]()
        declared = ", ".join(
            "{" + ", ".join(filter(None, (f"name: {name}", f'type: "{kind}"', columns.get(name)))) + "}"
            for name, kind in _TYPES.items()
        )
        for table in ("orders", "customers"):
            (folder / "landing" / table).mkdir(parents=True)
        text = _DECLARATION.format(name=folder.name, columns=declared, rules=rules)
        (folder / "frazil.yml").write_text(text, encoding="utf-8")
        self.pipeline = frazil.load(folder)

    def take(self, table: str, rows: pa.Table) -> TableReport:
        """Land rows, run, and measure it."""
        self.number += 1
        csv.write_csv(rows, self.folder / "landing" / table / f"2026010{self.number // 10}-{self.number:09}.csv")
        spark = spark_session(self.pipeline)
        with Meter() as meter:
            report = frazil.run(self.pipeline, spark=spark, options=_OPTIONS)
        self.cpu.append(meter.reading.cpu_s)
        return next(one for one in report.tables if one.table == table)


def records(ops: np.ndarray, ids: np.ndarray, number: int, bad: float = 0.0) -> pa.Table:
    """Make change records of a batch; a share of them has a status that no contract accepts, or no number."""
    chosen = np.random.default_rng(number)
    count = len(ids)
    status = chosen.choice(["new", "paid", "sent"], count).astype(object)
    quantity = chosen.integers(1, 900, count).astype("U8").astype(object)
    wrong = np.flatnonzero(chosen.random(count) < bad)
    status[wrong[::2]], quantity[wrong[1::2]] = "lost", "many"
    times = pa.array((_SECONDS_OF_2026 + number * 3600 + np.arange(count) % 3600) * 1_000_000, pa.timestamp("us"))
    ids_text = pa.array(ids).cast(pa.string())
    return pa.table(
        {
            "op": pa.array(ops),
            "id": ids,
            "ts": pc.strftime(times, "%Y-%m-%d %H:%M:%S"),
            "code": pc.binary_join_element_wise("C", ids_text, ""),
            "customer": chosen.integers(1, _CUSTOMERS, count),
            "status": pa.array(status, pa.string()),
            "quantity": pa.array(quantity, pa.string()),
            "total": pa.array(chosen.integers(0, 10**6, count) / 100),
            "country": chosen.choice(["CH", "DE", "FR"], count),
            "ordered_on": chosen.choice(["2026-01-01", "2025-12-31"], count),
            "note": pc.binary_join_element_wise("note of ", ids_text, ""),
        }
    )


def batch(rows: int, number: int, changes: int, bad: float = 0.0) -> pa.Table:
    """Make a batch: of ten changes seven are updates, two inserts and one is a delete."""
    chosen = np.random.default_rng(number)
    new = rows + number * changes + np.arange(changes // 5)
    old = chosen.choice(rows, changes - len(new), replace=False) + 1
    ops = np.array(["I"] * len(new) + ["D"] * (changes // 10) + ["U"] * (len(old) - changes // 10))
    order = chosen.permutation(changes)
    return records(ops[order], np.concatenate([new, old])[order], number, bad)


def main(rows: int, rounds: int = 9) -> None:
    """Measure small batches in all lakes, then large ones that are clean and not."""
    with tempfile.TemporaryDirectory() as name:
        lakes = {what: Lake(Path(name) / f"l{at}", *_LAKES[what]) for at, what in enumerate(_LAKES)}
        load = records(np.full(rows, "I"), np.arange(1, rows + 1), 0)
        customers = pa.table(
            {"op": ["I"] * _CUSTOMERS, "customer": np.arange(1, _CUSTOMERS + 1), "name": ["x"] * _CUSTOMERS}
        )
        for lake in lakes.values():
            lake.take("customers", customers)
            lake.take("orders", load)
        for number in range(1, rounds + 1):
            changes = batch(rows, number, _CHANGES)
            for lake in lakes.values():
                [mart] = lake.take("orders", changes).marts
        print(f"{_CHANGES:,} changes on {rows:,} rows, {mart.strategy}; load {os.getloadavg()[0]:.1f}")
        base = _shown("no rules", lakes["no rules"].cpu[4:])
        for what in [*lakes][1:]:
            _shown(what, lakes[what].cpu[4:], base)
        clean, spoilt = lakes["no rules"], lakes["ten rules of records"]
        clean.cpu.clear()
        del lakes["ten rules, three of whole marts"], clean
        other = Lake(Path(name) / "clean", *_LAKES["ten rules of records"])
        other.take("orders", load)
        for lake in (other, spoilt):
            lake.cpu.clear()
        for number in range(rounds + 1, rounds + 5):
            for lake, bad in ((other, 0.0), (spoilt, 0.01)):
                report = lake.take("orders", batch(max(rows, _MANY), number, _MANY, bad))
        print(
            f"{_MANY:,} changes, {report.marts[0].strategy}, {report.quarantined:,} bad; load {os.getloadavg()[0]:.1f}"
        )
        _shown("1 % bad", spoilt.cpu[1:], _shown("clean", other.cpu[1:]))


def _shown(what: str, cpu: list[float], base: float | None = None) -> float:
    """Print the median of some measurements beside the base's median, and return it."""
    middle = statistics.median(cpu)
    more = "" if base is None else f", {100 * (middle / base - 1):+.0f} %"
    print(f"  {what}: {middle:.2f} s CPU{more} ({', '.join(f'{one:.2f}' for one in sorted(cpu))})", flush=True)
    return middle


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
