"""The house keeps its own rules: who imports whom, where SQL is built, what is documented."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import frazil

if TYPE_CHECKING:
    from collections.abc import Collection

SOURCE = Path(frazil.__file__).parent
TESTS = Path(__file__).parent

FLOORS = (
    {"errors", "spec", "failpoints"},
    {"storage", "formats"},
    {"sources"},
    {"steps"},
    {"bronze"},
    {"silver"},
    {"marts"},
    {"gold"},
    {"plan"},
    {"lake"},
    {"engine"},
    {"serve", "interop"},
    {"api"},
    {"cli"},
)
"""The rooms in the order of the data: a room imports its own floor and those before it."""

ROOMS = set().union(*FLOORS) | {"testing"}

MAY_IMPORT = {room: set().union(*FLOORS[: number + 1]) for number, floor in enumerate(FLOORS) for room in floor}
MAY_IMPORT["testing"] = {"errors", "spec", "steps", "bronze", "testing"}
MAY_IMPORT["api"].add("testing")  # frazil generate

FOLD_SPEC = {"columns_of", "same", "order"}
"""What ``marts/fold_spec.py`` writes; it is held to the same rules itself."""

TRUSTED = {
    "engine/apply/write.py": {*FOLD_SPEC, "replaced_sql"},
    "engine/truncates.py": {"columns", "kind", "older", "problem", "truncates", "values"},
    "lake/commit.py": {"condition", "kind", "partition_clause", "property_list"},
    "lake/heads.py": {"name"},
    "lake/procedure.py": {"procedure", "given"},
    "lake/tables.py": {"name", "kind", "partition", "order", "property_list"},
    "marts/all_rows.py": {*FOLD_SPEC, "is_incomplete"},
    "marts/counts.py": FOLD_SPEC,
    "marts/current.py": {*FOLD_SPEC, "also"},
    "marts/fold.py": {*FOLD_SPEC, "aggregates", "filled", "kept"},
    "marts/history.py": FOLD_SPEC,
    "marts/late.py": {*FOLD_SPEC, "also", "name", "columns"},
    "sources/postgres/rules.py": {"full", "full_name", "sql_name", "_publication", "_slot", "names", "folder"},
    "sources/postgres/examine.py": {
        "user",
        "schema",
        "sql_name",
        "publication",
        "names",
        "setting",
        "enough",
        "pid",
        "slot",
    },
    "sources/postgres/brake.py": {"name", "names", "same"},
    "sources/snapshot/capture.py": {"name", "names", "new", "old", "is_null", "same", "differs"},
    "silver/changes.py": {"added", "condition", "broken", "exact", "rows", "carried", "operation", "change_class"},
}
"""What is SQL already: conditions, quoted names, types and transforms that the declaration's check has passed,
and what other modules write. Each says so where it is declared."""

PURE = ("bronze", "silver", "marts", "gold", "plan")

SQL = re.compile(r"\b(SELECT|ALTER|DELETE|CREATE|CALL|INSERT|MERGE|DROP|UPDATE|EXISTS)\b")
SQL_MODULES = {
    "engine/alter.py",
    "engine/drop.py",
    "engine/maintain.py",
    "engine/marts.py",
    "engine/register.py",
    "engine/truncates.py",
    "engine/apply/write.py",
    "lake/catalogs.py",
    "lake/commit.py",
    "lake/heads.py",
    "lake/procedure.py",
    "lake/tables.py",
    "marts/all_rows.py",
    "marts/counts.py",
    "marts/current.py",
    "marts/fold.py",
    "marts/history.py",
    "marts/late.py",
    "silver/changes.py",
    "sources/postgres/brake.py",
    "sources/postgres/examine.py",  # what people are told to type
    "sources/postgres/rules.py",
    "sources/snapshot/capture.py",
}
"""Modules that write SQL for Spark, and ``lake/catalogs.py`` for a catalog's database; those of ``serve`` write it for
DuckDB, with quoting of their own."""

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

DOORS = (SOURCE / "__init__.py", SOURCE / "__main__.py")
MODULES = sorted({*SOURCE.rglob("*.py")} - {*DOORS})


def room_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).parts
    return parts[0].removesuffix(".py")


def shown(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path: Path) -> set[str]:
    """Rooms that a module imports from, those it needs for types only among them."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{shown(path)}:{node.lineno} imports relatively"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("frazil.")}
    return found & ROOMS


def is_for_types_only(path: Path, room: str) -> bool:
    """Whether a module imports a room only under ``if TYPE_CHECKING``."""
    for node in tree_of(path).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"frazil.{room}"):
            return False
    return True


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_a_room_imports_only_what_stands_before_it(path: Path) -> None:
    room = room_of(path)

    wrong = imports_of(path) - MAY_IMPORT[room]

    if room == "steps" and is_for_types_only(path, "bronze"):
        wrong -= {"bronze"}  # a step names the files it takes
    assert wrong == set()


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
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom)
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


@pytest.mark.parametrize("path", [path for path in MODULES if room_of(path) in PURE], ids=shown)
def test_a_pure_room_collects_nothing_and_has_no_udf(path: Path) -> None:
    called = {node.attr for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute)}
    calls = {
        node.func.attr
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args
    }

    assert called & {"collect", "toPandas", "toLocalIterator", "toArrow", "foreach", "udf", "pandas_udf"} == set()
    assert calls & {"count", "first", "head", "show"} == set()


def sql_in(path: Path) -> list[ast.JoinedStr]:
    """SQL with interpolated parts in a module."""
    return [
        node
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.JoinedStr)
        and any(isinstance(part, ast.Constant) and SQL.search(str(part.value)) for part in node.values)
    ]


def test_sql_is_written_in_few_places() -> None:
    others = ("serve", "api", "cli", "spec", "testing", "interop")
    writing = {shown(path) for path in MODULES if room_of(path) not in others and sql_in(path)}

    assert writing == SQL_MODULES
    assert TRUSTED.keys() <= SQL_MODULES


@pytest.mark.parametrize("module", sorted(SQL_MODULES))
def test_names_in_sql_are_quoted(module: str) -> None:
    """An interpolated part of SQL is quoted, a literal, a number, or made of such parts in the same module."""
    safe = safe_names(tree_of(SOURCE / module), TRUSTED.get(module, set()))

    for node in sql_in(SOURCE / module):
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                assert is_safe(part.value, safe), f"{module}:{part.lineno} {ast.unparse(part.value)}"


def safe_names(tree: ast.Module, trusted: set[str]) -> set[str]:
    """Names and properties of a module that are only ever given safe text."""
    safe = {"PREFIX", *trusted}
    for _ in range(4):  # names may be made of names
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                safe |= {name.id for name, value in assigned(node) if is_safe(value, safe)}
            elif isinstance(node, ast.FunctionDef):
                returned = [found.value for found in ast.walk(node) if isinstance(found, ast.Return) and found.value]
                if returned and all(is_safe(value, safe) for value in returned):
                    safe.add(node.name)
    return safe


def assigned(node: ast.Assign) -> list[tuple[ast.Name, ast.expr]]:
    """Names and what they are given, ``a, b = x, y`` taken apart."""
    found = []
    for target in node.targets:
        match target, node.value:
            case ast.Name(), value:
                found.append((target, value))
            case ast.Tuple(elts=names), ast.Tuple(elts=values):
                found += [
                    (name, value) for name, value in zip(names, values, strict=True) if isinstance(name, ast.Name)
                ]
    return found


def is_safe(value: ast.expr, safe: set[str]) -> bool:  # noqa: C901, PLR0911, PLR0912 - one case a form of text
    match value:
        case ast.Constant():
            return True
        case ast.Call(func=ast.Name(id="quote" | "literal" | "int")):
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name != "join":
            return name in safe
        case ast.Name(id=name):
            return name in safe or name.isupper()
        case ast.Attribute(value=ast.Name(id="late"), attr=name):
            return name.isupper()
        case ast.Attribute(value=ast.Name(id="r")):
            return True  # a column of frazil.bronze.record
        case ast.Attribute(attr=name):
            return name in safe or name.endswith(("_id", "_ms"))
        case ast.JoinedStr(values=parts):
            return all(is_safe(part, safe) for part in parts)
        case ast.FormattedValue(value=inner):
            return is_safe(inner, safe)
        case ast.IfExp(body=body, orelse=other):
            return is_safe(body, safe) and is_safe(other, safe)
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(), attr="join"), args=[ast.Call(args=[ast.Name(id=by), _])]
        ):
            return by in ("quote", "literal") or by in safe
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(), attr="join"),
            args=[ast.GeneratorExp(elt=each) | ast.ListComp(elt=each)],
        ):
            return is_safe(each, safe)
        case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="join"), args=[ast.List(elts=parts)]):
            return all(is_safe(part, safe) for part in parts)
        case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="join"), args=[ast.Name(id=name)]):
            return name in safe
        case ast.Starred(value=ast.Name(id=name)):
            return name in safe
        case ast.Starred(value=ast.GeneratorExp(elt=each)):
            return is_safe(each, safe)
        case _:
            return False


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_names_of_tables_and_identifiers_are_written_in_one_place(path: Path) -> None:
    """``spec/tables.py`` says what the tables are called, ``spec/names.py`` builds identifiers of Spark SQL."""
    built = [
        str(part.value)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.JoinedStr)
        for part in node.values
        if isinstance(part, ast.Constant)
    ]
    suffixes = [text for text in built if re.search(r"_(changes|quarantine)$", text)]
    escapes = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call) and is_escape(node)]

    assert suffixes == [] or shown(path) == "spec/tables.py"
    assert escapes == [] or shown(path) == "spec/names.py"


def is_escape(call: ast.Call) -> bool:
    """Whether a call doubles backticks, as a quoted identifier needs it."""
    return [arg.value for arg in call.args if isinstance(arg, ast.Constant)] == ["`", "``"]


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_a_module_is_short_and_says_what_it_is(path: Path) -> None:
    tree = tree_of(path)

    assert ast.get_docstring(tree)
    assert len(path.read_text(encoding="utf-8").splitlines()) < 500


MOST_LINES, MOST_PARAMETERS = 45, 6
"""Bounds of a function's body, and of its parameters: constructors and the command line's options may have more."""


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_a_function_fits_on_a_screen_and_takes_few_parameters(path: Path) -> None:
    functions = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef)]
    may_take_more = {node.name for node in functions if node.name == "__init__" or shown(path) == f"cli/{node.name}.py"}

    assert [node.name for node in functions if body_lines(node) > MOST_LINES] == []
    assert {node.name for node in functions if parameters(node) > MOST_PARAMETERS} <= may_take_more


def body_lines(function: ast.FunctionDef) -> int:
    """Lines of a function below its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def parameters(function: ast.FunctionDef) -> int:
    """How many parameters a function has, ``self`` left out."""
    given = function.args
    named = [arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in named if name not in {"self", "cls"}])


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_every_public_name_says_what_it_is(path: Path) -> None:
    public = [
        node
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]

    assert [node.name for node in public if not ast.get_docstring(node)] == []


@pytest.mark.parametrize("law", LAWS)
def test_every_law_is_what_a_test_says_it_holds(law: str) -> None:
    """In the docstring of a test function or of its module; a comment does not count."""
    named = re.compile(rf"(?<![A-Z-]){law}(?![A-Z-])")
    holding = [
        node
        for path in TESTS.rglob("test_*.py")
        if path != Path(__file__)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.Module)
        and (isinstance(node, ast.Module) or node.name.startswith("test_"))
        and named.search(ast.get_docstring(node) or "")
    ]

    assert holding


def test_no_two_test_files_have_one_name() -> None:
    """Folders of tests are no packages, so pytest refuses a second file of a name when all are collected together."""
    names = sorted(path.name for path in TESTS.rglob("*.py") if path.name != "conftest.py")
    assert names == sorted(set(names))
