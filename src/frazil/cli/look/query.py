"""``frazil query``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from frazil import api
from frazil.cli.console import error_exit
from frazil.cli.options import AsJson, Verbose, Where, local


def query(
    sql: Annotated[
        str | None,
        typer.Argument(help="SQL over the lake's tables, such as: select * from marts.hosts. Left out: a prompt."),
    ] = None,
    path: Where = Path(),
    *,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", metavar="POINT", help="Read the tables as they were: a time (UTC), a snapshot, a cut."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="Rows to show or write at most.")] = None,
    all_columns: Annotated[
        bool, typer.Option("--all-columns", help="Include the bookkeeping columns (_cdc_…) in select *.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV to standard output, nothing else.")] = False,
    parquet: Annotated[Path | None, typer.Option(parser=local, metavar="FILE", help="Write a Parquet file.")] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Query the lake with SQL, by DuckDB."""
    with error_exit(as_json=as_json, verbose=verbose):
        from frazil.cli.look.prompt import prompt  # noqa: PLC0415 - DuckDB takes a quarter of a second
        from frazil.cli.render.query import Answers  # noqa: PLC0415
        from frazil.serve.query.query import QueryError  # noqa: PLC0415

        if as_json + as_csv + (parquet is not None) > 1:
            raise QueryError("--json, --csv and --parquet are three forms of one answer", hint="choose one")
        if sql is not None and path == Path() and len(sql.split()) == 1 and Path(sql).exists():
            path, sql = Path(sql), None  # one word is no SQL
        if sql is None and not sys.stdin.isatty():
            raise QueryError("there is no SQL to run", hint='frazil query "select * from marts.hosts"')
        answers = Answers(
            pipeline=api.load(path),
            form="json" if as_json else "csv" if as_csv else "grid",
            parquet=parquet,
            limit=limit,
            all_columns=all_columns,
            as_of=as_of,
        )
        if sql is None:
            prompt(answers.give)
        else:
            answers.give(sql)
