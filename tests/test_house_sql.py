"""The house keeps its own rules: where SQL is built, and that names in it are quoted."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest
from tests.house import MODULES, SOURCE, nodes_of, room_of, shown

if TYPE_CHECKING:
    from pathlib import Path

FOLD_SPEC = {"columns_of", "same", "order"}
"""What ``marts/layout.py`` writes; it is held to the same rules itself."""

TRUSTED = {
    "runner/steps/marts.py": {*FOLD_SPEC, "replaced_sql"},
    "runner/steps/truncates.py": {"place_sql", "columns", "kind", "older", "problem", "truncates", "values"},
    "erase/job.py": {"text", "parts", "stays", "columns", "_goes", "hash_of", "condition", "is_emptied", "same"},
    "erase/landed.py": {"stubs"},
    "erase/proof.py": {"is_erased"},
    "runner/maintain.py": {"kind", "property_list"},
    "erase/subjects.py": {"typed", "names", "wrong", "key_text"},
    "lake/commit.py": {"condition"},
    "spark/gateway.py": {"procedure", "given"},
    "lake/tables.py": {"name", "kind", "partition", "order", "property_list"},
    "marts/all_rows.py": {*FOLD_SPEC, "incomplete_sql"},
    "marts/baseline.py": {*FOLD_SPEC, "shown", "kept", "one", "inner", "outer"},
    "marts/bitemporal.py": {*FOLD_SPEC, "keys", "is_same", "shown", "content", "by_version"},
    "marts/counts.py": {*FOLD_SPEC, "condition"},
    "marts/fold.py": {*FOLD_SPEC, "also", "time_of_delete", "told_time", "aggregates", "filled", "kept"},
    "marts/history.py": {*FOLD_SPEC, "time_of_delete", "told_time"},
    "marts/late.py": {*FOLD_SPEC, "also", "name", "columns"},
    "marts/table_rules.py": {*FOLD_SPEC, "names", "keys", "cast", "BROKEN", "FIRST", "_PLACE"},
    "sources/postgres/database/discover.py": {"table", "index"},
    "sources/postgres/database/rules.py": {"full", "full_name", "sql_name", "_publication", "_slot", "names", "folder"},
    "sources/postgres/database/examine.py": {
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
    "sources/postgres/reload.py": {"name", "names", "same"},
    "sources/snapshot/capture.py": {
        *(
            "name",
            "names",
            "new",
            "old",
            "has_none",
            "has_key",
            "values",
            "texts",
            "_gone",
            "_same",
            "same",
            "differs",
            "number",
        )
    },
    "runner/batch/erased.py": {
        "hash_of",
        "rest",
        "own",
        "old",
        "typed",
        "texts",
        "operation",
        "whole",
        "sql",
        "name",
        "none",
    },
    "silver/old_keys.py": {"rows", "problem", "text", "kind", "lacks", "known"},
    "runner/limits/batch_limits.py": {
        *FOLD_SPEC,
        "changes",
        "same",
        "order",
        "content",
        "keys",
        "_is_contradicted",
        "hint",
    },
    "runner/limits/full_loads.py": {*FOLD_SPEC, "columns_of", "is_snapshot", "same", "_differs"},
    "runner/key_changes/departures.py": {
        "of_void",
        *FOLD_SPEC,
        "columns_of",
        "same",
        "key_text",
        "event",
        "followed",
        "keys",
        "last",
        "is_upsert",
        "row",
        "of_row",
        "is_move",
        "kind",
    },
    "runner/key_changes/moves.py": {"place_of_row", "place", "is_before", "last_place", "same"},
    "silver/changes.py": {
        "added",
        "condition",
        "broken",
        "exact",
        "rows",
        "carried",
        "operation",
        "change_class",
        "valid_text",
    },
}
"""What is SQL already: conditions, quoted names, types and transforms that the declaration's check has passed,
and what other modules write. Each says so where it is declared."""

SQL = re.compile(r"\b(SELECT|ALTER|DELETE|CREATE|CALL|INSERT|MERGE|DROP|UPDATE|EXISTS)\b")
SQL_MODULES = {
    "runner/steps/alter.py",
    "runner/limits/batch_limits.py",
    "runner/limits/full_loads.py",
    "runner/key_changes/departures.py",
    "past.py",
    "erase/erase.py",
    "erase/job.py",
    "erase/landed.py",
    "erase/proof.py",
    "runner/batch/erased.py",
    "runner/maintain.py",
    "erase/subjects.py",
    "runner/key_changes/moves.py",
    "runner/steps/marts.py",
    "recover/register.py",
    "runner/steps/snapshots.py",
    "runner/steps/truncates.py",
    "catalog/catalogs.py",
    "lake/commit.py",
    "spark/gateway.py",
    "lake/tables.py",
    "marts/all_rows.py",
    "marts/baseline.py",
    "marts/bitemporal.py",
    "marts/counts.py",
    "marts/fold.py",
    "marts/history.py",
    "marts/late.py",
    "marts/table_rules.py",
    "silver/changes.py",
    "silver/old_keys.py",
    "sources/postgres/reload.py",
    "sources/postgres/database/discover.py",
    "sources/postgres/database/examine.py",  # what people are told to type
    "sources/postgres/database/rules.py",
    "sources/snapshot/capture.py",
}
"""Modules that write SQL for Spark, and ``catalog/catalogs.py`` for a catalog's database."""
DUCKDB_MODULES = {"duck.py", "audit/hashes.py"}
"""Modules that write SQL for DuckDB, as those of ``serve`` do: ``duck.py`` quotes its names and texts."""


def sql_in(path: Path) -> list[ast.JoinedStr]:
    """SQL with interpolated parts in a module."""
    return [
        node
        for node in nodes_of(path, ast.JoinedStr)
        if any(isinstance(part, ast.Constant) and SQL.search(str(part.value)) for part in node.values)
    ]


def test_sql_is_written_in_few_places() -> None:
    others = ("serve", "api", "cli", "spec", "testing", "interop")
    writing = {shown(path) for path in MODULES if room_of(path) not in others and sql_in(path)}

    assert writing == SQL_MODULES | DUCKDB_MODULES
    assert TRUSTED.keys() <= SQL_MODULES


@pytest.mark.parametrize("module", sorted(SQL_MODULES))
def test_names_in_sql_are_quoted(module: str) -> None:
    """An interpolated part of SQL is quoted, a literal, a number, or made of such parts in the same module."""
    safe = safe_names(SOURCE / module, TRUSTED.get(module, set()))

    for node in sql_in(SOURCE / module):
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                assert is_safe(part.value, safe), f"{module}:{part.lineno} {ast.unparse(part.value)}"


def safe_names(path: Path, trusted: set[str]) -> set[str]:
    """Names and properties of a module that are only ever given safe text."""
    safe = {"PREFIX", *trusted}
    returned = {node: values_returned(node) for node in nodes_of(path, ast.FunctionDef)}
    for _ in range(4):  # names may be made of names
        for node in nodes_of(path, ast.Assign):
            safe |= {name.id for name, value in assigned(node) if is_safe(value, safe)}
        for function, values in returned.items():
            if values and all(is_safe(value, safe) for value in values):
                safe.add(function.name)
    return safe


def values_returned(function: ast.FunctionDef) -> list[ast.expr]:
    return [found.value for found in ast.walk(function) if isinstance(found, ast.Return) and found.value]


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
        case ast.Call(func=ast.Name(id="quote" | "literal" | "duck_literal" | "int")):
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
            return by in ("quote", "literal", "duck_literal") or by in safe
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


def test_names_of_tables_and_identifiers_are_written_in_one_place() -> None:
    """``spec/tables.py`` says what the tables are called, ``spec/sql/names.py`` builds identifiers of Spark SQL."""
    suffixing = [
        shown(path) for path in MODULES if any(re.search(r"_(changes|quarantine)$", one) for one in built(path))
    ]
    escaping = [shown(path) for path in MODULES if any(map(is_escape, nodes_of(path, ast.Call)))]

    assert suffixing == ["spec/tables.py"]
    assert escaping == ["spec/sql/names.py"]


def built(path: Path) -> list[str]:
    """Return the constant parts of all texts that a module builds."""
    parts = [part for node in nodes_of(path, ast.JoinedStr) for part in node.values]
    return [f"{part.value!s}" for part in parts if isinstance(part, ast.Constant)]


def is_escape(call: ast.Call) -> bool:
    """Whether a call doubles backticks, as a quoted identifier needs it."""
    return [arg.value for arg in call.args if isinstance(arg, ast.Constant)] == ["`", "``"]
