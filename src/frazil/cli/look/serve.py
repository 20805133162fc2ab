"""``frazil serve``."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Annotated, Literal

import typer

from frazil import api
from frazil.cli.console import err, error_exit, out, print_json
from frazil.cli.everywhere import warn_old
from frazil.cli.interrupt import gently
from frazil.cli.options import AsJson, Verbose, Where


def serve(
    what: Annotated[
        Literal["trino"], typer.Argument(metavar="trino", help="trino: version 476 with its web page, on 127.0.0.1.")
    ],
    path: Where = Path(),
    *,
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for any free one.")] = 8080,
    old_catalog_file: Annotated[bool, typer.Option("--catalog-file", hidden=True)] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Start Trino on the lake, on this machine only, until Ctrl-C or SIGTERM.

    The first start downloads 540 MB. For a Trino of your own, frazil export trino writes the catalog file.

    Example: frazil serve trino my_lake
    """
    del what  # there is one
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        if old_catalog_file:
            warn_old("--catalog-file", "frazil export trino")
            settings, text = api.trino_catalog(pipeline)
            print_json(settings) if as_json else out.out(text, end="", highlight=False)
            return
        stop = Event()
        with (
            gently(stop.set, "stopping"),
            api.serve(pipeline, port=port, tell=lambda text: err.print(text, style="dim")) as server,
        ):
            if as_json:
                print_json({"url": server.url, "port": server.port, "pid": server.pid, "catalog": "lake"})
            else:
                out.print(f"Trino answers at {server.url} (any user name, no password)", markup=False)
                out.print(f"jdbc:trino://127.0.0.1:{server.port}/lake   SELECT * FROM lake.marts.…", markup=False)
                out.print("Ctrl-C stops it", style="dim", markup=False)
            while not stop.wait(0.2):
                pass
        err.print("stopped")
