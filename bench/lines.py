"""How many lines `src` has, by room: ``python -m bench.lines [revision]``; code, docstrings, and other lines.

A line of code has a part of a statement other than a docstring; comments and empty lines are the other lines.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from typing import Final

_NO_CODE: Final = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


def main(revision: str) -> None:
    """Print a row for each room, and one for all."""
    code, told, rest, files = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for path in _git("ls-tree", "-r", "--name-only", revision, "src/frazil").splitlines():
        if not path.endswith(".py"):
            continue
        for room in (_room_of(path), "all"):
            text = _git("show", f"{revision}:{path}")
            lines, docstrings = _lines_of(text)
            code[room] += len(lines)
            told[room] += len(docstrings)
            rest[room] += len(text.splitlines()) - len(lines) - len(docstrings)
            files[room] += 1
    print(f"{'room':22}{'files':>7}{'code':>8}{'docstrings':>12}{'rest':>8}")
    for room, number in code.most_common():
        print(f"{room:22}{files[room]:7,}{number:8,}{told[room]:12,}{rest[room]:8,}")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def _room_of(path: str) -> str:
    """Return the folder below ``src/frazil``; a kind of source is a room of its own."""
    _, _, *folders, _ = path.split("/")
    return "/".join(folders[:2]) or "frazil"


def _lines_of(text: str) -> tuple[set[int], set[int]]:
    """Return the numbers of the lines that are code, and of those that are docstrings."""
    docstrings = set[int]()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return code - docstrings, docstrings


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "HEAD")
