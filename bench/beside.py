"""``maintain`` beside ``watch``: ``python -m bench.beside [minutes] [rows]``.

A process follows a table with a history, which gets a file of changes every four seconds. Another one maintains the
tables every other minute, and keeps twenty snapshots. Now and then Spark reads the mart, in turn with a fresh copy
of it. Ends with what both processes said, with the rows that there must be, and with ``frazil check``. The
bar of the project is an hour.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Final

import numpy as np
import psutil
import pyarrow as pa
from pyarrow import csv

import frazil
from frazil import api
from frazil.spark.session import spark_session

_DECLARATION: Final = """\
pipeline: beside
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: dms, path: ./landing, header: true, settle_seconds: 0}
    keys: [id]
    sequence_by: [number]
    effective_at: ts
    columns: [{name: id, type: bigint}, {name: number, type: bigint}, {name: ts, type: timestamp},
      {name: quantity, type: int}, {name: note}]
    marts: [{kind: current}, {kind: history}]
upkeep: {expire_after_days: 0, retain_last: 20, orphans_after_days: 1}
"""
_FILE_SECONDS, _MAINTAIN_SECONDS, _READ_SECONDS = 4.0, 120.0, 300.0
_MART, _COPY = "lake.marts.orders", "lake.bench.copy"
_CHANGES: Final = 1_000
_TURNS: Final = 13


class Beside:
    """A lake, what its table must be, and what was seen."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder, self.rows = folder, rows
        self.chosen = np.random.default_rng(1)
        self.expected: dict[int, int] = {}
        self.files, self.number, self.next_key = 0, 0, rows
        self.ended: int | None = None
        self.upkeeps: list[subprocess.Popen[bytes]] = []
        self.ratios: list[float] = []
        (folder / "landing").mkdir()
        (folder / "frazil.yml").write_text(_DECLARATION, encoding="utf-8")
        self.spark = spark_session(frazil.load(folder))
        self.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
        below = psutil.Process().children(recursive=True)
        self._java = max(below, key=lambda one: one.memory_info().rss)
        self.land(np.arange(rows), ["I"] * rows)

    def land(self, ids: np.ndarray[tuple[int], np.dtype[np.int64]], ops: list[str]) -> None:
        """Write a file of changes."""
        numbers = np.arange(self.number, self.number + len(ids))
        self.number += len(ids)
        quantities = self.chosen.integers(0, 1000, len(ids))
        for key, op, quantity in zip(ids.tolist(), ops, quantities.tolist(), strict=True):
            if op == "D":
                self.expected.pop(key, None)
            else:
                self.expected[key] = quantity
        columns = {
            "op": pa.array(ops),
            "id": pa.array(ids),
            "number": pa.array(numbers),
            "ts": pa.array(numbers * 1000, pa.timestamp("us")),
            "quantity": pa.array(quantities),
            "note": pa.array([f"note of {key}, change {number}" for key, number in zip(ids, numbers, strict=True)]),
        }
        hidden = self.folder / "landing" / ".new"
        csv.write_csv(pa.table(columns), hidden)
        hidden.rename(self.folder / "landing" / f"20260101-{self.files:09}.csv")
        self.files += 1

    def change(self, changes: int = _CHANGES) -> None:
        """Let some rows come, some change and some go."""
        new = np.arange(self.next_key, self.next_key + changes // 10)
        self.next_key += len(new)
        seen = self.chosen.integers(0, self.next_key, changes - 2 * len(new))
        gone = self.chosen.integers(0, self.next_key, len(new))
        self.land(np.concatenate([new, seen, gone]), ["I"] * len(new) + ["U"] * len(seen) + ["D"] * len(gone))

    def read(self) -> None:
        """Read the mart, and a fresh copy of it, in turn; keep how many times as much CPU the mart takes."""
        self.spark.catalog.refreshTable(_MART)
        self.spark.sql(f"CREATE OR REPLACE TABLE {_COPY} USING iceberg AS SELECT * FROM {_MART}")
        costs = [(self._read_s(_MART), self._read_s(_COPY)) for _ in range(_TURNS)][1:]
        one, other = (statistics.median(column) for column in zip(*costs, strict=True))
        self.ratios.append(one / other)
        print(f"  reading takes {one:.2f} s CPU, of a fresh copy {other:.2f}: {one / other:.2f} times", flush=True)

    def _read_s(self, name: str) -> float:
        """Return the CPU seconds that Java takes to read all columns."""
        before = self._java.cpu_times()
        self.spark.table(name).write.format("noop").mode("overwrite").save()
        after = self._java.cpu_times()
        return after.user + after.system - before.user - before.system

    def live(self, seconds: float) -> None:
        """Follow, maintain, change and read; then let both processes end what they do."""
        with (self.folder / "runs").open("w") as runs, (self.folder / "said").open("w") as said:
            watch = self._start("watch", out=runs, err=said)
            try:
                self._live_beside(watch, seconds, said)
            finally:
                watch.terminate()
                self.ended = watch.wait()

    def _live_beside(self, watch: subprocess.Popen[bytes], seconds: float, said: IO[str]) -> None:
        while not self.runs() and watch.poll() is None:
            time.sleep(_FILE_SECONDS)
        began = time.monotonic()
        read_at = upkeep_at = began
        while time.monotonic() < began + seconds and watch.poll() is None:
            self.change()
            is_idle = all(one.poll() is not None for one in self.upkeeps)
            if is_idle and time.monotonic() >= upkeep_at:
                self.upkeeps.append(self._start("maintain", out=subprocess.DEVNULL, err=said))
                upkeep_at = time.monotonic() + _MAINTAIN_SECONDS
            if time.monotonic() >= read_at:
                self.read()
                read_at = time.monotonic() + _READ_SECONDS
            time.sleep(_FILE_SECONDS)
        for one in self.upkeeps:
            one.wait()
        while sum(run["files"] for run in self.runs()) < self.files and watch.poll() is None:
            time.sleep(_FILE_SECONDS)

    def _start(self, command: str, *, out: IO[str] | int, err: IO[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "frazil", command, "--json", f"{self.folder}"], stdout=out, stderr=err
        )

    def runs(self) -> list[dict[str, int]]:
        """Return what each run of the follower did: files, and its exit code."""
        lines = (self.folder / "runs").read_text(encoding="utf-8").splitlines()
        return [
            {"files": sum(table["files"] for table in run["tables"]), "exit_code": run["exit_code"]}
            for run in map(json.loads, lines)
        ]

    def is_wrong(self) -> bool:
        """Print how many rows the mart has, and return whether they are others than there must be."""
        have: dict[int, int] = dict(api.query(self.folder, "SELECT id, quantity FROM marts.orders").rows)
        print(f"rows: {len(have):,}, {'right' if have == self.expected else 'WRONG'}")
        return have != self.expected

    def tell(self) -> bool:
        """Print what was seen; return whether all of it is right."""
        runs, upkeeps = self.runs(), [one.returncode for one in self.upkeeps]
        failed = sum(run["exit_code"] != 0 for run in runs)
        is_wrong = self.is_wrong()
        proofs = api.check(self.folder)
        wrong = [f"{finding}" for finding in proofs if finding.ok is False]
        files = sum(run["files"] for run in runs)
        print(f"watch: {len(runs):,} runs, {failed} failed, {files:,} of {self.files:,} files; ended with {self.ended}")
        print(f"maintain: {len(upkeeps):,} times, {sum(map(bool, upkeeps))} failed")
        print(f"{len(proofs)} proofs {wrong}")
        print(
            f"reading: {max(self.ratios):.2f} times a fresh copy at most, {statistics.median(self.ratios):.2f} mostly"
        )
        print((self.folder / "said").read_text(encoding="utf-8"))
        return not (is_wrong or failed or wrong or any(upkeeps) or self.ended) and files == self.files


def main(minutes: float, rows: int) -> None:
    """Live for some minutes; exit 1 if anything was wrong."""
    with tempfile.TemporaryDirectory(prefix="frazil-beside-") as name:
        beside = Beside(Path(name), rows)
        beside.live(60 * minutes)
        sys.exit(not beside.tell())


if __name__ == "__main__":
    given = [float(one) for one in sys.argv[1:]]
    main(given[0] if given else 60, int(given[1]) if given[1:] else 5_000_000)
