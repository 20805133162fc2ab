"""The script of a Glue job: one run of a pipeline, in the session that Glue starts."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import frazil


def main(declaration: str) -> None:
    """Run; what fails ends the job as failed, with the code and the way out in its log."""
    report = frazil.run(declaration, spark=SparkSession.builder.getOrCreate())
    for table in report.tables:
        print(f"{table.table}: {table.outcome}, {table.changes} changes, {table.quarantined} quarantined")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[sys.argv.index("--declaration") + 1])
