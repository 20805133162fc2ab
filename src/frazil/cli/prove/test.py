"""``frazil test``."""

from __future__ import annotations

from pathlib import Path

import typer

from frazil import api
from frazil.cli.console import error_exit, out, print_json
from frazil.cli.options import AsJson, Select, Verbose, Where
from frazil.cli.render.rules import show_rules, summary
from frazil.serve.check.rules import RulesBrokenError


def test(path: Where = Path(), *, select: Select = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Test the rules of contracts over the rows of the marts; exit 5 if one is broken that does not only warn."""
    with error_exit(as_json=as_json, verbose=verbose):
        results = api.test(path, select=select or ())
        is_broken = any(result.ok is False for result in results)
        if as_json:
            from frazil.serve.query.plain import plain  # noqa: PLC0415

            print_json(plain(results))
            if is_broken:
                raise typer.Exit(RulesBrokenError.exit_code)
            return
        show_rules(results)
        if is_broken:
            raise RulesBrokenError(
                summary(results),
                hint="fix the source, or the declaration: rules that quarantine are part of what a table is made of, "
                "and the next run rebuilds it",
            )
        out.print(summary(results), style="green" if all(one.ok for one in results) else "yellow", markup=False)
