"""The house keeps its own rules: imports, lengths and documentation."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.house import EVERYTHING, MODULES, PROVIDER, ROOT, SOURCE, nodes_of, room_of, shown, tree_of

import frazil

if TYPE_CHECKING:
    from collections.abc import Collection

TESTS = Path(__file__).parent

FLOORS = (
    {"errors", "spec", "failpoints", "older_spark"},
    {"host"},
    {"storage", "formats"},
    {"sources"},
    {"steps"},
    {"bronze"},
    {"silver"},
    {"marts"},
    {"gold"},
    {"plan"},
    {"iceberg"},
    {"catalog"},
    {"spark"},
    {"duck"},
    {"lake"},
    {"audit"},
    {"runner"},
    {"erase"},
    {"recover", "past"},
    {"serve", "interop"},
    {"api"},
    {"ui"},
    {"cli"},
)
"""The rooms in the order of the data: a room imports its own floor and those before it."""

ROOMS = set().union(*FLOORS) | {"testing"}

MAY_IMPORT = {room: set().union(*FLOORS[: number + 1]) for number, floor in enumerate(FLOORS) for room in floor}
MAY_IMPORT["testing"] = {"errors", "spec", "steps", "bronze", "testing"}
MAY_IMPORT["api"].add("testing")  # frazil init --sample

PURE = ("bronze", "silver", "marts", "gold", "plan")

LAWS = [
    "CONVERGE",
    "ORDER",
    "LATE",
    "NO-RESURRECTION",
    "UNSEEN",
    "DELETES",
    "HISTORY",
    "AGREE",
    "MISSING-IS-NOT-NULL",
    "KEY-CHANGE",
    "ONCE",
    "NOTHING-LOST",
]
"""The laws that files of DMS come under."""


def imports_of(path: Path) -> set[str]:
    """Rooms that a module imports from, those it needs for types only among them."""
    return {name.split(".")[1] for name in names_imported_by(path) if name.startswith("frazil.")} & ROOMS


def names_imported_by(path: Path) -> list[str]:
    """Return the full names of all that a module imports, wherever in it."""
    from_others = nodes_of(path, ast.ImportFrom)
    assert [f"{shown(path)}:{node.lineno} imports relatively" for node in from_others if node.level] == []
    whole = [alias.name for node in nodes_of(path, ast.Import) for alias in node.names]
    return whole + [f"{node.module}.{alias.name}" for node in from_others for alias in node.names]


def is_for_types_only(path: Path, room: str) -> bool:
    """Whether a module imports a room only under ``if TYPE_CHECKING``."""
    for node in tree_of(path).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"frazil.{room}"):
            return False
    return True


def test_a_room_imports_only_earlier_rooms() -> None:
    wrong = {shown(path): imports_of(path) - MAY_IMPORT[room_of(path)] for path in MODULES}

    if is_for_types_only(SOURCE / "steps.py", "bronze"):
        wrong["steps.py"] -= {"bronze"}  # a step names the files it takes
    assert {name: rooms for name, rooms in wrong.items() if rooms} == {}


def test_no_files_import_each_other_in_a_circle() -> None:
    """A circle of files is one file in pieces; imports for types only count too."""
    files = {
        ".".join(("frazil", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in SOURCE.rglob("*.py")
    }
    imported = {name: modules_of(path, files) - {name} for name, path in files.items()}

    reached = {name: reachable(name, imported) for name in files}

    assert {name for name, others in reached.items() if name in others} == set()


def modules_of(path: Path, files: Collection[str]) -> set[str]:
    """Return the modules that a module imports, or imports something of."""
    named = [
        (f"{node.module}.{alias.name}", f"{node.module}")
        for node in nodes_of(path, ast.ImportFrom)
        for alias in node.names
    ]
    return {own if own in files else parent for own, parent in named if own in files or parent in files}


def reachable(name: str, imported: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    ahead = [name]
    while ahead:
        new = imported[ahead.pop()] - found
        found |= new
        ahead += new
    return found


def test_every_room_is_a_room_of_the_house_and_has_files() -> None:
    rooms = {room_of(path) for path in MODULES}

    assert rooms == ROOMS
    assert {line.split()[0].rstrip(",") for line in (frazil.__doc__ or "").splitlines() if line[:4] == "    "} <= ROOMS


COLLECTING = {"collect", "toPandas", "toLocalIterator", "toArrow", "foreach", "udf", "pandas_udf"}
COUNTING = {"count", "first", "head", "show"}
"""Methods that bring rows to the driver when they are called without an argument: F.count(x) does not."""


def test_a_pure_room_collects_nothing_and_has_no_udf() -> None:
    pure = [path for path in MODULES if room_of(path) in PURE]
    named = {shown(path): COLLECTING & {node.attr for node in nodes_of(path, ast.Attribute)} for path in pure}
    called = {shown(path): COUNTING & methods_called_with_nothing(path) for path in pure}

    assert {name: methods for name, methods in named.items() if methods} == {}
    assert {name: methods for name, methods in called.items() if methods} == {}


def methods_called_with_nothing(path: Path) -> set[str]:
    calls = nodes_of(path, ast.Call)
    return {call.func.attr for call in calls if isinstance(call.func, ast.Attribute) and not call.args}


MOST_LINES_OF_A_MODULE = 500


def test_every_module_is_short() -> None:
    """Those of the tests and of the benchmarks too: what is longer has a seam."""
    lengths = {f"{path.relative_to(ROOT)}": len(path.read_text(encoding="utf-8").splitlines()) for path in EVERYTHING}

    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES_OF_A_MODULE} == {}
    assert {"src", "tests", "bench"} <= {name.partition("/")[0] for name in lengths}


MOST_MODULES_OF_A_FOLDER = 15


def test_every_folder_holds_few_modules() -> None:
    """A folder that has more holds more than one kind of thing."""
    counted = Counter(shown(path.parent) for path in MODULES if path.name != "__init__.py")

    assert {folder: count for folder, count in counted.items() if count > MOST_MODULES_OF_A_FOLDER} == {}
    assert counted["runner/steps"] > 1


def test_every_module_says_what_it_is() -> None:
    assert [shown(path) for path in [*MODULES, *PROVIDER] if not ast.get_docstring(tree_of(path))] == []


MOST_LINES, MOST_PARAMETERS = 45, 6
"""Bounds of a function's body, and of its parameters: constructors and the command line's options may have more."""


def test_a_function_fits_on_a_screen_and_takes_few_parameters() -> None:
    functions = [(shown(path), node) for path in [*MODULES, *PROVIDER] for node in nodes_of(path, ast.FunctionDef)]
    named = [(where, node.name) for where, node in functions if parameters(node) > MOST_PARAMETERS]

    assert [(where, node.name) for where, node in functions if body_lines(node) > MOST_LINES] == []
    assert [(where, name) for where, name in named if name != "__init__" and not is_command(where, name)] == []


def is_command(where: str, name: str) -> bool:
    """Whether a function is a command, whose parameters are the options of the command line."""
    return where.startswith("cli/commands/") and not name.startswith("_")


def body_lines(function: ast.FunctionDef) -> int:
    """Lines of a function below its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def parameters(function: ast.FunctionDef) -> int:
    """How many parameters a function has, ``self`` left out."""
    given = function.args
    named = [arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in named if name not in {"self", "cls"}])


def test_every_public_name_says_what_it_is() -> None:
    public = [
        (shown(path), node)
        for path in [*MODULES, *PROVIDER]
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]

    assert [(where, node.name) for where, node in public if not ast.get_docstring(node)] == []


@pytest.mark.parametrize("law", LAWS)
def test_every_law_is_what_a_test_says_it_holds(law: str) -> None:
    """In the docstring of a test function or of its module; a comment does not count."""
    named = re.compile(rf"(?<![A-Z-]){law}(?![A-Z-])")
    naming = (path for path, text in texts_of_tests().items() if named.search(text))

    assert any(named.search(docstring) for path in naming for docstring in docstrings_of(path))


@cache
def texts_of_tests() -> dict[Path, str]:
    files = sorted({*TESTS.rglob("test_*.py")} - {Path(__file__)})
    return {path: path.read_text(encoding="utf-8") for path in files}


@cache
def docstrings_of(path: Path) -> list[str]:
    """Return the docstrings of a module and of its test functions."""
    tree = tree_of(path)
    tests = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    documented: list[ast.Module | ast.FunctionDef] = [tree, *tests]
    return [text for node in documented if (text := ast.get_docstring(node))]


def test_no_two_test_files_have_one_name() -> None:
    """Folders of tests are not packages, so pytest refuses two files of one name when it collects all."""
    names = sorted(path.name for path in TESTS.rglob("*.py") if path.name != "conftest.py")
    assert names == sorted(set(names))


def test_the_provider_for_airflow_needs_neither_the_engine_nor_spark() -> None:
    imported = {name.split(".")[0] for path in PROVIDER for name in names_imported_by(path)}

    assert imported & {"frazil", "pyspark", "pyarrow", "duckdb"} == set()
    assert "airflow" in imported
