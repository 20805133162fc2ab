"""``frazil ui``."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from threading import Timer
from typing import Annotated

import typer

from frazil.cli.console import err, error_exit, out, print_json
from frazil.cli.interrupt import gently
from frazil.cli.options import AsJson, Verbose, Where
from frazil.ui.trouble import PageClientError


def ui(
    path: Where = Path(),
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any free one.")] = 8321,
    host: Annotated[str, typer.Option(help="Address to listen on. Another one than this lets others reach it.")] = (
        "127.0.0.1"
    ),
    allow_writes: Annotated[bool, typer.Option("--allow-writes", help="Let pages change something.")] = False,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show the lake in a browser, until Ctrl-C or SIGTERM: tables, keys, SQL, quarantine.

    The page is on this machine only. It starts no JVM and asks no other machine. With the
    extra docs, it also has the documentation.

    Example: frazil ui my_lake
    """
    with error_exit(as_json=as_json, verbose=verbose):
        try:
            from frazil.ui.server import docs_folder, page_server  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            raise PageClientError(f"{error.name}") from None
        page = page_server(
            path,
            host=host,
            port=port,
            allow_writes=allow_writes,
            docs=docs_folder(),
            renewed=lambda link: err.print(f"for another browser: {link}", style="dim", markup=False),
        )
        if as_json:
            print_json({"url": page.link, "address": page.address})
        else:
            out.print(f"{page.pipeline} is at {page.link}", markup=False)
            out.print("Ctrl-C stops it", style="dim", markup=False)
        if open_browser and not as_json:
            Timer(0.3, webbrowser.open, [page.link]).start()
        with gently(page.stop, "stopping"):
            page.serve()
        err.print("stopped")
