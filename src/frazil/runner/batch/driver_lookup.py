"""Find rows of a table's tables on the driver, where that costs less than to ask Spark."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.catalog.store_conf import lake_address
from frazil.errors import FrazilError
from frazil.lake.heads import head
from frazil.lake.row_lookup import find_rows
from frazil.lake.table_files import TableFiles, table_files
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.runner.table_run import TableRun

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
        The files; None for a mart of more than ``driver_scan_bytes`` or ``driver_scan_files``, and where only Spark can
        read them.

    Raises:
        One of :data:`UNREADABLE`.
    """
    at = context.head(path) if is_own else head(context.spark, quote(*path))
    return None if at.size_bytes > context.policy.driver_scan_bytes else _files(context, path, at)


def _files(context: TableRun, path: tuple[str, ...], at: TableSnapshot) -> TableFiles | None:
    if at.snapshot_id is None or at.data_files + at.delete_files > context.policy.driver_scan_files:
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


def find_deletes(
    context: TableRun, keys: pa.Table, also: Sequence[str], bounds: Mapping[str, pa.Scalar]
) -> pa.Table | None:
    """Return the deletes in silver of some keys, those of the batch that is applied among them.

    Args:
        context: the table's part of the run.
        keys: what is looked for, as :func:`frazil.lake.row_lookup.find_rows` takes it.
        also: further columns to give.
        bounds: column -> value: deletes that are below all of these may be left out.

    Returns:
        The columns of ``keys`` and ``also``; None where Spark must look for them.
    """
    try:
        files = _files(context, context.changes, context.head(context.changes))
        if files is None:
            return None
        files = files.of_partition(r.CLASS, r.DELETE)
        if bounds:
            files = files.not_below(bounds)
        if files.size_bytes > context.policy.driver_scan_bytes:
            return None
        rows = find_rows(files, keys, [*also, r.CLASS])
    except UNREADABLE:
        return None
    # A file that names no partition may have rows of both classes.
    return None if rows is None else rows.filter(pc.equal(rows[r.CLASS], r.DELETE))


def find_changes(context: TableRun, keys: pa.Table, also: Sequence[str]) -> pa.Table | None:
    """Return all changes in silver of some keys, with further columns.

    None where Spark must look for them: in a silver of more than ``driver_scan_bytes``, and where they are more than
    ``single_task_changes``.
    """
    try:
        files = _files(context, context.changes, context.head(context.changes))
        if files is None or files.size_bytes > context.policy.driver_scan_bytes:
            return None
        return find_rows(files, keys, also, most=context.policy.single_task_changes)
    except UNREADABLE:
        return None
