"""dlt: a pipeline to files, Delta or Iceberg, with the upsert strategy and ``hard_delete``.

On Iceberg dlt's merge ignores ``hard_delete``: a deleted row stays, flagged, and readers filter it out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from bench.contenders.arrow import WithoutSpark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.contenders.contender import Task
    from bench.meter import Reading


def make(name: str, task: Task) -> Dlt:
    """Make the contender for the table format in its name."""
    return Dlt(task, table_format=name.partition("-")[2])


class Dlt(WithoutSpark):
    """The current table by dlt's merge."""

    def __init__(self, task: Task, *, table_format: str) -> None:
        super().__init__(task)
        self._format = table_format

    def open(self) -> None:
        """Open the pipeline, whose state is in the home too."""
        super().open()
        os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
        os.environ["DESTINATION__FILESYSTEM__BUCKET_URL"] = f"file://{self.tables_folder}"
        import dlt  # noqa: PLC0415 - reads its settings from the environment when it is imported

        self._dlt = dlt
        self._pipeline = dlt.pipeline(
            "bench",
            destination="filesystem",
            dataset_name="bench",
            pipelines_dir=f"{self.task.home / 'pipeline'}",
        )

    def load(self, files: Sequence[Path]) -> None:
        """Append the full load."""
        rows = self.loaded(files)
        self.db.register("whole", rows)
        self._run(self.arrow("SELECT *, false AS gone FROM whole"), "append")
        self.db.unregister("whole")

    def apply(self, files: Sequence[Path]) -> Mapping[str, Reading]:
        """Merge the newest change of every key."""
        self.db.register("whole", self.newest(files))
        rows = self.arrow("SELECT * EXCLUDE (op), op = 'D' AS gone FROM whole")
        self._run(rows, {"disposition": "merge", "strategy": "upsert"})
        self.db.unregister("whole")
        return {}

    def read(self) -> None:
        """Read the table."""
        self.read_all(self._rows())

    def export(self, mart: str, folder: Path) -> None:  # noqa: ARG002 - it keeps one mart
        """Write the table as a Parquet file."""
        self.write(self._rows(), folder)

    def _run(self, rows: Any, how: Any) -> None:
        hints: Any = None if how == "append" else {"gone": {"hard_delete": True}}
        make: Any = self._dlt.resource
        resource = make(
            [rows],
            name="orders",
            primary_key="id",
            write_disposition=how,
            table_format=self._format,
            columns=hints,
        )
        self._pipeline.run(resource)

    def _rows(self) -> Any:
        if self._format == "delta":
            from deltalake import DeltaTable  # noqa: PLC0415 - the Iceberg form does not need it

            return DeltaTable(f"{self.tables_folder / 'bench' / 'orders'}").to_pyarrow_dataset()
        from dlt.common.libs.pyiceberg import get_iceberg_tables  # noqa: PLC0415 - nor the Delta form this

        return get_iceberg_tables(self._pipeline, "orders")["orders"].scan("gone = false").to_arrow_batch_reader()
