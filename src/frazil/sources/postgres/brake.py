"""How many rows of a table are gone: the keys that its landing files end with, against those of a new snapshot."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.sources.postgres.landed.landing import LOAD, RELOAD, RESTART
from frazil.spec.model.kinds.postgres import OLD, OP, POSITION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_MEMORY: Final = "1GB"


def known_and_gone(landed: Path, fresh: Path, keys: Sequence[str]) -> tuple[int, int]:
    """Return how many rows a table's landing files end with, and how many of them a snapshot lacks.

    Args:
        landed: the folder of the table's landing files. A file that was removed is not missed.
        fresh: the folder with the rows of the snapshot, which nobody reads yet.
        keys: the columns that name a row, as the server writes them.

    Cost: reads the keys of all landing files of the table once; at most 1 GB of memory, beyond that it spills.
    """
    files = _in_order(landed, fresh)
    emptied = max((_emptied_at(file) for file in files), default="")
    schema = pa.schema([("number", pa.int64()), *((f"c{place}", pa.string()) for place in range(len(keys)))])
    with _database() as database:
        _load(database, "ends", _ends(files, keys, emptied, schema), schema)
        _load(database, "fresh", _ends([*fresh.glob("*.parquet")], keys, "", schema), schema)
        names = ", ".join(f"c{place}" for place in range(len(keys)))
        same = " AND ".join(f"n.c{place} = o.c{place}" for place in range(len(keys)))
        found = database.execute(f"""
            SELECT count(*), count(*) FILTER (NOT EXISTS (SELECT 1 FROM fresh AS n WHERE {same}))
            FROM (SELECT {names} FROM ends GROUP BY ALL HAVING max(number) % 2 = 1) AS o""").fetchone()
    known, gone = found
    return known, gone


@contextmanager
def _database() -> Iterator[Any]:
    with tempfile.TemporaryDirectory(prefix="frazil-") as scratch:
        settings: dict[str, Any] = {"memory_limit": _MEMORY, "temp_directory": scratch}
        with duckdb.connect(f"{scratch}/keys.duckdb", config=settings) as database:
            yield database


def _load(database: Any, name: str, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
    database.register("frazil_rows", pa.RecordBatchReader.from_batches(schema, batches))
    database.execute(f"CREATE TABLE {name} AS FROM frazil_rows")
    database.unregister("frazil_rows")


def _in_order(landed: Path, fresh: Path) -> list[Path]:
    """Return landing files such that of those with changes since the table was last emptied the rows come first."""
    files = [file for file in landed.rglob("*.parquet") if file.parent != fresh]
    ranges = [file for file in files if file.parent == landed]
    rows = [file for file in files if file.parent.name.startswith((LOAD, RELOAD, RESTART))]
    return [*sorted(rows), *sorted(ranges)]


def _emptied_at(file: Path) -> str:
    """Return the position of the last truncate in a file; an empty text where there is none."""
    truncates = (
        batch.column(POSITION).filter(pc.equal(batch.column(OP), "t")) for batch in _batches(file, [OP, POSITION])
    )
    return max((pc.max(places).as_py() for places in truncates if len(places)), default="")


def _ends(files: Sequence[Path], keys: Sequence[str], emptied: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield what each change since a truncate says of keys: a number that grows, odd where a row of the key is there.

    A change of key says it of two.
    """
    old = [f"{OLD}{key}" for key in keys]
    number = 0
    for file in files:
        for batch in _batches(file, [OP, POSITION, *keys, *old]):
            numbers = pa.array(range(number, number + 2 * batch.num_rows, 2), pa.int64())
            number += 2 * batch.num_rows
            is_newer = pc.greater_equal(pc.fill_null(batch.column(POSITION), ""), emptied)
            is_there = pc.is_in(batch.column(OP), pa.array(["r", "i", "u"]))
            new = [batch.column(key) for key in keys]
            yield _rows([pc.add(numbers, pc.cast(is_there, pa.int64())), *new], is_newer, schema)
            yield _rows([numbers, *(batch.column(name) for name in old)], is_newer, schema)


def _rows(columns: list[Any], is_newer: Any, schema: pa.Schema) -> pa.RecordBatch:
    """Make rows of those that have a key."""
    for column in columns:
        is_newer = pc.and_(is_newer, pc.is_valid(column))
    return pa.RecordBatch.from_arrays(columns, schema=schema).filter(is_newer)


def _batches(file: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of a file, NULL where it has them not."""
    with pq.ParquetFile(file) as opened:
        here = [name for name in names if name in opened.schema_arrow.names]
        for batch in opened.iter_batches(columns=here):
            columns = [batch.column(name) if name in here else pa.nulls(batch.num_rows, pa.string()) for name in names]
            yield pa.RecordBatch.from_arrays(columns, names=[*names])
