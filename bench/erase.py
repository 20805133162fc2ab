"""What it costs to erase a thousand subjects from a table with a year of history: ``python -m bench.erase [rows]``."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import fastavro
import pyarrow.parquet as pq

import frazil
from bench.meter import Meter, Reading
from frazil import api
from frazil.runner.sessions import table_session
from frazil.spark.gateway import call
from frazil.spark.session import spark_session
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline

SUBJECTS: Final = 1_000
MONTHS: Final = 12
MONTHLY_SHARE: Final = 0.05
"""So many of the rows change each month."""
_DECLARATION: Final = """\
pipeline: people
lake: {warehouse: ./lake}
tables:
  - name: people
    source: {kind: dms, path: ./landing, header: true}
    keys: [email]
    sequence_by: [ts]
    columns:
      [{name: email}, {name: ts, type: timestamp}, {name: city}, {name: amount, type: "decimal(12,2)"}, {name: note}]
    marts: [{kind: current}, {kind: history}]
"""
_RECORDS: Final = """\
COPY (SELECT '{op}' AS "Op", 'subject' || lpad(i::VARCHAR, 9, '0') || '@example.org' AS email,
    strftime(TIMESTAMP '2025-01-01' + INTERVAL ({day}) DAY, '%Y-%m-%d %H:%M:%S') AS ts,
    'city ' || (hash(i, {day}) % 500) AS city, ((hash(i, {day}) % 1000000) / 100)::DECIMAL(12, 2) AS amount,
    'note ' || hash(i, {day}, 1) AS note
    FROM (SELECT {key} AS i FROM range({count}) AS r(n))) TO '{file}' (HEADER)"""
_WORD: Final = re.compile(rb"subject\d{9}@example\.org")
_ROWS: Final = "SELECT count(*), sum(hash(m)::HUGEINT)::VARCHAR FROM marts.{0} AS m WHERE email NOT IN ({1})"


def main(rows: int) -> None:
    """Make a year of history, rewrite a copy of it, erase, and look at every byte that is left.

    The erase and the rewrite begin with the same files, and each has a process of its own with a Java that is as new.
    """
    with tempfile.TemporaryDirectory(prefix="frazil-erase-") as name:
        folder, kept = Path(name) / "made", Path(name) / "kept"
        (folder / "landing").mkdir(parents=True)
        (folder / "frazil.yml").write_text(_DECLARATION, encoding="utf-8")
        _alone("make", folder, rows)
        subjects = _subjects(rows)
        before = _others(folder, subjects)
        told = f"{counted(rows, 'row')}, {MONTHS} months of {MONTHLY_SHARE:.0%} changes"
        print(f"{told}: {_occurrences(folder, subjects)} occurrences, {_size(folder) / 1e6:.0f} MB", flush=True)
        # Iceberg knows its files by their whole paths: the copy takes the place of what was written again.
        shutil.copytree(folder, kept)
        rewrite = _alone("rewrite", folder, rows)
        shutil.rmtree(folder)
        kept.rename(folder)
        print(f"a full rewrite of its tables: CPU {rewrite.cpu_s:.1f} s, wall {rewrite.wall_s:.1f} s", flush=True)
        erase = _alone("erase", folder, rows)
        print(f"erase of {len(subjects):,}: CPU {erase.cpu_s:.1f} s, wall {erase.wall_s:.1f} s", flush=True)
        same = before == _others(folder, subjects)
        print(f"left: {_occurrences(folder, subjects)} occurrences; others unchanged: {same}")
        ratio = erase.cpu_s / rewrite.cpu_s
        print(f"the erase took {ratio:.2f} rewrites of CPU; other processes took {erase.other_share:.0%}")


def _alone(work: str, folder: Path, rows: int) -> Reading:
    """Do one of the pieces of work in a process of its own; return what it took once Spark was there."""
    command = [sys.executable, "-m", "bench.erase", work, f"{folder}", f"{rows}"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Reading(**json.loads(done.stdout.splitlines()[-1]))


def _do(work: str, folder: Path, rows: int) -> None:
    pipeline = frazil.load(folder)
    spark = spark_session(pipeline)
    with Meter() as meter:
        if work == "make":
            _make(pipeline, spark, rows)
        elif work == "rewrite":
            _rewrite(pipeline, spark)
        else:
            api.erase(pipeline, "people", keys=_subjects(rows), spark=spark)
    spark.stop()
    print(json.dumps(meter.reading.as_values()))


def _subjects(rows: int) -> list[str]:
    return [f"subject{number * (rows // SUBJECTS):09}@example.org" for number in range(SUBJECTS)]


def _make(pipeline: Pipeline, spark: SparkSession, rows: int) -> None:
    """Load the rows, and change a share of them each month, a run each."""
    loads = [("I", 0, rows, "n", "LOAD00000001.csv")]
    count = int(rows * MONTHLY_SHARE)
    for month in range(1, MONTHS + 1):
        # Every second month's changes are those of the subjects too.
        key = f"n * {rows // count}" if month % 2 else f"(n * 7919 + {month}) % {rows}"
        loads.append(("U", 30 * month, count, key, f"2025{month:02}01-000000000.csv"))
    for op, day, many, key, file in loads:
        path = pipeline.folder / "landing" / file
        duckdb.sql(_RECORDS.format(op=op, day=day, count=many, key=key, file=path))
        frazil.run(pipeline, spark=spark)


def _others(folder: Path, subjects: list[str]) -> list[Any]:
    """Return number and hash of the rows of all others, in each mart."""
    names = ", ".join(f"'{subject}'" for subject in subjects)
    return [api.query(folder, _ROWS.format(mart, names)).rows for mart in ("people", "people_history")]


def _rewrite(pipeline: Pipeline, spark: SparkSession) -> None:
    """Write all files of all tables that an erase looks at again, once, as large as an erase makes them."""
    size = pipeline.upkeep.target_file_mb * 1024 * 1024
    options = f"options => map('rewrite-all', 'true', 'target-file-size-bytes', '{size}')"
    with table_session(pipeline, pipeline.tables[0], spark) as context:
        made = context.tables
        for one in (made.bronze, *made.computed):
            call(context.spark, one.path, "rewrite_data_files", options)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "lake").rglob("*") if path.is_file())


def _occurrences(folder: Path, subjects: list[str]) -> int:
    """Count the subjects' addresses in every file of the lake: in its bytes, and in what these are packed of."""
    wanted = {subject.encode() for subject in subjects}
    files = (path for path in (folder / "lake").rglob("*") if path.is_file())
    return sum(word in wanted for path in files for piece in _pieces(path) for word in _WORD.findall(piece))


def _pieces(path: Path) -> Iterator[bytes]:
    yield path.read_bytes()
    if path.suffix == ".parquet":
        for batch in pq.ParquetFile(path).iter_batches():
            for column in batch.columns:
                yield b"".join(bytes(buffer) + b" " for buffer in column.buffers() if buffer is not None)
    elif path.suffix == ".avro":
        with path.open("rb") as file:
            for record in fastavro.reader(file):
                yield repr(record).encode()


if __name__ == "__main__":
    match sys.argv[1:]:
        case [work, at, many]:
            _do(work, Path(at), int(many))
        case [many]:
            main(int(many))
        case _:
            main(5_000_000)
