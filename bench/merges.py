"""Cost of many batches, with the merging of small files: ``python -m bench.merges [rows]``.

A table with a current mart and a history takes 48 batches of 5,000 changes in one process. Prints the median and the
maximum of the batches, the share of merging, and after some batches the cost of reading the mart relative to a fresh
copy.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

import frazil
from bench.beside import Beside
from bench.meter import Meter

_BATCHES: Final = 48
_CHANGES: Final = 5_000
_WARM: Final = 12
_READ_AFTER: Final = frozenset({24, 27, 30, 33, 36})


def main(rows: int) -> None:
    """Take the batches; exit 1 where rows are wrong."""
    with tempfile.TemporaryDirectory(prefix="frazil-merges-") as name:
        lake = Beside(Path(name), rows)
        pipeline = frazil.load(name)
        frazil.run(pipeline, spark=lake.spark)
        plain, merging = list[float](), list[float]()
        for number in range(1, _BATCHES + 1):
            lake.change(_CHANGES)
            with Meter() as meter:
                report = frazil.run(pipeline, spark=lake.spark)
            if number > _WARM:
                is_merging = any(mart.compacted for mart in report.tables[0].marts)
                (merging if is_merging else plain).append(meter.reading.cpu_s)
            if number in _READ_AFTER:
                lake.read()
        usual, total = statistics.median(plain), sum(plain) + sum(merging)
        share = sum(merging) - len(merging) * usual
        print(
            f"{len(plain) + len(merging)} batches of {_CHANGES:,} changes on {rows:,} rows: {usual:.2f} s CPU in the "
            f"middle, {total / (len(plain) + len(merging)):.2f} on average; {len(merging)} of them merged "
            f"files, the dearest took {max(merging):.2f}; merging took {share / total:.0%} of all"
        )
        sys.exit(lake.is_wrong())


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 1_000_000)
