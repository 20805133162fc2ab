"""``frazil sql``."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from frazil import api
from frazil.cli.console import error_exit, out


def sql(
    what: Annotated[Literal["audit-trigger"], typer.Argument(help="audit-trigger: an audit log for PostgreSQL.")],
    tables: Annotated[list[str] | None, typer.Argument(help="Tables that write to the log, as schema.table.")] = None,
    *,
    log: Annotated[str, typer.Option(help="The log table, as schema.table.")] = "public.audit_log_dml",
    with_rows: Annotated[
        bool, typer.Option("--with-rows", help="Also write the existing rows of the tables to the log.")
    ] = False,
) -> None:
    """Print the SQL that a source database needs, for psql."""
    del what  # there is one
    with error_exit():
        out.out(api.audit_trigger(log, tables or (), rows=with_rows), end="", highlight=False)
