"""``frazil maintain``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from frazil import api
from frazil.cli.console import error_exit, print_json
from frazil.cli.options import AsJson, Select, Verbose, Where
from frazil.cli.progress import Progress
from frazil.cli.reporting import show_maintained


def maintain(path: Where = Path(), *, select: Select = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Compact files, expire snapshots, remove orphan files and compute statistics.

    Snapshots with the bookmarks that the next run needs are kept.

    Example: frazil maintain my_lake --select orders
    """
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        api.selection(pipeline, select or ())  # reports a wrong word before Java starts
        with Progress(quiet=as_json, first="start Spark") as progress:
            spark = api.session(pipeline, verbose=verbose)
            done = api.maintain(
                pipeline, spark=spark, select=select or (), tell=lambda text: progress.step(f"maintain {text}")
            )
        if as_json:
            print_json([asdict(report) for report in done])
        else:
            show_maintained(done)
