"""``frazil query``."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from frazil import api
from frazil.cli.console import error_exit, out
from frazil.cli.grid import fitted
from frazil.cli.options import AsJson, Verbose, Where, local
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from frazil.spec import Pipeline


def query(
    sql: Annotated[
        str | None,
        typer.Argument(
            metavar="SQL", help="SQL over the lake's tables, such as: select * from marts.hosts. Without it: a prompt."
        ),
    ] = None,
    path: Where = Path(),
    *,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", metavar="POINT", help="Read the tables as they were: a time (UTC), a snapshot, a cut."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="Maximum number of rows to show or write.")] = None,
    all_columns: Annotated[
        bool, typer.Option("--all-columns", help="Include the bookkeeping columns (_cdc_…) in select *.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write only CSV to standard output.")] = False,
    parquet: Annotated[Path | None, typer.Option(parser=local, metavar="FILE", help="Write a Parquet file.")] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Query the lake with SQL, by DuckDB.

    Example: frazil query "select * from marts.orders" my_lake --as-of month-end
    """
    with error_exit(as_json=as_json, verbose=verbose):
        from frazil.serve.query.query import QueryError  # noqa: PLC0415

        if as_json + as_csv + (parquet is not None) > 1:
            raise QueryError("--json, --csv and --parquet are three forms of one answer", hint="choose one")
        if sql is not None and path == Path() and len(sql.split()) == 1 and Path(sql).exists():
            path, sql = Path(sql), None  # one word is not SQL
        if sql is None and (parquet is not None or not sys.stdin.isatty()):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Settings for the output of queries.

    Attributes:
        pipeline: the declaration.
        form: form of the output on standard output.
        parquet: path of a Parquet file to write instead, or None.
        limit: maximum number of rows, or None.
        all_columns: show bookkeeping columns in a grid; files and JSON always have them.
        as_of: a point in the past, or None for now.
    """

    pipeline: Pipeline
    form: Literal["grid", "json", "csv"]
    parquet: Path | None
    limit: int | None
    all_columns: bool
    as_of: str | None = None

    def give(self, sql: str) -> None:
        """Run a query, and print or write its result."""
        if self.parquet is not None:
            count = api.write_parquet(self.pipeline, sql, self.parquet, limit=self.limit, as_of=self.as_of)
            out.print(f"{counted(count, 'row')} in {self.parquet}", style="dim", markup=False)
        elif self.form == "json":
            from frazil.serve.query.query import as_json  # noqa: PLC0415 - imports DuckDB

            sys.stdout.write(as_json(api.query(self.pipeline, sql, limit=self.limit, as_of=self.as_of)) + "\n")
            sys.stdout.flush()
        elif self.form == "csv":
            self._csv(sql)
        else:
            self._grid(sql)

    def _grid(self, sql: str) -> None:
        from frazil.serve.query.query import is_star, without_bookkeeping  # noqa: PLC0415 - imports DuckDB

        found = api.query(self.pipeline, sql, limit=self.limit, as_of=self.as_of)
        shown = without_bookkeeping(found) if not self.all_columns and is_star(sql) else found
        fitted(shown.columns, shown.rows)
        hidden = len(found.columns) - len(shown.columns)
        note = f"; {counted(hidden, 'column')} of bookkeeping hidden, --all-columns shows them" if hidden else ""
        out.print(f"{counted(len(shown.rows), 'row')}{note}", style="dim", markup=False)

    def _csv(self, sql: str) -> None:
        api.write_csv(self.pipeline, sql, sys.stdout, limit=self.limit, as_of=self.as_of)
        sys.stdout.flush()


_LEAVE: Final = (r"\q", "exit", "quit")


def prompt(answer: Callable[[str], None]) -> None:
    r"""Read statements line by line and answer each, until ``\q``, ``exit``, ``quit`` or Ctrl-D."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, PLC0415 - the import enables arrow keys and history
    out.print(r"SQL over the lake; a statement ends with ;   \q leaves", style="dim", markup=False)
    lines: list[str] = []
    while True:
        try:
            line = input("   ...> " if lines else "frazil> ")
        except EOFError:
            out.print()
            return
        if not lines and line.strip().rstrip(";").lower() in _LEAVE:
            return
        lines += [line] if line.strip() else []
        if line.rstrip().endswith(";"):
            with contextlib.suppress(typer.Exit), error_exit():
                answer("\n".join(lines))
            lines = []
