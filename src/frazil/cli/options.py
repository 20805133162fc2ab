"""Options that commands share: ``--project``, ``--select``, ``--json`` and others, and old forms with a warning."""

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

from frazil.cli.console import err, named_project, out

if TYPE_CHECKING:
    from collections.abc import Callable


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


_OLD_COMMANDS: Final = {
    "rebuild": "run --full-refresh",
    "generate": "init --sample --old-generate",
    "schema": "status",
    "sql audit-trigger": "export audit-trigger",
}
"""Words of an old command -> those that replace them; the warning leaves out words that begin with ``--old``."""

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

    A ``table_or_path`` that names a project is the project.
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
            given["path"] = _project(given)
        if excluded := given.pop("exclude", None):
            given["select"] = [*(given["select"] or ()), *(f"!{word}" for word in excluded)]
        if old := given.pop("old_table", None):
            warn_old("--table", "--select")
            given["one_table"] = [*(given["one_table"] or ()), *old]
        try:
            function(**given)
        finally:
            named_project.set(None)

    command.__signature__ = own.replace(parameters=[*parameters.values()])  # type: ignore[attr-defined]
    command.__annotations__ = {name: one.annotation for name, one in parameters.items()}
    return command


def renewed(args: list[str]) -> list[str]:
    """Return the words of a command line, in the form of today; warn of an old one."""
    for old, new in _OLD_COMMANDS.items():
        words = old.split()
        if args[: len(words)] == words:
            warn_old(f"frazil {old}", f"frazil {new.partition(' --old')[0]}")
            return [*new.split(), *args[len(words) :]]
    return args


def warn_old(old: str, new: str) -> None:
    """Print that an old form is used, and the form that replaces it."""
    err.print(f"{old} is now {new}; the old form works in this version only", style="yellow", markup=False)


def _project(given: dict[str, Any]) -> Path:
    """Take the project from an option or the argument, else from the environment, else the working directory."""
    found = [given.get("path"), given.pop("project"), old := given.pop("old_path", None)]
    if old is not None:
        warn_old("--path", "--project")
    found = [one for one in found if one is not None]
    if not found and _is_project(given.get("table_or_path")):
        found, given["table_or_path"] = [local(given["table_or_path"])], None
    if len(found) > 1:
        raise typer.BadParameter("the project is given twice; give PATH or --project")
    here = local(os.environ.get(_PROJECT_VARIABLE) or ".")
    if not found and not _is_declared(here):
        _refuse_misplaced(given)
    project = found[0] if found else here
    named_project.set(None if project == here else f"{project}")
    return project


def _refuse_misplaced(given: dict[str, Any]) -> None:
    """Refuse a project that stands where the command takes another word, as in ``frazil key orders 5 my_lake``."""
    # frazil query takes a project in place of a statement.
    values = [value for name, value in given.items() if name != "sql"]
    words = [word for value in values for word in (value if isinstance(value, list) else [value])]
    for word in words:
        if isinstance(word, str) and _is_declared(Path(word)):
            raise typer.BadParameter(f"'{word}' is a project; name it with an option: --project {word}")


def _is_project(word: str | None) -> bool:
    """Return whether a word names a project: by a path, or because there is no other project."""
    if word is None:
        return False
    here = Path(os.environ.get(_PROJECT_VARIABLE) or ".")
    return "/" in word or _is_declared(Path(word)) or not _is_declared(here)


def _is_declared(path: Path) -> bool:
    return path.is_file() or (path / "frazil.yml").is_file()


def _listen(level: str | None, *, quiet: bool) -> None:
    """Set what this command prints and logs."""
    out.quiet = quiet
    if level is not None:
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        logging.getLogger("frazil").setLevel(level.upper())
