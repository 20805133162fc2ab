"""``frazil validate``."""

from __future__ import annotations

from pathlib import Path

from frazil import api
from frazil.cli.console import error_exit, out, print_json
from frazil.cli.options import AsJson, Verbose, Where
from frazil.spec.amount import counted


def validate(path: Where = Path(), *, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Report every mistake in a declaration at once, without starting Java.

    Example: frazil validate my_lake
    """
    with error_exit(as_json=as_json, verbose=verbose):
        valid = api.validate(path)
        pipeline = valid.pipeline
        if as_json:
            tables = [table.name for table in pipeline.tables]
            print_json({"pipeline": pipeline.pipeline, "tables": tables, "problems": [], "warnings": [*valid.warnings]})
            return
        marts = sum(len(table.marts) for table in pipeline.tables)
        out.print(
            f"{pipeline.pipeline}: {counted(len(pipeline.tables), 'table')}, {counted(marts, 'mart')}, "
            f"{counted(len(pipeline.gold), 'aggregate')}, no problems",
            style="green",
            markup=False,
        )
        for warning in valid.warnings:
            out.print(warning, style="yellow", markup=False)
