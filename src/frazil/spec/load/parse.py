"""Read a declaration file as a ``Pipeline``, or report all of its problems with line and column.

References such as ``${env:X}`` stay text until the value is used.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from frazil.errors import DeclarationError, DeclarationProblems, FrazilError, SetupError
from frazil.spec.check.check import problems
from frazil.spec.load.document import read_document
from frazil.spec.load.problem import child
from frazil.spec.load.wording import findings
from frazil.spec.model.pipeline import Pipeline

if TYPE_CHECKING:
    from frazil.spec.load import problem
    from frazil.spec.load.document import Document, Place
    from frazil.spec.load.wording import LikelyFix


FILE_NAME: Final = "frazil.yml"

_ROUNDS: Final = 3
"""Number of checks: a corrected setting can reveal a problem one level deeper."""

_STANDS_ALONE: Final = frozenset(
    {"nullable", "deletes", "format_version", "properties", "live_view", "max_bad_rows", "max_bad_fraction"}
    | {"max_late_fraction", "settle_seconds", "csv_null_value", "csv_delimiter", "csv_escape"}
)
"""Settings that no other rule depends on: without them the table can still be checked."""


def load(path: Path | str) -> Pipeline:
    """Read a declaration file.

    Args:
        path: the file, or a folder with a ``frazil.yml``.

    Returns:
        The pipeline, with relative paths starting from the file's folder.

    Raises:
        DeclarationError: the file does not exist, or is not UTF-8 text.
        DeclarationProblems: all problems of the declaration.
    """
    file = Path(path)
    if file.is_dir():
        file = file / FILE_NAME
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DeclarationError(
            f"no declaration at {file}", hint="frazil init writes one; --project FOLDER names another project"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DeclarationError(f"cannot read {file}: {error}", hint="it must be a text file in UTF-8") from error
    return _parsed(text, str(file), file.parent)


def parse_declaration(text: str, *, name: str = FILE_NAME) -> Pipeline:
    """Read a declaration.

    Args:
        text: YAML.
        name: name of the text in messages.

    Returns:
        The pipeline, with relative paths starting from the working directory.

    Raises:
        DeclarationProblems: all problems in the order of the text, one line each:
            ``name:line:column: problem; way out``.
    """
    return _parsed(text, name, Path())


def _parsed(text: str, name: str, folder: Path) -> Pipeline:
    load_other_kinds()
    document = read_document(text)
    found: list[tuple[Place, str]] = list(document.problems)
    if isinstance(document.data, dict):
        try:
            pipeline = Pipeline.model_validate(document.data).at(folder)
        except ValidationError as error:
            found += _all_problems(document, error, folder)
        else:
            found += [(document.place(problem.path), str(problem)) for problem in problems(pipeline)]
            if not found:
                return pipeline
    elif not found:
        what = "is empty" if document.data is None else "must be settings (name: value)"
        found.append((document.place(()), f"the declaration {what}"))
    lines = [f"{name}:{line}:{column}: {message}" for (line, column), message in sorted(set(found))]
    raise DeclarationProblems(lines)


def _all_problems(document: Document, error: ValidationError, folder: Path) -> list[tuple[Place, str]]:
    """Collect pydantic's errors, correct those with one likely meaning, and check the rules of the corrected data."""
    corrected = _Corrected(document)
    for _ in range(_ROUNDS):
        for finding in findings(error.errors(include_url=False), deepcopy(corrected.data)):
            corrected.note(finding)
        try:
            pipeline = Pipeline.model_validate(corrected.data).at(folder)
        except ValidationError as next_error:
            error = next_error
            continue
        for problem in problems(pipeline):
            corrected.found.append((corrected.place(problem.path), str(problem)))
        break
    return corrected.found


class _Corrected:
    """A copy of the data with mistakes corrected, or replaced by harmless values."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.data: Any = deepcopy(document.data)
        self.found: list[tuple[Place, str]] = []
        self.renamed: dict[problem.Path, problem.Path] = {}

    def place(self, path: problem.Path) -> Place:
        """Return the place in the text of a setting, by its corrected path."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.renamed:
                path = self.renamed[path[:length]] + path[length:]
        return self.document.place(path)

    def note(self, finding: LikelyFix) -> None:
        """Record a finding and correct the data, so that later checks do not report it again."""
        path, is_key = finding.problem.path, finding.kind == "extra_forbidden"
        place = self.document.key_place(path) if is_key else self.place(path)
        self.found.append((place, str(finding.problem)))
        parent: Any = self.data
        for part in path[:-1]:
            parent = child(parent, part)
        last = path[-1] if path else ""
        if is_key and isinstance(parent, dict):
            value = parent.pop(last, None)
            if finding.rename is not None and finding.rename not in parent:
                parent[finding.rename] = value
                self.renamed[(*path[:-1], finding.rename)] = path
            elif path[0] == "tables" and not {"marts", "columns"} & set(path):
                # The setting could have any meaning, so the table's missing settings are not reported.
                self._stand_in(path)
        elif finding.value is not None and isinstance(parent, dict):
            parent[last] = finding.value
        elif last in _STANDS_ALONE and isinstance(parent, dict):
            parent.pop(last, None)
        else:
            self._stand_in(path)

    def _stand_in(self, path: problem.Path) -> None:
        """Replace a mistake by a harmless value that keeps the names which other settings may refer to."""
        match path:
            case ("tables", int(index), *_):
                self.data["tables"][index] = _table_in_place_of(self.data["tables"][index], index)
            case ("tables", *_):
                self.data["tables"] = [_table_in_place_of(None, 0)]
            case ("gold", int(index), *_):
                name = child(self.data["gold"][index], "name")
                stand_in = {"name": name if isinstance(name, str) else f"gold_{index}", "sql": "select 1"}
                self.data["gold"][index] = stand_in
            case ("pipeline", *_):
                self.data["pipeline"] = "unnamed"
            case ("lake", *_):
                self.data["lake"] = {"warehouse": "unknown"}
            case (setting, *_):
                self.data.pop(setting, None)
            case _:
                pass


def _table_in_place_of(table: object, index: int) -> dict[str, Any]:
    name, marts = child(table, "name"), child(table, "marts")
    listed = marts if isinstance(marts, list) else []
    kinds = [child(mart, "kind") for mart in listed]
    unclear = "history" if "current" in kinds else "current"
    shown = [
        {"kind": kind if kind in ("current", "history") else unclear, "name": child(mart, "name")}
        for kind, mart in zip(kinds, listed, strict=True)
        if isinstance(child(mart, "name"), str | None)
    ]
    return {
        "name": name if isinstance(name, str) else f"table_{index}",
        "source": {"kind": "dms", "path": "unknown", "header": True},
        "keys": ["unknown"],
        "effective_at": "unknown",
        "marts": shown or [{"kind": "current"}],
    }


GROUP: Final = "frazil.kinds"
"""Entry points of this group name a function without parameters that calls :func:`frazil.sources.kinds.add_source`."""


class KindError(SetupError):
    """A kind of source of another distribution cannot be loaded."""

    code = "FZ918"


@cache
def load_other_kinds() -> None:
    """Let declarations name the kinds of sources of all installed distributions; once in a process.

    Raises:
        KindError: the code of a distribution fails.
    """
    for entry in entry_points(group=GROUP):
        try:
            entry.load()()
        except FrazilError:
            raise
        except Exception as error:
            whose = "" if entry.dist is None else f" of {entry.dist.name} {entry.dist.version}"
            raise KindError(
                f"kind of source {entry.name!r}{whose} cannot be loaded: {type(error).__name__}: {error}",
                hint=f"install a version that fits this Frazil, or uninstall it; its entry point is {entry.value}",
            ) from error
