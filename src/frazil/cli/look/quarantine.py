"""``frazil quarantine``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frazil import api
from frazil.cli.console import error_exit, out, print_json
from frazil.cli.grid import fitted, grid
from frazil.cli.options import AsJson, OneTable, Verbose, Where, local, one_of
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from frazil.serve.quarantine import BrokenRule, Quarantine


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
        ("table", "rule", "column", "records", "batches", "for example"),
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


def _batches(rule: BrokenRule) -> str:
    is_one = rule.first_batch == rule.last_batch
    return f"{rule.first_batch}" if is_one else f"{rule.first_batch} to {rule.last_batch}"
