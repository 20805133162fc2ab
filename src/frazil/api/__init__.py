"""Python API: every command as a function that returns values, for notebooks, schedulers and the command line.

A declaration is a :class:`frazil.Pipeline`, or the path of a ``frazil.yml`` or of its folder. Functions raise
subclasses of :class:`frazil.FrazilError`. Importing this package is cheap: each function imports what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from frazil.api.approving import approved_plan, save_plan
from frazil.api.connection import Connection, TableRows, connect
from frazil.api.declaring import (
    SMALL_SAMPLE,
    NewProject,
    SampleProject,
    Validation,
    audit_trigger,
    doctor,
    generate,
    init,
    load,
    needs_spark,
    repair,
    repair_plan,
    selection,
    server_tables,
    validate,
)
from frazil.api.erasing import erase, erase_keys, erase_preview, treat, treat_preview, unblock
from frazil.api.looking import (
    batches,
    judge_corrections,
    late_changes,
    lineage,
    ls,
    overview,
    past_run,
    quarantine,
    quarantine_to,
    quarantined_line,
    read_corrections,
    rows,
    runs,
)
from frazil.api.reading import (
    Status,
    check,
    check_certificates,
    check_source,
    diff,
    export,
    key,
    not_compared,
    query,
    schema,
    serve,
    spark_conf,
    spark_pipelines,
    status,
    test,
    trino_catalog,
    write_csv,
    write_parquet,
)
from frazil.api.running import capture, drop, droppable, maintain, plan, rebuild, reload, replay, run, session, watch
from frazil.api.time import cut, cuts, drop_cut, rollback, rollback_plan
from frazil.runner.options import CaptureOptions, RunOptions, WatchOptions
from frazil.serve.query.stop import Stop
from frazil.testing.sample_files import SampleFiles

if TYPE_CHECKING:
    from frazil.bronze.read import Correction
    from frazil.erase.report import EraseReport, TreatReport
    from frazil.interop.lineage import Lineage
    from frazil.interop.spark_conf import SparkConf
    from frazil.interop.trino import Trino
    from frazil.plan.plan import Plan
    from frazil.recover.doctor import Diagnosis
    from frazil.recover.setbacks import Setback
    from frazil.runner.report import MaintainReport, RunReport
    from frazil.serve.check.finding import Finding
    from frazil.serve.check.rules import RuleTest
    from frazil.serve.corrections import Chosen, Judged
    from frazil.serve.cuts import Cut, Rollback
    from frazil.serve.key import KeyStory
    from frazil.serve.late import LateCell
    from frazil.serve.leftovers import Droppable
    from frazil.serve.overview import ListedTable, Overview, TableBatch
    from frazil.serve.quarantine import Quarantine
    from frazil.serve.query.diff import Diff
    from frazil.serve.query.query import Result
    from frazil.serve.query.rows import MartRows
    from frazil.serve.runs import PastRun
    from frazil.serve.schema import TableSchema
    from frazil.sources.capture import Landed
    from frazil.sources.postgres.database.discover import FoundTable
    from frazil.spec.sql.select import Selection

__all__ = [
    "SMALL_SAMPLE",
    "CaptureOptions",
    "Chosen",
    "Connection",
    "Correction",
    "Cut",
    "Diagnosis",
    "Diff",
    "Droppable",
    "EraseReport",
    "Finding",
    "FoundTable",
    "Judged",
    "KeyStory",
    "Landed",
    "LateCell",
    "Lineage",
    "ListedTable",
    "MaintainReport",
    "MartRows",
    "NewProject",
    "Overview",
    "PastRun",
    "Plan",
    "Quarantine",
    "Result",
    "Rollback",
    "RuleTest",
    "RunOptions",
    "RunReport",
    "SampleFiles",
    "SampleProject",
    "Selection",
    "Setback",
    "SparkConf",
    "Status",
    "Stop",
    "TableBatch",
    "TableRows",
    "TableSchema",
    "TreatReport",
    "Trino",
    "Validation",
    "WatchOptions",
    "approved_plan",
    "audit_trigger",
    "batches",
    "capture",
    "check",
    "check_certificates",
    "check_source",
    "connect",
    "cut",
    "cuts",
    "diff",
    "doctor",
    "drop",
    "drop_cut",
    "droppable",
    "erase",
    "erase_keys",
    "erase_preview",
    "export",
    "generate",
    "init",
    "judge_corrections",
    "key",
    "late_changes",
    "lineage",
    "load",
    "ls",
    "maintain",
    "not_compared",
    "overview",
    "past_run",
    "plan",
    "quarantine",
    "quarantine_to",
    "quarantined_line",
    "query",
    "read_corrections",
    "rebuild",
    "reload",
    "repair",
    "repair_plan",
    "replay",
    "rollback",
    "rollback_plan",
    "rows",
    "run",
    "runs",
    "save_plan",
    "schema",
    "selection",
    "serve",
    "server_tables",
    "session",
    "spark_conf",
    "spark_pipelines",
    "status",
    "test",
    "treat",
    "treat_preview",
    "trino_catalog",
    "unblock",
    "validate",
    "watch",
    "write_csv",
    "write_parquet",
]

_RETURNED: Final = {
    "Chosen": "frazil.serve.corrections",
    "Correction": "frazil.bronze.read",
    "Cut": "frazil.serve.cuts",
    "Diagnosis": "frazil.recover.doctor",
    "Diff": "frazil.serve.query.diff",
    "Droppable": "frazil.serve.leftovers",
    "EraseReport": "frazil.erase.report",
    "Finding": "frazil.serve.check.finding",
    "FoundTable": "frazil.sources.postgres.database.discover",
    "Judged": "frazil.serve.corrections",
    "KeyStory": "frazil.serve.key",
    "Landed": "frazil.sources.capture",
    "Lineage": "frazil.interop.lineage",
    "ListedTable": "frazil.serve.overview",
    "MaintainReport": "frazil.runner.report",
    "LateCell": "frazil.serve.late",
    "MartRows": "frazil.serve.query.rows",
    "Overview": "frazil.serve.overview",
    "PastRun": "frazil.serve.runs",
    "Plan": "frazil.plan.plan",
    "Quarantine": "frazil.serve.quarantine",
    "Result": "frazil.serve.query.query",
    "Rollback": "frazil.serve.cuts",
    "RuleTest": "frazil.serve.check.rules",
    "RunReport": "frazil.runner.report",
    "Selection": "frazil.spec.sql.select",
    "Setback": "frazil.recover.setbacks",
    "SparkConf": "frazil.interop.spark_conf",
    "TableBatch": "frazil.serve.overview",
    "TableSchema": "frazil.serve.schema",
    "TreatReport": "frazil.erase.report",
    "Trino": "frazil.interop.trino",
}
"""Types that functions return, with their modules, which take time to import."""


def __getattr__(name: str) -> Any:
    if name not in _RETURNED:
        raise AttributeError(f"module 'frazil.api' has no attribute {name!r}")
    return getattr(needs_spark(import_module)(_RETURNED[name]), name)
