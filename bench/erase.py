"""What it costs to erase a thousand subjects from a table with a year of history: ``python -m bench.erase [rows]``."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import fastavro
import pyarrow.parquet as pq

import frazil
from bench.meter import Meter
from frazil import api
from frazil.engine.one_table import table_session
from frazil.lake.procedure import call
from frazil.lake.session import spark_session
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
    """Make a year of history, erase, and look at every byte that is left."""
    with tempfile.TemporaryDirectory(prefix="frazil-erase-") as name:
        folder = Path(name)
        (folder / "landing").mkdir()
        (folder / "frazil.yml").write_text(_DECLARATION, encoding="utf-8")
        pipeline = frazil.load(folder)
        spark = spark_session(pipeline)
        _make(pipeline, spark, rows)
        subjects = [f"subject{number * (rows // SUBJECTS):09}@example.org" for number in range(SUBJECTS)]
        before = _others(folder, subjects)
        told = f"{counted(rows, 'row')}, {MONTHS} months of {MONTHLY_SHARE:.0%} changes"
        print(f"{told}: {_occurrences(folder, subjects)} occurrences, {_size(folder) / 1e6:.0f} MB")
        with Meter() as erase:
            report = api.erase(pipeline, "people", keys=subjects, spark=spark)
        print(f"erase of {report.subjects}: CPU {erase.reading.cpu_s:.1f} s, wall {erase.reading.wall_s:.1f} s")
        same = before == _others(folder, subjects)
        print(f"left: {_occurrences(folder, subjects)} occurrences; others unchanged: {same}")
        with Meter() as rewrite:
            _rewrite(pipeline, spark)
        ratio = erase.reading.cpu_s / rewrite.reading.cpu_s
        print(f"a full rewrite of its tables: CPU {rewrite.reading.cpu_s:.1f} s, wall {rewrite.reading.wall_s:.1f} s")
        print(f"the erase took {ratio:.2f} rewrites of CPU; other processes took {erase.reading.other_share:.0%}")
        spark.stop()


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
    """Write all files of all tables again, once."""
    with table_session(pipeline, pipeline.tables[0], spark) as context:
        made = context.tables
        for one in (made.bronze, *made.computed):
            call(context.spark, one.path, "rewrite_data_files", "options => map('rewrite-all', 'true')")


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
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000)
