"""``frazil export``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
import yaml

from frazil import api
from frazil.cli.console import error_exit, out
from frazil.cli.options import AsJson, Verbose, Where, local
from frazil.spec.load.project import created

_To = Annotated[Path | None, typer.Option("--to", parser=local, metavar="FILE", help="Write to this file.")]


def export() -> None:
    """Write tables, settings or SQL in the form that another tool reads.

    Example: frazil export dbt my_lake --to models/frazil.yml
    """


def dbt(path: Where = Path(), *, to: _To = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Write the marts as sources of a dbt project, with types, descriptions and tests.

    Example: frazil export dbt my_lake --to models/frazil.yml
    """
    with error_exit(as_json=as_json, verbose=verbose):
        value = api.export(path, "dbt")
        _write(value, _yaml(value), to, as_json=as_json)


def odcs(path: Where = Path(), *, to: _To = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Write the marts as a data contract of the Open Data Contract Standard.

    Example: frazil export odcs my_lake --to orders.odcs.yaml
    """
    with error_exit(as_json=as_json, verbose=verbose):
        value = api.export(path, "odcs")
        _write(value, _yaml(value), to, as_json=as_json)


def spark_pipelines(path: Where = Path(), *, to: _To = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Write the marts as Python code for AUTO CDC of Spark 4.3.

    Example: frazil export spark-pipelines my_lake --to transformations/shop.py
    """
    with error_exit(as_json=as_json, verbose=verbose):
        text = api.spark_pipelines(path)
        _write({"python": text}, text, to, as_json=as_json)


def spark_conf(
    path: Where = Path(),
    *,
    platform: Annotated[
        Literal["standalone", "kubernetes", "emr", "glue", "databricks", "dataproc"],
        typer.Option(help="Where Spark runs."),
    ],
    spark: Annotated[str | None, typer.Option(help="Its version, such as 4.0. Default: the installed PySpark.")] = None,
    to: _To = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Write Spark's settings for a pipeline on a cluster.

    Example: frazil export spark-conf my_lake --platform emr --to shop.conf
    """
    with error_exit(as_json=as_json, verbose=verbose):
        conf = api.spark_conf(path, platform, spark=spark)
        _write(asdict(conf), conf.text, to, as_json=as_json)


def trino(path: Where = Path(), *, to: _To = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Write the catalog file etc/catalog/lake.properties for your own Trino.

    Example: frazil export trino my_lake --to lake.properties
    """
    with error_exit(as_json=as_json, verbose=verbose):
        settings, text = api.trino_catalog(path)
        _write(settings, text, to, as_json=as_json)


def audit_trigger(
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="TABLE", help="Tables that write to the log, as schema.table.")
    ] = None,
    *,
    log: Annotated[str, typer.Option(help="The log table, as schema.table.")] = "public.audit_log_dml",
    with_rows: Annotated[
        bool, typer.Option("--with-rows", help="Also write the existing rows of the tables to the log.")
    ] = False,
    to: _To = None,
    verbose: Verbose = False,
) -> None:
    """Write the SQL that PostgreSQL needs for an audit log: the log table, and triggers on tables.

    Example: frazil export audit-trigger public.orders public.items --to log.sql
    """
    with error_exit(verbose=verbose):
        _write(None, api.audit_trigger(log, tables or (), rows=with_rows), to, as_json=False)


PARTS: Final = (dbt, odcs, spark_pipelines, spark_conf, trino, audit_trigger)
"""The subcommands."""


def _yaml(value: dict[str, Any]) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)


def _write(value: Any, text: str, to: Path | None, *, as_json: bool) -> None:
    """Write the text, or the value as JSON, to a file or standard output."""
    if as_json:
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    if to is None:
        out.out(text, end="", highlight=False)
        return
    with created(to) as file:
        file.write(text)
    out.print(f"wrote {to}", markup=False)
