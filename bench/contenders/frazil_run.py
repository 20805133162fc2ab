"""Frazil itself: files arrive in its landing folder and ``frazil.run`` is called, all laws on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

import frazil
import frazil.runner.run as engine
from bench.contenders.spark import OnIceberg
from bench.footprint import footprint
from bench.meter import Meter, Reading
from bench.truth import mart_columns
from frazil.runner.batch.batch_stats import batch_stats
from frazil.runner.steps import marts
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    from bench.contenders.contender import Task
    from frazil.runner.batch.batch_stats import BatchStats, Measures, Newest
    from frazil.silver.contract import Contract

_STEP: Final = "update_mart"
"""Name of the engine's function that brings one mart level."""

_MARTS: Final = {
    "frazil": ("current", "history"),
    "frazil-current": ("current",),
    "frazil-current-v3": ("current",),
    "frazil-history": ("history",),
    "frazil-guarded": ("current",),
}


def make(name: str, task: Task) -> Frazil:
    """Make the contender with the marts that its name says."""
    if name == "frazil-guarded":
        _always_guard()
    return Frazil(task, marts=_MARTS[name], format_version=3 if name.endswith("-v3") else 2)


class Frazil(OnIceberg):
    """A pipeline in the home folder, run in one warm session."""

    def __init__(self, task: Task, *, marts: tuple[str, ...], format_version: int) -> None:
        super().__init__(task)
        self.marts = marts
        declaration = task.home / "frazil.yml"
        if not declaration.is_file():
            declaration.write_text(_declaration(task, marts, format_version), encoding="utf-8")

    def open(self) -> None:
        """Start Spark."""
        self._pipeline = frazil.load(self.task.home)
        self.spark = spark_session(self._pipeline, memory=self.task.heap)

    def load(self, files: Sequence[Path]) -> None:
        """Run over the full load."""
        self._arrive(files)
        frazil.run(self._pipeline, spark=self.spark)

    def apply(self, files: Sequence[Path]) -> Mapping[str, Reading]:
        """Run over one batch; ``apply`` in the answer is the mart's part of it, where one mart ran alone."""
        self._arrive(files)
        if len(self.task.tables) > 1 or len(self.marts) > 1:
            frazil.run(self._pipeline, spark=self.spark)
            return {}
        with _MartMeter(self.tables_folder) as marts:
            report = frazil.run(self._pipeline, spark=self.spark)
        seconds = sum(mart.seconds for table in report.tables for mart in table.marts)
        reading = Reading(wall_s=seconds, cpu_s=marts.cpu_s, other_share=0.0, written_bytes=marts.written_bytes)
        return {"apply": reading}

    def mart(self, mart: str) -> DataFrame:
        """Give the rows of the first table's mart, bookkeeping columns left out."""
        suffix = "_history" if mart == "history" else ""
        return self.spark.table(f"lake.marts.{self.task.tables[0]}{suffix}").select(
            *mart_columns(mart, self.task.columns)
        )

    def read(self) -> None:
        """Read the first mart."""
        self.read_all(self.mart(self.marts[0]))

    def compacted(self) -> DataFrame:
        """Copy the first mart to a fresh table, for reading beside it."""
        self.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
        self.mart(self.marts[0]).writeTo("lake.bench.copy").using("iceberg").create()
        return self.spark.table("lake.bench.copy")

    def _arrive(self, files: Sequence[Path]) -> None:
        for path in files:
            folder = self.task.home / "landing" / path.parent.name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / path.name).hardlink_to(path)


def _always_guard() -> None:
    """Let no batch pass for newer than all before it, in this process."""

    def never_newer(measures: Measures, contract: Contract, *, before: Newest) -> BatchStats:
        return replace(batch_stats(measures, contract, before=before), all_newer=False)

    setattr(marts, batch_stats.__name__, never_newer)


class _MartMeter:
    """Measures CPU and bytes of the marts' step inside a run."""

    def __init__(self, folder: Path) -> None:
        self.cpu_s, self.written_bytes = 0.0, 0
        self._folder = folder
        self._step: Callable[..., object] = getattr(engine, _STEP)

    def __enter__(self) -> Self:
        setattr(engine, _STEP, self._measured)
        return self

    def __exit__(self, *_: object) -> None:
        setattr(engine, _STEP, self._step)

    def _measured(self, *given: object, **named: object) -> object:
        before = footprint(self._folder)
        with Meter() as meter:
            answer = self._step(*given, **named)
        self.cpu_s += meter.reading.cpu_s
        self.written_bytes += footprint(self._folder).written_since(before)
        return answer


def _declaration(task: Task, marts: tuple[str, ...], format_version: int) -> str:
    columns = "\n".join(f"      - {{name: {name}, type: '{kind}'}}" for name, kind in task.columns.items())
    kept = ", ".join(f"{{kind: {mart}, format_version: {format_version}}}" for mart in marts)
    tables = "".join(
        f"""\
  - name: {table}
    source: {{kind: dms, path: ./landing/{table}, format: csv, header: true, op: op}}
    keys: [id]
    sequence_by: [updated_at]
    columns:
{columns}
    marts: [{kept}]
"""
        for table in task.tables
    )
    return f"pipeline: bench\nlake: {{warehouse: ./lake}}\ntables:\n{tables}"
