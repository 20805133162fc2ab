"""Arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def local(given: str) -> Path:
    """Return the path that was given.

    Raises:
        typer.BadParameter: it is an address, which a path would be made of that nobody meant: ``s3:/bucket``.
    """
    if "://" in f"{given}":
        raise typer.BadParameter(f"{given} is an address; a file or folder on this machine is asked for")
    return Path(given)


Where = Annotated[
    Path, typer.Argument(parser=local, metavar="PATH", help="The declaration, or the folder with its frazil.yml.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON to standard output, nothing else.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show Spark's own messages, and stacks of errors.")]
Select = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        "-s",
        help="A table, a mart, an aggregate, a layer or a pattern, + for what it is made of; may be repeated.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
FailFast = Annotated[bool, typer.Option("--fail-fast", help="Start no further table once one has failed.")]
