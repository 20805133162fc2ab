"""What a cluster takes for a large table: ``python -m bench.scale [rows] [changes] [workers ...]``.

For each number of workers a standalone cluster of as many, each with one core, loads a table, and takes a batch of
changes. Both are the command ``frazil run`` as it is submitted: its start is counted. Ends with whether the mart has
the rows that DuckDB computes from the files. The bar of the project is 100 M rows and 1 M changes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.data import BUILD, ROOT
from bench.meter import Meter
from bench.process import Watch
from bench.truth import checksum_sql, expected
from frazil import api
from frazil.spark.jars import default_jars, ready_jars
from frazil.testing.generate import COLUMNS, generate
from frazil.testing.sample_files import SampleFiles
from frazil.testing.spark_cluster import spark_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.testing.generate import Generated
    from frazil.testing.spark_cluster import SparkCluster

_DECLARATION: Final = f"""\
pipeline: scale
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{kind: dms, path: ./landing, header: true, op: op, settle_seconds: 0}}
    keys: [id]
    sequence_by: [updated_at]
    columns: [{", ".join(f"{{name: {name}, type: '{kind}'}}" for name, kind in COLUMNS.items())}]
    marts: [{{kind: current}}]
"""
_COMMAND: Final = ROOT / "integrations" / "spark" / "run_frazil.py"
_ROWS_A_FILE: Final = 1_000_000
_MEMORY: Final = "4g"
"""Of the driver, and of each executor."""


def submit(cluster: SparkCluster, home: Path) -> None:
    """Run a project on the cluster; print what it took.

    Raises:
        subprocess.CalledProcessError: it failed; what it said is in ``driver.log`` of the cluster's folder.
    """
    settings = api.spark_conf(home, "standalone").settings
    conf = [word for name, text in settings.items() for word in ("--conf", f"{name}={text}")]
    jars = ",".join(map(str, ready_jars(default_jars())))
    sizes = ["--driver-memory", _MEMORY, "--executor-memory", _MEMORY]
    options = ["--master", cluster.master, *conf, "--jars", jars, *sizes]
    program = f"{Path(sys.executable).with_name('spark-submit')}"
    watch = Watch(os.getpid())
    with (cluster.folder / "driver.log").open("ab") as log, Meter() as meter:
        done = subprocess.run(
            [program, *options, f"{_COMMAND}", "run", f"{home}", "--json"],
            stdout=subprocess.PIPE,
            stderr=log,
            check=True,
            env={**os.environ, **cluster.environment},
        )
    watch.stop()
    [table] = json.loads(done.stdout)["tables"]
    taken, peak = meter.reading, max(watch.peak_bytes.values())
    print(
        f"  {table['rows']:,} records, {table['marts'][0]['strategy']}: {taken.wall_s:,.0f} s, "
        f"{taken.cpu_s:,.0f} s CPU, at most {peak / 2**30:.1f} GiB",
        flush=True,
    )


def live(workers: int, made: Generated, truth: str) -> bool:
    """Load a table and change it on a cluster; return whether its rows are right."""
    with (
        tempfile.TemporaryDirectory(prefix="frazil-scale-", dir=BUILD) as name,
        spark_cluster(workers=workers, memory=_MEMORY) as cluster,
    ):
        home = Path(name)
        (home / "landing").mkdir()
        (home / "frazil.yml").write_text(_DECLARATION, encoding="utf-8")
        print(f"{workers} {'worker' if workers == 1 else 'workers'}", flush=True)
        for files in (made.load, made.batches):
            for file in files:
                (home / "landing" / file.name).hardlink_to(file)
            submit(cluster, home)
        [[rows, total]] = api.query(home, checksum_sql("FROM marts.orders", COLUMNS)).rows
    is_right = f"{rows}:{total}" == truth
    print(f"  {rows:,} rows, {'right' if is_right else 'WRONG'}", flush=True)
    return is_right


def main(rows: int, changes: int, workers: Sequence[int]) -> None:
    """Make the files, and have them taken by clusters of some sizes; exit 1 where rows are wrong."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="frazil-scale-files-", dir=BUILD) as name:
        files = SampleFiles(rows=rows, batches=1, changes=changes, parts=max(1, rows // _ROWS_A_FILE))
        made = generate(Path(name), files)
        size = sum(file.stat().st_size for file in (*made.load, *made.batches))
        print(f"{rows:,} rows and {changes:,} changes, {size / 2**30:.1f} GiB of CSV", flush=True)
        truth = expected("current", made.load, made.batches, COLUMNS, Path(name) / "truth.json")
        are_right = [live(number, made, truth) for number in workers]
    sys.exit(not all(are_right))


if __name__ == "__main__":
    given = [*map(int, sys.argv[1:])]
    main(given[0] if given else 100_000_000, given[1] if given[1:] else 1_000_000, given[2:] or (1, 2))
