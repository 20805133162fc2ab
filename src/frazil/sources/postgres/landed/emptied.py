"""Landing files whose records of erased keys are emptied: the places of all records stay, and so do the others."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.formats.own_records import equals
from frazil.formats.parquet_file import opened
from frazil.sources.capture import reveal
from frazil.sources.postgres.landed.landing import LOAD, RELOAD, RESTART
from frazil.spec.model.kinds.postgres import ERASED, OP, POSITION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

_BEFORE: Final = b"frazil.emptied_from"
"""Key of the file's metadata: the hash of what it was when bronze took it."""

_BATCH_ROWS: Final = 65_536


def is_emptied(path: Path, rows: Collection[int]) -> bool:
    """Return whether nothing is left of some records of a file.

    Args:
        path: the file.
        rows: their rows, from 1 on.

    Cost: reads one column.
    """
    with closing(opened(f"{path}")) as file:
        wanted = [*rows]
        return all(
            equals(batch.column(0), ERASED)[places].all() for batch, places in _places(file, wanted, columns=[OP])
        )


def empty(path: Path, rows: Collection[int], before: str) -> None:
    """Write a file again, with nothing left of some records but their places; it is there whole at any time.

    Args:
        path: the file.
        rows: their rows, from 1 on.
        before: hash of the file that bronze took.

    Cost: one pass over the file; memory of a row group.
    """
    is_in_folder = path.parent.name.startswith((LOAD, RELOAD, RESTART))
    table = path.parent.parent if is_in_folder else path.parent
    # Beside the folder of the table, from which a capture removes what it did not finish.
    hidden = table.with_name(f".{table.name}.emptied.tmp")
    with closing(opened(f"{path}")) as file:
        fields = file.schema_arrow
        schema = fields.with_metadata({**(fields.metadata or {}), _BEFORE: before.encode()})
        with pq.ParquetWriter(hidden, schema, compression="zstd") as writer:
            for batch, places in _places(file, [*rows]):
                writer.write_batch(_without(batch, places, schema))
    reveal(hidden, path)


def emptied_from(uri: str) -> str | None:
    """Return the hash of the file that bronze took, of one that was emptied since; None of any other."""
    try:
        with closing(opened(uri)) as file:
            found = (file.schema_arrow.metadata or {}).get(_BEFORE)
    except (pa.ArrowException, OSError):
        return None
    return None if found is None else str(found.decode())


def _places(file: Any, rows: Collection[int], columns: list[str] | None = None) -> Iterator[tuple[Any, Any]]:
    """Yield a file in batches, each with which of its records are among some rows."""
    row, wanted = 1, np.asarray(rows, dtype=np.int64)
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns, use_threads=False):
        yield batch, np.isin(np.arange(row, row + batch.num_rows), wanted)
        row += batch.num_rows


def _without(batch: Any, places: Any, schema: pa.Schema) -> pa.RecordBatch:
    mask, columns = pa.array(places), []
    for field, column in zip(schema, batch.columns, strict=True):
        left = column if field.name == POSITION else pa.scalar(ERASED if field.name == OP else None, field.type)
        columns.append(pc.if_else(mask, left, column))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
