"""Cost of partial changes: ``python -m bench.partial [rows] [changes] [share] [rounds]``.

A table with a current mart, one with soft deletes, and a history takes batches of updates in turn: one whose
changes carry every column, and one in which a share of the keys lacks some. Both change as many keys.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import frazil
from bench.meter import Meter
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Iterable

_DECLARATION = """\
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: dms, path: ./landing, header: true}
    keys: [order_id]
    sequence_by: [updated_at]
    columns:
      - {name: order_id, type: bigint}
      - {name: updated_at, type: timestamp}
      - {name: customer_id, type: int}
      - {name: status, type: string}
      - {name: amount, type: "decimal(12,2)"}
      - {name: paid, type: boolean}
      - {name: note, type: string}
      - {name: address, type: string}
    marts:
      - {kind: current}
      - {kind: current, deletes: soft, name: orders_soft}
      - {kind: history}
"""
_LACKED = ("note", "address")
_START = datetime(2026, 1, 1, tzinfo=UTC)


class Writer:
    """Writes files of changes, each newer than the one before."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._number = folder, 0
        folder.mkdir()

    def write(self, op: str, keys: Iterable[int], *, lacks: tuple[str, ...] = ()) -> None:
        """Write one change for each key."""
        self._number += 1
        when = _START + timedelta(hours=self._number)
        path = self._folder / f"{when:%Y%m%d-%H%M%S}000.csv"
        names = ["customer_id", "status", "amount", "paid", "note", "address"]
        kept = [name for name in names if name not in lacks]
        with path.open("w", encoding="utf-8") as file:
            file.write(",".join(["Op", "order_id", "updated_at", *kept]) + "\n")
            at = f"{when:%Y-%m-%d %H:%M:%S}"
            for key in keys:
                drawn = key * 2654435761 + self._number
                values = {
                    "customer_id": drawn % 9973,
                    "status": ("new", "paid", "sent", "back")[drawn % 4],
                    "amount": f"{drawn % 100000}.{drawn % 100:02}",
                    "paid": ("true", "false")[drawn % 2],
                    "note": f"note {drawn % 100003} of order {key}",
                    "address": f"{drawn % 997} High Street {drawn % 90000 + 10000} Town {drawn % 313}",
                }
                file.write(",".join([op, f"{key}", at, *(f"{values[name]}" for name in kept)]) + "\n")


def main(rows: int, changes: int, share: float, rounds: int) -> None:
    """Load the table, apply batches of both kinds in turn, and say what they cost."""
    with tempfile.TemporaryDirectory() as name:
        folder, chance = Path(name), Random(1)
        (folder / "frazil.yml").write_text(_DECLARATION, encoding="utf-8")
        writer = Writer(folder / "landing")
        writer.write("I", range(rows))
        pipeline = frazil.load(folder)
        spark = spark_session(pipeline)
        frazil.run(pipeline, spark=spark)
        costs: dict[str, list[float]] = {"whole": [], "partial": []}
        for number in range(-2, rounds):
            for kind, lacks in (("whole", ()), ("partial", _LACKED)):
                keys = chance.sample(range(rows), changes)
                some = int(share * changes)
                writer.write("U", keys[some:])
                writer.write("U", keys[:some], lacks=lacks)
                with Meter() as meter:
                    report = frazil.run(pipeline, spark=spark)
                if sum(table.quarantined for table in report.tables):
                    raise ValueError("records are in quarantine: the numbers mean nothing")
                taken = ", ".join(mart.strategy or "" for table in report.tables for mart in table.marts)
                cost = meter.reading
                print(f"{number} {kind}: {cost.wall_s:.2f} s, CPU {cost.cpu_s:.2f} s; {taken}", flush=True)
                if number >= 0:
                    costs[kind].append(cost.cpu_s)
        spark.stop()
    whole, partial = (statistics.median(costs[kind]) for kind in ("whole", "partial"))
    print(f"{share:.0%} of {changes:,} changes of {rows:,} rows are partial: CPU {partial:.2f} s, ", end="")
    print(f"{whole:.2f} s without: {partial / whole - 1:+.0%}; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    given = sys.argv[1:]
    main(
        int(given[0]) if given else 1_000_000,
        int(given[1]) if len(given) > 1 else 50_000,
        float(given[2]) if len(given) > 2 else 0.01,
        int(given[3]) if len(given) > 3 else 5,
    )
