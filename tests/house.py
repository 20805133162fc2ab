"""The files of the house, for the tests that hold it to its rules."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import frazil

SOURCE = Path(frazil.__file__).parent
PROVIDER = sorted((Path(__file__).parents[1] / "integrations" / "airflow" / "src").rglob("*.py"))
"""The provider for Airflow: a distribution of its own, held to the same rules of shape."""

DOORS = (SOURCE / "__init__.py", SOURCE / "__main__.py")
MODULES = sorted({*SOURCE.rglob("*.py")} - {*DOORS})


def room_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).parts
    return parts[0].removesuffix(".py")


def shown(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix() if path.is_relative_to(SOURCE) else f"airflow/{path.name}"


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a module, in the order of ``ast.walk``: many tests go through them."""
    return tuple(ast.walk(tree_of(path)))
