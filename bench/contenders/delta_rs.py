"""delta-rs: Delta tables without Spark, its own merge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalake import DeltaTable, write_deltalake

from bench.contenders.arrow import WithoutSpark, merge_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.contenders.contender import Task
    from bench.meter import Reading


def make(name: str, task: Task) -> DeltaRs:  # noqa: ARG001 - one contender, one name
    """Make the contender."""
    return DeltaRs(task)


class DeltaRs(WithoutSpark):
    """The current table by one merge a batch."""

    @property
    def _path(self) -> str:
        return f"{self.tables_folder / 'orders'}"

    def load(self, files: Sequence[Path]) -> None:
        """Write the full load."""
        write_deltalake(self._path, self.loaded(files))

    def apply(self, files: Sequence[Path]) -> Mapping[str, Reading]:
        """Merge the newest change of every key."""
        sets = merge_columns(self.task.columns)
        merger = DeltaTable(self._path).merge(self.newest(files), "t.id = s.id", source_alias="s", target_alias="t")
        merger = merger.when_matched_delete("s.op = 'D'").when_matched_update(sets)
        merger.when_not_matched_insert(sets, predicate="s.op <> 'D'").execute()
        return {}

    def read(self) -> None:
        """Read the table."""
        self.read_all(DeltaTable(self._path).to_pyarrow_dataset())

    def export(self, mart: str, folder: Path) -> None:  # noqa: ARG002 - it keeps one mart
        """Write the table as a Parquet file."""
        self.write(DeltaTable(self._path).to_pyarrow_dataset(), folder)
