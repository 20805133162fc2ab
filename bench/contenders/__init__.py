"""Who is measured. A contender is known by its name; its module is imported only in its own process."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bench.contenders.contender import Contender, Task

PLACES: Final = {
    "frazil": ("frazil_run", "Frazil, the whole way: bronze, silver, current and history"),
    "frazil-current": ("frazil_run", "Frazil, the whole way to the current table"),
    "frazil-current-v3": ("frazil_run", "the same, table format 3 (deletion vectors)"),
    "frazil-history": ("frazil_run", "Frazil, the whole way to the history table"),
    "frazil-guarded": (
        "frazil_run",
        "the whole way to the current table, every batch compared with what its keys have: what that costs",
    ),
    "recipe": ("recipe", "the published recipe, new files only: row_number window, copy-on-write MERGE"),
    "recipe-all": ("recipe", "the recipe as published: reads every file there is, keeps what is newer than max(ts)"),
    "recipe-history": ("recipe_history", "the recipe's history: change log, affected keys rebuilt, MERGE"),
    "recipe-both": ("recipe_history", "the recipe's way to both tables"),
    "merge": ("merge", "a careful hand-written MERGE: max_by, merge-on-read"),
    "dbt": ("dbt_model", "dbt's incremental merge through dbt-spark, deletes kept as flagged rows"),
    "delta-spark": ("delta_spark", "Delta Lake MERGE on Spark, deletion vectors on"),
    "delta-rs": ("delta_rs", "delta-rs merge"),
    "pyiceberg": ("pyiceberg_upsert", "PyIceberg upsert, then delete"),
    "dlt-delta": ("dlt_pipeline", "dlt to Delta files, upsert"),
    "dlt-iceberg": (
        "dlt_pipeline",
        "dlt to Iceberg files, upsert, a thousand rows at a time, deletes kept as flagged rows",
    ),
    "spark-once": ("spark_once", "Spark writes the CSV once, typed, to one Iceberg table"),
    "frazil-slot": ("", "Frazil, kind: postgres: slot, landing files, bronze, silver, current table"),
    "dlt-slot": (
        "",
        "dlt, a slot read as its verified source does, with a faster decoder: rows, upsert into Delta files",
    ),
    "debezium-slot": ("", "Debezium by pydbzengine, its JSON parsed in Python, merged by delta-rs"),
    "recipe-audit": ("", "the recipe: audit table, JSON, row_number window, copy-on-write MERGE"),
    "limit-write": ("limit", "physical limit: DuckDB writes the changed rows"),
    "limit-scan": ("limit", "physical limit: the same, and finds the rows they replace by one key scan"),
    "limit-copy": ("limit", "physical limit: the same, and writes the whole table again"),
}
"""Module and description of every contender; those that follow a database are in ``bench/capture_ways.py``."""


def contender(name: str, task: Task) -> Contender:
    """Make a contender ready to :meth:`~bench.contenders.contender.Contender.open`.

    Raises:
        KeyError: the name is unknown.
    """
    module, _ = PLACES[name]
    made: Contender = import_module(f"bench.contenders.{module}").make(name, task)
    return made
