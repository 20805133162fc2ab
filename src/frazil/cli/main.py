"""The command ``frazil`` and its subcommands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from frazil.cli.console import out
from frazil.cli.options import renewed, with_options

_PANELS: Final = {
    "Start": {"init": "start", "validate": "start", "doctor": "start"},
    "Run": {"plan": "run", "run": "run", "watch": "run", "capture": "run", "replay": "run"},
    "Look": {
        "status": "overview",
        "key": "rows",
        "query": "rows",
        "ls": "overview",
        "diff": "rows",
        "lineage": "overview",
        "runs": "overview",
        "quarantine": "rows",
        "export": "serving",
        "serve": "serving",
        "ui": "serving",
        "mcp": "serving",
    },
    "Prove": {"check": "prove", "test": "prove"},
    "Operate": {"maintain": "operate", "rollback": "operate", "cut": "operate", "drop": "operate"},
    "Protect": {"erase": "erase"},
}
"""The panels of the help, in order: each command with its module, where it is a function of its name.
``PARTS`` of a module has the functions of the subcommands, by command."""

COMMANDS: Final = {
    name: f"frazil.cli.commands.{module}" for commands in _PANELS.values() for name, module in commands.items()
}
"""The commands, each with its module."""


class _Commands(Mapping[str, Any]):
    """Imports and builds a command on its first use: all of them together take 0.3 seconds."""

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        return _command(name)


@cache
def _command(name: str) -> Any:
    panel = next(panel for panel, names in _PANELS.items() if name in names)
    module = import_module(COMMANDS[name])
    function, parts = getattr(module, name), getattr(module, "PARTS", {}).get(name, ())
    alone = typer.Typer(name=name, add_completion=False, rich_markup_mode="rich", no_args_is_help=True)
    for part in parts or (function,):
        alone.command(rich_help_panel=None if parts else panel)(with_options(part, is_quiet=panel != "Look"))
    if parts:
        alone.callback(rich_help_panel=panel)(function)
    return typer.main.get_command(alone)


class _Group(TyperGroup):
    """The command ``frazil`` with its subcommands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": _Commands()})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; an old one is replaced by the words that mean the same now."""
        return super().resolve_command(ctx, renewed(args))


def _version(*, wanted: bool) -> None:
    if wanted:
        from frazil import __version__  # noqa: PLC0415

        out.print(f"frazil {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="frazil",
    cls=_Group,
    help="Turn database changes into exact Apache Iceberg tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def frazil(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=lambda value: _version(wanted=value), is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """Turn database changes into exact Apache Iceberg tables."""
