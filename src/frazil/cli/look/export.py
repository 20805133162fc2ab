"""``frazil export``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
import yaml

from frazil import api
from frazil.cli.console import error_exit, out
from frazil.cli.options import AsJson, Verbose, Where, local
from frazil.spec.load.project import created

if TYPE_CHECKING:
    from frazil.interop.spark_conf import Platform


def export(
    what: Annotated[
        Literal["dbt", "odcs", "spark-pipelines", "spark-conf"],
        typer.Argument(
            help="dbt: sources with types and tests. odcs: a contract of the Open Data Contract Standard. "
            "spark-pipelines: Python code for AUTO CDC of Spark 4.3. spark-conf: settings for a cluster."
        ),
    ],
    path: Where = Path(),
    *,
    platform: Annotated[
        Literal["standalone", "kubernetes", "emr", "glue", "databricks", "dataproc"] | None,
        typer.Option(help="For spark-conf: where Spark runs."),
    ] = None,
    spark: Annotated[
        str | None, typer.Option(help="For spark-conf: its version, such as 4.0. Default: the installed PySpark.")
    ] = None,
    to: Annotated[Path | None, typer.Option(parser=local, metavar="FILE", help="Write to this file.")] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Describe the marts for other tools, as YAML, or write Spark's settings for a cluster."""
    if (platform is None) is (what == "spark-conf"):
        raise typer.BadParameter("--platform belongs to spark-conf, which requires it")
    with error_exit(as_json=as_json, verbose=verbose):
        value, text = _written(path, what, platform, spark)
        if as_json:
            text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        if to is None:
            out.out(text, end="", highlight=False)
        else:
            with created(to) as file:
                file.write(text)
            out.print(f"wrote {to}", markup=False)


def _written(path: Path, what: str, platform: Platform | None, spark: str | None) -> tuple[dict[str, Any], str]:
    """Return the export as a value and as text."""
    if platform is not None:
        conf = api.spark_conf(path, platform, spark=spark)
        return asdict(conf), conf.text
    if what == "spark-pipelines":
        text = api.spark_pipelines(path)
        return {"python": text}, text
    value = api.export(path, "dbt" if what == "dbt" else "odcs")
    return value, yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)
