"""What a lake costs after years: ``python -m bench.years [batches] [changes] [--retention DAYS]``.

One table with a current mart takes batch after batch, each of one day: updates, inserts and deletes, one change in
twenty up to ten days late. Every fiftieth batch is followed by ``maintain``. Prints what the batches around the
hundredth took and what the last ones took: CPU seconds, bytes read, calls of read; then the storage, and how it
compares with the living rows alone. The bar of the project is 2,000 batches of 5,000 changes.
"""

from __future__ import annotations

import argparse
import datetime as dt
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

import frazil
from bench.meter import Meter
from frazil import api
from frazil.runner import planner
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DECLARATION: Final = """\
pipeline: years
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{kind: dms, path: ./landing, header: true, settle_seconds: 0}}
    keys: [id]
    sequence_by: [ts]
    columns:
      - {{name: id, type: bigint}}
      - {{name: ts, type: timestamp}}
      - {{name: quantity, type: int}}
      - {{name: note}}
    {retention}
    marts: [{{kind: current}}]
upkeep: {{expire_after_days: 0, retain_last: 1, orphans_after_days: 1}}
"""
_BEGIN: Final = dt.date(2020, 1, 1)
_LATE_SHARE, _LATE_DAYS, _DAY_US = 0.05, 10, 86_400_000_000
_MAINTAIN_EVERY: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one batch."""

    cpu_s: float
    read_bytes: int
    reads: int


class Years:
    """A lake, its living keys and its clock."""

    def __init__(self, folder: Path, changes: int, retention: int) -> None:
        self.folder, self.changes, self.number, self.next_key = folder, changes, 0, 1
        self.chosen, self.living = np.random.default_rng(1), np.empty(0, np.int64)
        (folder / "landing").mkdir(parents=True)
        text = _DECLARATION.format(retention=f"retention: {{changes_days: {retention}}}" if retention else "")
        (folder / "frazil.yml").write_text(text, encoding="utf-8")
        self.pipeline = frazil.load(folder)
        self.spark = spark_session(self.pipeline)

    def land(self) -> None:
        """Write the file of a day: the first ones fill the table, later ones insert as much as they delete."""
        share = 0.6 if self.number < 20 else 0.1
        count = int(share * self.changes)
        new = np.arange(self.next_key, self.next_key + count)
        self.next_key += count
        gone = self.chosen.choice(self.living, min(count, len(self.living)) if share < 0.5 else 0, replace=False)
        rest = self.changes - len(new) - len(gone)
        seen = self.chosen.choice(self.living, rest) if len(self.living) else new[:rest]
        ids = np.concatenate([new, seen, gone])
        ops = ["I"] * len(new) + ["U"] * len(seen) + ["D"] * len(gone)
        is_late = (self.chosen.random(len(ids)) < _LATE_SHARE) & (np.array(ops) == "U")
        late = np.where(is_late, self.chosen.integers(1, _LATE_DAYS, len(ids)), 0)
        day = (_BEGIN - dt.date(1970, 1, 1)).days + self.number
        times = (day - late) * _DAY_US + np.arange(len(ids)) * 1_000_000
        note = pc.binary_join_element_wise("note of ", pa.array(ids).cast(pa.string()), f"on day {self.number}", " ")
        columns = {
            "op": pa.array(ops),
            "id": pa.array(ids),
            "ts": pc.strftime(pa.array(times, pa.timestamp("us")), "%Y-%m-%d %H:%M:%S"),
            "quantity": pa.array(self.chosen.integers(0, 1000, len(ids))),
            "note": note,
        }
        csv.write_csv(pa.table(columns), self.folder / "landing" / f"20200101-{self.number:09}.csv")
        self.living = np.setdiff1d(np.union1d(self.living, new), gone)
        self.number += 1

    def run(self) -> Cost:
        """Let a day arrive and run."""
        self.land()
        present = _BEGIN + dt.timedelta(days=self.number)
        planner.today = lambda: present  # type: ignore[attr-defined]
        before = _read()
        with Meter() as meter:
            frazil.run(self.pipeline, spark=self.spark)
        after = _read()
        if self.number % _MAINTAIN_EVERY == 0:
            api.maintain(self.pipeline, spark=self.spark)
        return Cost(cpu_s=meter.reading.cpu_s, read_bytes=after[0] - before[0], reads=after[1] - before[1])

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the newest snapshot's files of each table."""
        names = ("bronze.orders", "silver.orders_changes", "marts.orders")
        found: dict[str, Any] = {}
        for name in names:
            rows = self.spark.sql(f"SELECT sum(file_size_in_bytes) AS n FROM lake.{name}.files").collect()
            found[name] = int(rows[0]["n"] or 0)
        return found


def _times_living(sizes: Mapping[str, int]) -> float:
    """Return how many times the storage of the living rows all tables take."""
    return sum(sizes.values()) / max(sizes["marts.orders"], 1)


def _read() -> tuple[int, int]:
    """Return the bytes that this process and its JVM have read, from disk or cache, and the calls of read."""
    own = psutil.Process()
    counters = [one.io_counters() for one in (own, *own.children(recursive=True))]
    return sum(one.read_chars for one in counters), sum(one.read_count for one in counters)


def _shown(costs: Sequence[Cost]) -> str:
    cpu, read, reads = (
        statistics.median(values) for values in zip(*((c.cpu_s, c.read_bytes, c.reads) for c in costs), strict=True)
    )
    return f"{cpu:.2f} s CPU, {read / 1e6:.1f} MB read, {reads:,.0f} reads"


def main(batches: int, changes: int, retention: int) -> None:
    """Live through the days; compare a window around the hundredth batch, or a twentieth of all, with the last one."""
    with tempfile.TemporaryDirectory() as name:
        years = Years(Path(name), changes, retention)
        costs = []
        for number in range(1, batches + 1):
            costs.append(years.run())
            if number % 20 == 0:
                print(f"  {number:,}: {_shown(costs[-10:])}; storage {_times_living(years.sizes()):.1f}", flush=True)
        window, at = max(min(100, batches // 5), 1), min(100, batches // 4)
        early, last = costs[max(at - window // 2, 0) : at + window // 2 or 1], costs[-window:]
        kept = f"retention {retention} days" if retention else "no retention"
        print(f"{batches:,} batches of {changes:,} changes, {kept}")
        print(f"  around the {at}th: {_shown(early)}; the last {len(last)}: {_shown(last)} (medians)")
        for kind in Cost.__slots__:
            one, other = (sum(getattr(cost, kind) for cost in some) / len(some) for some in (early, last))
            print(f"  {kind}: the last took {other / max(one, 1e-9):.2f} times as much on average, folds included")
        sizes = years.sizes()
        told = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sizes.items())
        print(f"  {len(years.living):,} living rows; {told}")
        print(f"  storage is {_times_living(sizes):.1f} times that of the living rows")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="bench.years")
    parser.add_argument("batches", nargs="?", type=int, default=2000)
    parser.add_argument("changes", nargs="?", type=int, default=5000)
    parser.add_argument("--retention", type=int, default=0, help="days; 0 keeps all changes")
    given = parser.parse_args()
    main(given.batches, given.changes, given.retention)
