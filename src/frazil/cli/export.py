"""``frazil export``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer
import yaml

from frazil import api
from frazil.cli.console import error_exit, out
from frazil.cli.options import AsJson, Verbose, Where


def export(
    what: Annotated[
        Literal["dbt", "odcs", "spark-pipelines"],
        typer.Argument(
            help="dbt: sources with types and tests. odcs: a contract of the Open Data Contract Standard. "
            "spark-pipelines: a file of Python for AUTO CDC of Spark 4.3."
        ),
    ],
    path: Where = Path(),
    *,
    to: Annotated[Path | None, typer.Option(help="Write to this file.")] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Describe the marts for other tools, as YAML."""
    with error_exit(as_json=as_json, verbose=verbose):
        value = {"python": api.spark_pipelines(path)} if what == "spark-pipelines" else api.export(path, what)
        if as_json:
            text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        elif what == "spark-pipelines":
            text = value["python"]
        else:
            text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)
        if to is None:
            out.out(text, end="", highlight=False)
        else:
            to.write_text(text, encoding="utf-8")
            out.print(f"wrote {to}", markup=False)
