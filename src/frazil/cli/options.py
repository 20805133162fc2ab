"""Arguments of several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer


def local(given: str) -> Path:
    """Return a local path.

    Raises:
        typer.BadParameter: the text is an address, which ``Path`` would change to ``s3:/bucket``.
    """
    if "://" in f"{given}":
        raise typer.BadParameter(f"{given} is an address; give a file or folder on this machine")
    return Path(given)


PROJECT_HELP: Final = "The declaration, or the folder with its frazil.yml."

Where = Annotated[Path, typer.Argument(parser=local, metavar="PATH", help=PROJECT_HELP)]
Project = Annotated[Path, typer.Option("--project", "-p", parser=local, metavar="PATH", help=PROJECT_HELP)]
"""The project of commands whose arguments are something else."""
AsJson = Annotated[bool, typer.Option("--json", help="Write only JSON to standard output.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show Spark's messages, and stacks of errors.")]
Select = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        "-s",
        metavar="NAME",
        help="A table, mart, aggregate, layer or pattern; +NAME adds inputs, NAME+ aggregates. May be repeated.",
    ),
]
OneTable = Annotated[
    list[str] | None, typer.Option("--select", "-s", metavar="TABLE", help="The source table, or one of its marts.")
]


def one_of(one_table: list[str] | None) -> str:
    """Return the one table that ``--select`` names.

    Raises:
        typer.BadParameter: it names none, or several.
    """
    if one_table is None or len(one_table) != 1:
        raise typer.BadParameter("name one table: --select TABLE")
    return one_table[0]


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
FailFast = Annotated[bool, typer.Option("--fail-fast", help="Start no other table after a failure.")]
MetricsPort = Annotated[
    int | None,
    typer.Option("--metrics-port", min=0, max=65535, help="Serve /metrics, /healthz and /readyz; 0: a free port."),
]
MetricsHost = Annotated[
    str, typer.Option("--metrics-host", help="Address that they are served on; 0.0.0.0 for Kubernetes.")
]
