"""Find rows of marts on the driver, where that costs less than to ask Spark."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.errors import FrazilError
from frazil.lake.heads import head
from frazil.lake.row_lookup import TableFiles, find_rows, table_files
from frazil.lake.store_conf import lake_address
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.engine.table_run import TableRun

UNREADABLE = (FrazilError, OSError, pa.ArrowException, ValueError, LookupError)
"""What is raised where a file of a table cannot be read, or is not what the table says of it. Spark reads the same
file, and says what is wrong."""


def mart_files(context: TableRun, path: tuple[str, ...], *, is_own: bool = True) -> TableFiles | None:
    """Return the files of a mart.

    Args:
        context: the table's part of the run.
        path: the mart's table.
        is_own: it is one of the run's table, and meant as the run found it; else as it is now.

    Returns:
        The files; None for a mart above ``driver_scan_bytes``, and where only Spark can read them.

    Raises:
        One of :data:`UNREADABLE`.
    """
    at = context.head(path) if is_own else head(context.spark, quote(*path))
    if at.snapshot_id is None or at.size_bytes > context.policy.driver_scan_bytes:
        return None
    if at.snapshot_id not in context.files:
        address = partial(lake_address, context.pipeline)
        context.files[at.snapshot_id] = table_files(context.spark, quote(*path), at, address)
    return context.files[at.snapshot_id]


def find_in_mart(
    context: TableRun, path: tuple[str, ...], values: pa.Table, also: Sequence[str] = (), flag: str | None = None
) -> pa.Table | None:
    """Return the rows of a mart, as the run found it, that have one of some values.

    Args:
        context: the table's part of the run.
        path: the mart's table.
        values: what is looked for, as :func:`frazil.lake.row_lookup.find_rows` takes it.
        also: further columns to give.
        flag: a column that must be true.

    Returns:
        As that does; None too where a file cannot be read.
    """
    try:
        files = mart_files(context, path)
        return None if files is None else find_rows(files, values, also, flag)
    except UNREADABLE:
        return None
