"""Every table of a lake: kind, rows, size and newest commit, from its metadata alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from frazil.errors import StorageError
from frazil.iceberg.snapshot import TableSnapshot
from frazil.serve.tables.tables import read_snapshot, tables
from frazil.spec.tables import lake_tables

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator

    from frazil.spec import Pipeline
    from frazil.spec.tables import LakeTable

_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTable:
    """A table of the lake.

    Attributes:
        name: the table with its namespace.
        kind: bronze, silver, quarantine or gold; of a mart ``current`` or ``history``.
        table: its source table; of an aggregate its own name.
        exists: whether a run has created it.
        batch: newest batch it holds, 0 for none.
        rows: rows in its data files, including rows that delete files remove.
        size_bytes: size of the newest snapshot's files.
        snapshot_id: its newest snapshot; None without one.
        committed_at: time of the newest commit, in UTC; None without one.
        trouble: why its metadata cannot be read; None if it can.
    """

    name: str
    kind: str
    table: str
    exists: bool
    batch: int
    rows: int
    size_bytes: int
    snapshot_id: int | None
    committed_at: dt.datetime | None
    trouble: str | None = None


def listing(pipeline: Pipeline) -> Iterator[ListedTable]:
    """Yield every table of the declaration, in its order. Views are left out.

    Raises:
        NoLakeError: no table of the lake exists.

    Cost: reads the metadata file of each table.
    """
    located = tables(pipeline)

    def look(made: LakeTable) -> ListedTable:
        location, trouble = located.get(made.key), None
        try:
            newest = read_snapshot(location)
        except StorageError as error:
            newest, trouble = TableSnapshot(), error.message
        return ListedTable(
            name=made.full_name,
            kind=made.role if made.mart is None else made.mart.kind,
            table=made.made_of,
            exists=location is not None,
            batch=newest.batch,
            rows=newest.records,
            size_bytes=newest.size_bytes,
            snapshot_id=newest.snapshot_id,
            committed_at=newest.committed_at,
            trouble=trouble,
        )

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        yield from pool.map(look, [made for made in lake_tables(pipeline) if made.role != "view"])
