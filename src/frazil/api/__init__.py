"""Everything that the command line does, as functions that return values: for notebooks, schedulers and the command.

A declaration is a :class:`frazil.Pipeline`, or the path of a ``frazil.yml`` or of its folder. Every function calls one
room; what it raises is a :class:`frazil.FrazilError`. Importing this is cheap: each function imports what it needs.
"""

from __future__ import annotations

from frazil.api.declaring import (
    NewProject,
    SampleProject,
    Validation,
    audit_trigger,
    doctor,
    generate,
    init,
    load,
    repair,
    selection,
    validate,
)
from frazil.api.erasing import erase, erase_preview, unblock
from frazil.api.reading import (
    Status,
    check,
    check_certificates,
    check_source,
    diff,
    export,
    key,
    quarantine,
    quarantine_to,
    query,
    read_corrections,
    schema,
    serve,
    spark_pipelines,
    status,
    test,
    trino_catalog,
    write_csv,
    write_parquet,
)
from frazil.api.running import capture, drop, droppable, maintain, plan, rebuild, reload, replay, run, session, watch
from frazil.api.time import cut, cuts, drop_cut, rollback, rollback_plan
from frazil.engine.options import CaptureOptions, RunOptions, WatchOptions
from frazil.testing.sample_files import SampleFiles

__all__ = [
    "CaptureOptions",
    "NewProject",
    "RunOptions",
    "SampleFiles",
    "SampleProject",
    "Status",
    "Validation",
    "WatchOptions",
    "audit_trigger",
    "capture",
    "check",
    "check_certificates",
    "check_source",
    "cut",
    "cuts",
    "diff",
    "doctor",
    "drop",
    "drop_cut",
    "droppable",
    "erase",
    "erase_preview",
    "export",
    "generate",
    "init",
    "key",
    "load",
    "maintain",
    "plan",
    "quarantine",
    "quarantine_to",
    "query",
    "read_corrections",
    "rebuild",
    "reload",
    "repair",
    "replay",
    "rollback",
    "rollback_plan",
    "run",
    "schema",
    "selection",
    "serve",
    "session",
    "spark_pipelines",
    "status",
    "test",
    "trino_catalog",
    "unblock",
    "validate",
    "watch",
    "write_csv",
    "write_parquet",
]
