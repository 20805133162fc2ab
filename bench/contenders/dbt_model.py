"""dbt: an incremental model with the merge strategy, as dbt's own documentation writes it, through dbt-spark.

dbt's merge has no clause for deletes, so a deleted row stays with its ``op``, and readers filter it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dbt.cli.main import dbtRunner

from bench.contenders.spark import SPACE, OnIceberg, csv_records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    from bench.contenders.contender import Task
    from bench.meter import Reading

_PROJECT: Final = """\
name: bench
version: 1.0.0
config-version: 2
profile: bench
models: {bench: {+materialized: incremental}}
flags: {send_anonymous_usage_stats: false}
"""
_PROFILE: Final = """\
bench:
  target: here
  outputs: {here: {type: spark, method: session, schema: bench, host: none, threads: 1}}
"""
_MODEL: Final = """\
{{{{ config(file_format="iceberg", incremental_strategy="merge", unique_key="id") }}}}
select op, {casts}
from (
  select *, row_number() over (partition by id order by updated_at desc, _block desc, _line desc) as n
  from landing
  {{% if is_incremental() %}}
  where cast(updated_at as timestamp) > (select max(updated_at) from {{{{ this }}}})
  {{% endif %}}
) where n = 1
"""


def make(name: str, task: Task) -> Dbt:  # noqa: ARG001 - one contender, one name
    """Make the contender."""
    return Dbt(task)


class Dbt(OnIceberg):
    """The current table by ``dbt run`` in a warm process and session."""

    marts: tuple[str, ...] = ("current",)

    def open(self) -> None:
        """Start Spark and write the project; dbt-spark takes the session that is there."""
        super().open()
        self.spark.conf.set("spark.sql.defaultCatalog", "lake")
        self.spark.sql("USE lake.bench")
        casts = ", ".join(f"cast({name} as {kind}) as {name}" for name, kind in self.task.columns.items())
        project = self.task.home / "dbt"
        (project / "models").mkdir(parents=True, exist_ok=True)
        for name, text in {
            "dbt_project.yml": _PROJECT,
            "profiles.yml": _PROFILE,
            "models/orders.sql": _MODEL.format(casts=casts),
        }.items():
            (project / name).write_text(text, encoding="utf-8")
        self._runner, self._project, self._landing = dbtRunner(), project, self.task.home / "landing"

    def load(self, files: Sequence[Path]) -> None:
        """Run the model for the first time."""
        self._run(files)

    def apply(self, files: Sequence[Path]) -> Mapping[str, Reading]:
        """Run the model again, over all files there are."""
        self._run(files)
        return {}

    def read(self) -> None:
        """Read the rows that are not flagged as deleted."""
        self.read_all(self.mart("current"))

    def mart(self, mart: str) -> DataFrame:  # noqa: ARG002 - it keeps one
        """Give the rows that are not flagged as deleted."""
        return self.spark.table(f"{SPACE}.orders").where("op <> 'D'").select(*self.columns)

    def _run(self, files: Sequence[Path]) -> None:
        self._landing.mkdir(exist_ok=True)
        for path in files:
            (self._landing / path.name).hardlink_to(path)
        text = {"op": "string"} | dict.fromkeys(self.columns, "string")
        new = {path.name for path in files}
        before = [path for path in sorted(self._landing.iterdir()) if path.name not in new]
        # Line numbers settle ties, and a MERGE takes them only from what is already computed: so the batch is
        # read first, and all older files again by the model, as its text says.
        landing = csv_records(self.spark, files, text)
        if before:
            old = csv_records(self.spark, before, text, line="0L")
            landing = landing.localCheckpoint().unionByName(old)
        landing.createOrReplaceTempView("landing")
        done = self._runner.invoke(
            ["run", "--quiet", "--project-dir", f"{self._project}", "--profiles-dir", f"{self._project}"]
        )
        if not done.success:
            results = getattr(done.result, "results", [])
            raise RuntimeError(f"dbt: {done.exception or '; '.join(str(result.message) for result in results)}")
