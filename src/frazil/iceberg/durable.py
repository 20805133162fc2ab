"""Flush a table's files to disk before its catalog commit.

Hadoop and Iceberg do not wait for a local disk: for half a minute new files are only in memory, while a catalog commit
is on the disk at once. After a power cut the catalog would name empty files.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import TYPE_CHECKING, Any

from frazil.errors import StorageError
from frazil.iceberg.damage import local_path

if TYPE_CHECKING:
    from pathlib import Path


class DiskError(StorageError):
    """The disk could not take what was written."""

    code = "FZ310"


def make_durable(folder: Path) -> None:
    """Wait until the disk has everything that was written to the file system of a folder.

    Outside Linux this flushes all file systems.

    Raises:
        DiskError: the disk failed.

    Cost: a few milliseconds, plus the time to flush the writes of other programs.
    """
    sync = _syncfs()
    if sync is None:
        os.sync()
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        if sync(opened):
            raise DiskError(
                f"{folder}: the disk could not take what was written: {os.strerror(ctypes.get_errno())}",
                hint="look at the disk, then at the tables: frazil doctor",
            )
    finally:
        os.close(opened)


def make_table_durable(table: Any | None) -> None:
    """Flush a table to disk before files that an older version needs are removed.

    Args:
        table: as :func:`frazil.spark.gateway.java_table` returns it. Nothing is done for None, or for a table that is
            not on this machine's disk.

    Raises:
        DiskError: the disk failed.
    """
    folder = None if table is None else local_path(table.location())
    if folder is not None:
        make_durable(folder)


@cache
def _syncfs() -> Any | None:
    """Return Linux's syncfs; other systems have none."""
    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
