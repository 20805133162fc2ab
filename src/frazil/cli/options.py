"""Arguments of several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def local(given: str) -> Path:
    """Return a local path.

    Raises:
        typer.BadParameter: the text is an address, which ``Path`` would change to ``s3:/bucket``.
    """
    if "://" in f"{given}":
        raise typer.BadParameter(f"{given} is an address; give a file or folder on this machine")
    return Path(given)


Where = Annotated[
    Path, typer.Argument(parser=local, metavar="PATH", help="The declaration, or the folder with its frazil.yml.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Write only JSON to standard output.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show Spark's messages, and stacks of errors.")]
Select = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        "-s",
        help="A table, mart, aggregate, layer or pattern; +NAME adds inputs, NAME+ aggregates. May be repeated.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
FailFast = Annotated[bool, typer.Option("--fail-fast", help="Start no other table after a failure.")]
