"""What a query gives, as a grid, JSON, CSV or a Parquet file."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from frazil import api
from frazil.cli.console import out
from frazil.cli.grid import fitted
from frazil.serve.query.query import as_json, is_star, without_bookkeeping
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.spec import Pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """How queries are answered.

    Attributes:
        pipeline: names the lake.
        form: what goes to standard output.
        parquet: a file to write instead, or None.
        limit: rows at most, or None.
        all_columns: show the columns of bookkeeping to people too; files and JSON always have them.
        as_of: a point in the past, or None for now.
    """

    pipeline: Pipeline
    form: Literal["grid", "json", "csv"]
    parquet: Path | None
    limit: int | None
    all_columns: bool
    as_of: str | None = None

    def give(self, sql: str) -> None:
        """Run a query and show or write what it gives."""
        if self.parquet is not None:
            count = api.write_parquet(self.pipeline, sql, self.parquet, limit=self.limit, as_of=self.as_of)
            out.print(f"{counted(count, 'row')} in {self.parquet}", style="dim", markup=False)
        elif self.form == "json":
            sys.stdout.write(as_json(api.query(self.pipeline, sql, limit=self.limit, as_of=self.as_of)) + "\n")
            sys.stdout.flush()
        elif self.form == "csv":
            self._csv(sql)
        else:
            self._grid(sql)

    def _grid(self, sql: str) -> None:
        found = api.query(self.pipeline, sql, limit=self.limit, as_of=self.as_of)
        shown = without_bookkeeping(found) if not self.all_columns and is_star(sql) else found
        fitted(shown.columns, shown.rows)
        hidden = len(found.columns) - len(shown.columns)
        note = f"; {counted(hidden, 'column')} of bookkeeping hidden, --all-columns shows them" if hidden else ""
        out.print(f"{counted(len(shown.rows), 'row')}{note}", style="dim", markup=False)

    def _csv(self, sql: str) -> None:
        api.write_csv(self.pipeline, sql, sys.stdout, limit=self.limit, as_of=self.as_of)
        sys.stdout.flush()
