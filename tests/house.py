"""The files of the house, for the tests that hold it to its rules: each is read and parsed once."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TypeVar

import frazil

ROOT = Path(__file__).parents[1]
SOURCE = Path(frazil.__file__).parent
PROVIDER = sorted((ROOT / "integrations" / "airflow" / "src").rglob("*.py"))
"""The provider for Airflow: a distribution of its own, held to the same rules of shape."""

EVERYTHING = [
    path
    for folder in ("src", "tests", "bench", "examples", "integrations")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
"""All modules, those that are part of no package too."""

DOORS = (SOURCE / "__init__.py", SOURCE / "__main__.py")
MODULES = sorted({*SOURCE.rglob("*.py")} - {*DOORS})

Node = TypeVar("Node", bound=ast.AST)


def room_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).parts
    return parts[0].removesuffix(".py")


def shown(path: Path) -> str:
    """Return how a module is called in what tests say: its path within its distribution."""
    return path.relative_to(SOURCE).as_posix() if path.is_relative_to(SOURCE) else f"airflow/{path.name}"


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def nodes_of(path: Path, kind: type[Node]) -> list[Node]:
    """Return all nodes of one kind in a module, those that stand further out first."""
    return _nodes(path)[kind]  # type: ignore[return-value]


@cache
def _nodes(path: Path) -> defaultdict[type[ast.AST], list[ast.AST]]:
    """Return all nodes of a module by their kind: many tests look for some."""
    found: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    for node in ast.walk(tree_of(path)):
        found[type(node)].append(node)
    return found
