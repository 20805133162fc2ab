"""``frazil test``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from frazil import api
from frazil.cli.console import error_exit, out, print_json
from frazil.cli.grid import grid
from frazil.cli.options import AsJson, Select, Verbose, Where
from frazil.serve.check.rules import RulesBrokenError
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.serve.check.rules import RuleTest


def test(path: Where = Path(), *, select: Select = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Test the rules of contracts on the rows of the marts.

    Exit code 5: a rule is broken that does not only warn.

    Example: frazil test my_lake --select orders
    """
    with error_exit(as_json=as_json, verbose=verbose):
        results = api.test(path, select=select or ())
        is_broken = any(result.ok is False for result in results)
        if as_json:
            from frazil.serve.query.plain import plain  # noqa: PLC0415

            print_json(plain(results))
            if is_broken:
                raise typer.Exit(RulesBrokenError.exit_code)
            return
        show_rules([one for one in results if one.broken != 0])
        if is_broken:
            raise RulesBrokenError(
                summary(results),
                hint="fix the source, or the declaration: if a rule that quarantines changes, the next run rebuilds "
                "the table",
            )
        out.print(summary(results), style="green" if all(one.ok for one in results) else "yellow", markup=False)


def show_rules(results: Sequence[RuleTest]) -> None:
    """Print a line for each rule."""
    if results:
        grid(
            None,
            ("table", "rule", "column", "rows", "broken", "on violation", "detail"),
            [
                (
                    *(one.table, one.rule, one.column or "", f"{one.rows:,}"),
                    *("?" if one.broken is None else f"{one.broken:,}", one.on_violation, one.detail),
                )
                for one in results
            ],
            right=("rows", "broken"),
        )


def summary(results: Sequence[RuleTest]) -> str:
    """Return the numbers of rules that hold, are broken and cannot be tested, as text."""
    if not results:
        return "no table has rules and rows"
    kept = sum(one.broken == 0 for one in results)
    parts = [f"{counted(kept, 'rule is', 'rules are')} kept"]
    broken, warned = (sum(one.ok is ok and bool(one.broken) for one in results) for ok in (False, None))
    untold = sum(one.broken is None for one in results)
    parts += [f"{broken:,} broken"] if broken else []
    parts += [f"{warned:,} broken that only {'warns' if warned == 1 else 'warn'}"] if warned else []
    parts += [f"{untold:,} cannot be tested"] if untold else []
    return ", ".join(parts)
