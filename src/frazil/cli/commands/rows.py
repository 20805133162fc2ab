"""Commands that read rows of a lake: ``key``, ``query``, ``diff`` and ``quarantine``."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from frazil import api
from frazil.cli.console import err, error_exit, fitted, grid, out, print_json
from frazil.cli.options import AsJson, OneTable, Project, Verbose, Where, local, one_of
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frazil.serve.key import KeyStory
    from frazil.serve.quarantine import BrokenRule, Quarantine
    from frazil.serve.query.diff import ChangedRow, Diff, Side
    from frazil.spec import Pipeline


_UNKNOWN_KEY = 2


def key(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The source table's name.")],
    value: Annotated[list[str], typer.Argument(metavar="VALUE", help="The key: its values in the order of keys.")],
    *,
    path: Project = Path(),
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Explain why a row looks as it does: its changes from bronze to marts, in order.

    Exit code 2: the key is unknown.

    Example: frazil key orders 1006 --project my_lake
    """
    with error_exit(as_json=as_json, verbose=verbose):
        story = api.key(path, table, value)
        if as_json:
            from frazil.serve.query.plain import plain  # noqa: PLC0415

            print_json(plain(story))
        elif story.is_known:
            show_key(story)
        if not story.is_known:
            err.print(f"{story.table}: no record, change or row has {named(story)}", style="yellow", markup=False)
            raise typer.Exit(_UNKNOWN_KEY)


def show_key(story: KeyStory) -> None:
    """Print everything that the lake holds of one key, from bronze to marts."""
    out.print(f"{story.table} where {named(story)}", style="bold", markup=False)
    out.print("\n1 raw records (bronze)")
    fields = list(dict.fromkeys(name for record in story.records for name in record.fields))
    _rows(
        ["file", "row", "batch", "op", *fields, "quarantined"],
        [
            [_name(record.file), record.row, record.batch, record.op]
            + [record.fields.get(name) for name in fields]
            + [record.quarantine["reason"] if record.quarantine else "a correction" if record.is_correction else ""]
            for record in story.records
        ],
        "no record",
    )
    out.print("2 typed changes in order, the last one wins (silver)")
    columns = list(dict.fromkeys(name for change in story.changes for name in change.values))
    _rows(
        ["change", *columns, "batch", "file", "row"],
        [
            [", ".join(change.marks) or change.kind]
            + [change.values.get(name, "·") for name in columns]
            + [change.batch, _name(change.file), change.row]
            for change in story.changes
        ],
        "no change",
    )
    for number, (name, rows) in enumerate(story.marts.items(), 3):
        out.print(f"{number} {name}", markup=False)
        shown = [column for column in (rows[0] if rows else ()) if not column.startswith("_cdc_")]
        _rows(shown, [[row[column] for column in shown] for row in rows], "no row")
    for note in story.notes:
        out.print(note, style="yellow", markup=False)


def named(story: KeyStory) -> str:
    """Return the key as text, with the names of its columns."""
    return ", ".join(f"{name} = {value}" for name, value in story.key.items())


def _rows(names: Sequence[str], rows: Sequence[Sequence[Any]], none: str) -> None:
    if rows:
        fitted(names, rows)
    else:
        out.print(f"  {none}\n", style="dim", markup=False)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


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


def diff(
    mart: Annotated[str, typer.Argument(metavar="MART", help="The mart's name.")],
    *,
    begin: Annotated[str, typer.Option("--from", metavar="POINT", help="A time (UTC), a snapshot, a cut, or batch:N.")],
    end: Annotated[str | None, typer.Option("--to", metavar="POINT", help="Another point. Default: now.")] = None,
    path: Project = Path(),
    limit: Annotated[int, typer.Option(min=0, help="Maximum number of rows to show; the counts cover all rows.")] = 20,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show the rows of a mart that changed between two points, with old and new values.

    Example: frazil diff orders --from batch:1 --project my_lake
    """
    with error_exit(as_json=as_json, verbose=verbose):
        found = api.diff(path, mart, begin, end, limit=limit)
        if as_json:
            from frazil.serve.query.plain import plain  # noqa: PLC0415

            print_json(plain(found))
        else:
            show_diff(found)


def show_diff(found: Diff) -> None:
    """Print the counts and the changed rows; changed values of an updated row are ``old → new``."""
    out.print(f"{found.mart}: {_side(found.begin)} to {_side(found.end)}", style="bold", markup=False)
    counts = f"{found.inserted} inserted, {found.updated} updated, {found.deleted} deleted"
    if found.rows:
        keys = [*found.rows[0].key]
        fitted(["change", *keys, *found.columns], [_cells(row, found.columns) for row in found.rows])
    more = found.changed - len(found.rows)
    note = f"; {counted(more, 'row')} not shown, --limit shows more" if more else ""
    out.print(f"{counts}{note}", style="dim", markup=False)


def _side(side: Side) -> str:
    return f"batch {side.batch} (snapshot {side.snapshot})"


def _cells(row: ChangedRow, columns: tuple[str, ...]) -> list[Any]:
    return [row.change, *row.key.values(), *(_cell(row, name) for name in columns)]


def _cell(row: ChangedRow, name: str) -> Any:
    if row.old is None or row.new is None:
        return (row.old or row.new or {})[name]
    old, new = row.old[name], row.new[name]
    return new if old == new else f"{_text(old)} → {_text(new)}"


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else f"{value}".lower()
    return "'NULL'" if value == "NULL" else f"{value}".removesuffix("+00:00")


def quarantine(
    path: Where = Path(),
    *,
    one_table: OneTable = None,
    to: Annotated[
        Path | None,
        typer.Option(
            parser=local,
            metavar="FILE",
            help="Write the records of the table to this file, for correction and replay.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Records at most.")] = 20,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show the rules that records break; with --select, the records of a table.

    Example: frazil quarantine my_lake --select orders --to bad.jsonl
    """
    table = one_of(one_table) if one_table or to is not None else None
    with error_exit(as_json=as_json, verbose=verbose):
        if to is not None and table is not None:
            count = api.quarantine_to(path, table, to)
            if as_json:
                print_json({"table": table, "records": count, "file": to})
                return
            out.print(
                f"{counted(count, 'record')} written to {to}: correct the fields in `record`, then "
                f"run: frazil replay --select {table} --from {to}",
                markup=False,
                soft_wrap=True,
            )
            return
        found = api.quarantine(path, table, limit=limit)
        if as_json:
            from frazil.serve.query.plain import plain  # noqa: PLC0415

            print_json(plain(found))
        else:
            show_quarantine(found)


def show_quarantine(found: Quarantine) -> None:
    """Print the broken rules, and the records of a table."""
    if not found.rules:
        out.print("nothing is in quarantine", markup=False)
        return
    grid(
        None,
        ("table", "rule", "column", "records", "batch", "for example"),
        [
            (rule.table, rule.rule, rule.column or "", f"{rule.records:,}", _batches(rule), rule.example)
            for rule in found.rules
        ],
        right=["records"],
    )
    if found.records:
        fitted(
            ("file", "row", "batch", "column", "reason", "raw"),
            [(one.file, one.row, one.batch, one.column or "", one.reason, one.raw) for one in found.records],
        )
        of = sum(rule.records for rule in found.rules)
        out.print(f"{len(found.records):,} of {counted(of, 'record')}", style="dim", markup=False)
    for name, texts in found.retyped.items():
        for text in texts:
            out.print(f"{name}: {text}", style="yellow", markup=False)
    names = {rule.table for rule in found.rules}
    name = names.pop() if len(names) == 1 else "TABLE"
    out.print(
        f"correct them: frazil quarantine --select {name} --to FILE, then frazil replay --select {name} --from FILE",
        markup=False,
        soft_wrap=True,
    )


def _batches(rule: BrokenRule) -> str:
    is_one = rule.first_batch == rule.last_batch
    return f"{rule.first_batch}" if is_one else f"{rule.first_batch} to {rule.last_batch}"
