"""``frazil status``."""

from __future__ import annotations

from pathlib import Path

from frazil import api
from frazil.cli.console import error_exit, print_json
from frazil.cli.options import AsJson, Verbose, Where
from frazil.cli.render.status import show_status


def status(path: Where = Path(), *, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Show the state of every table and what waits at its source."""
    with error_exit(as_json=as_json, verbose=verbose):
        found = api.status(path)
        if as_json:
            from frazil.serve.query.plain import plain  # noqa: PLC0415

            print_json(plain(found))
        else:
            show_status(found)
