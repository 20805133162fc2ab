"""Options of all commands: ``--project``, ``--exclude``, ``--quiet``, ``--log-level``, and old forms with a warning."""

from __future__ import annotations

import inspect
import logging
import os
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from typer.models import OptionInfo

from frazil.cli.console import err, out
from frazil.cli.options import PROJECT_HELP, local

if TYPE_CHECKING:
    from collections.abc import Callable

OLD_COMMANDS: Final = {"rebuild": ("run", "--full-refresh")}
"""Old command -> the words that replace it."""

_PROJECT_VARIABLE: Final = "FRAZIL_PROJECT"
_Project = Annotated[
    Path | None,
    typer.Option("--project", "-p", parser=local, metavar="PATH", help=f"{PROJECT_HELP} Or ${_PROJECT_VARIABLE}."),
]
_Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="NAME", help="Leave this out; the forms of --select. May be repeated."),
]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors, and the output of --json.")]
_LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"] | None,
    typer.Option("--log-level", help="Level of what Spark and Kafka's client log; -v shows the log."),
]
_OldPath = Annotated[Path | None, typer.Option("--path", parser=local, metavar="PATH", hidden=True)]
_OldTable = Annotated[list[str] | None, typer.Option("--table", "-t", hidden=True)]


def with_options(function: Callable[..., None], *, is_quiet: bool) -> Callable[..., None]:
    """Return a command with the options that all commands have, as far as they concern it.

    Args:
        function: the command. Its ``path`` is the project, ``select`` names tables, ``one_table`` names one.
        is_quiet: give it ``--quiet``.
    """
    own = inspect.signature(function, eval_str=True)
    parameters = {**own.parameters}
    extra: dict[str, Any] = {"log_level": _LogLevel, **({"quiet": _Quiet} if is_quiet else {})}
    if (path := parameters.get("path")) is not None:
        extra["project"] = _Project
        if any(isinstance(one, OptionInfo) for one in path.annotation.__metadata__):
            extra["old_path"] = _OldPath
            del parameters["path"]
        else:
            parameters["path"] = path.replace(default=None)
    if "one_table" in parameters:
        extra["old_table"] = _OldTable
    if "select" in parameters and function.__name__ != "drop":
        extra["exclude"] = _Exclude
    for name, kind in extra.items():
        default = False if name == "quiet" else None
        parameters[name] = Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)

    @wraps(function)
    def command(**given: Any) -> None:
        _listen(given.pop("log_level"), quiet=given.pop("quiet", False))
        if "project" in given:
            given["path"] = _project(given.get("path"), given.pop("project"), given.pop("old_path", None))
        if excluded := given.pop("exclude", None):
            given["select"] = [*(given["select"] or ()), *(f"!{word}" for word in excluded)]
        if old := given.pop("old_table", None):
            warn_old("--table", "--select")
            given["one_table"] = [*(given["one_table"] or ()), *old]
        function(**given)

    command.__signature__ = own.replace(parameters=[*parameters.values()])  # type: ignore[attr-defined]
    command.__annotations__ = {name: one.annotation for name, one in parameters.items()}
    return command


def warn_old(old: str, new: str) -> None:
    """Print that an old form is used, and the form that replaces it."""
    err.print(f"{old} is now {new}; the old form works in this version only", style="yellow", markup=False)


def _project(path: Path | None, project: Path | None, old: Path | None) -> Path:
    """Return the project: of an option or the argument, else of the environment, else the working directory."""
    if old is not None:
        warn_old("--path", "--project")
    given = [one for one in (path, project, old) if one is not None]
    if len(given) > 1:
        raise typer.BadParameter("the project is given twice; give PATH or --project")
    return given[0] if given else local(os.environ.get(_PROJECT_VARIABLE) or ".")


def _listen(level: str | None, *, quiet: bool) -> None:
    """Set what this command prints and logs."""
    out.quiet = quiet
    if level is not None:
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        logging.getLogger("frazil").setLevel(level.upper())
