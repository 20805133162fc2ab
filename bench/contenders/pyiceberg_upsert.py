"""PyIceberg: ``upsert``, then ``delete``; two commits, so a reader can see the half of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import In

from bench.contenders.arrow import WithoutSpark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.contenders.contender import Task
    from bench.meter import Reading


def make(name: str, task: Task) -> PyIceberg:  # noqa: ARG001 - one contender, one name
    """Make the contender."""
    return PyIceberg(task)


class PyIceberg(WithoutSpark):
    """The current table by upsert and delete."""

    def open(self) -> None:
        """Open the catalog, and the table if it is there."""
        super().open()
        lake = self.tables_folder
        self._catalog = SqlCatalog("lake", uri=f"sqlite:///{lake / 'catalog.db'}", warehouse=f"file://{lake}")
        self._catalog.create_namespace_if_not_exists("bench")

    def load(self, files: Sequence[Path]) -> None:
        """Write the full load."""
        rows = self.loaded(files)
        self._catalog.create_table("bench.orders", schema=rows.schema).append(rows)

    def apply(self, files: Sequence[Path]) -> Mapping[str, Reading]:
        """Upsert the newest rows, then delete the keys whose newest change is a delete."""
        changes, table = self.newest(files), self._catalog.load_table("bench.orders")
        gone = pc.equal(changes["op"], "D")
        table.upsert(changes.filter(pc.invert(gone)).drop_columns(["op"]), join_cols=["id"])
        table.delete(In("id", changes.filter(gone)["id"].to_pylist()))
        return {}

    def read(self) -> None:
        """Read the table."""
        self.read_all(self._catalog.load_table("bench.orders").scan().to_arrow_batch_reader())

    def export(self, mart: str, folder: Path) -> None:  # noqa: ARG002 - it keeps one mart
        """Write the table as a Parquet file."""
        self.write(self._catalog.load_table("bench.orders").scan().to_arrow_batch_reader(), folder)

    def close(self) -> None:
        """Close the catalog."""
        self._catalog.close()
        super().close()
