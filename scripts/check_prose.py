# ruff: noqa: INP001 - a script, not a package
"""Check the English of docstrings, messages and names of tests: ``make check`` runs it.

    python scripts/check_prose.py [--all] [PATH ...]

Write as the documentation of Iceberg, dbt or Stripe does: subject first, present tense, one idea a sentence, the
field's own word. Each pattern below finds sentences that make a reader stop. A kind of text fails if its share of
such sentences is above its limit; rewrite the sentence, not only the words that the pattern found. ``--all`` prints
every finding; without it only those of kinds that fail are printed. With paths nothing fails.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]

LIMITS: Final = {"docstrings": 1.2, "messages": 2.0, "tests": 1.5}
"""Kind of text -> the largest share of sentences with a pattern, in percent."""

_BEGIN: Final = r"(?:^|[.:;] )"
PATTERNS: Final = {
    "say 'X is missing' or 'X is not a Y', not 'is none' or 'is no Y'": (
        r"\b(?:is|are|was|were) none\b"
        r"|\b(?:is|are|was|were) no (?!less|longer|more|other)[a-z]+\b(?! (?:for|in|of|on)\b)"
    ),
    "begin with a noun, not with 'who', 'whose', 'which' or 'what'": (
        _BEGIN + r"(?:who|whom|whose|which|what)\s+(?!(?:is|are|a|an|the|it|to|you|we|if|do|does|happens)\b)\w+"
    ),
    "split the sentence at 'of which', 'of whom' or 'in which case'": (
        r"\b(?:of|to|in) (?:whom|which case)\b|\bof which\b"
    ),
    "software reports, prints or returns; it is not 'told', 'asked' or 'met'": (
        r"\b(?:is|are|was|were|be|been|being) (?:told|asked of|met|seen to)\b"
        r"|\btells? (?:which|what|how|whether|apart|them)\b|\btold apart\b"
    ),
    "use an imperative with its object, not 'let X be'": (
        _BEGIN + r"(?:let|have|leave|keep|bring) (?:\w+ ){1,4}(?:be|have|go|know|level|show|stand|take)\b"
    ),
    "say 'is', 'follows' or 'is before', not 'stands' or 'lies'": (
        r"\b(?:stands?|stood|lies) (?:above|at|before|behind|below|beside|for|in|left|there)\b"
    ),
    "repeat the noun in place of 'that of'": r"\bthat of (?:a|an|the|its|their|one|another)\b",
    "use today's word": (
        r"\b(?:anew|aught|dozen|for ever|gross|heed|hence|mend(?:s|ed|ing)?|nobody|nothing else|such as it (?:is|was)"
        r"|therein|thereof|thereafter|whichever|whoever|whomever)\b"
    ),
    "name the act: 'rebuilt', 'rewritten', 'removed', 'restarted'": (
        r"\b(?:begun|made|started|taken|written) again\b|\btaken (?:for|out|up)\b|\blet go of\b|\bgone from\b"
        r"|\bthe rest is\b|\bwhat is left\b|\bas (?:it|they) came\b|\bcame second\b|\bis due\b|\bheld up\b"
    ),
    "say what is, once: no double negation": (
        r"\b(?:no|not) (?:\w+ ){0,3}(?:never|no|none|nothing|unless|without)\b|\bnothing (?:\w+ ){0,4}(?:but|unless)\b"
        r"|\bno (?:\w+ ){1,3}but\b"
    ),
}
"""Advice -> a pattern, in any case, of sentences to rewrite."""

_COMPILED: Final = {advice: re.compile(pattern, re.IGNORECASE) for advice, pattern in PATTERNS.items()}
_SQL: Final = re.compile(r"\b(?:ALTER|CREATE|FROM|INSERT|SELECT|WHERE)\b")
_SHORTEST: Final = 5
"""Words of a text in the code that counts as a message."""


class Sentence(NamedTuple):
    """A sentence of the source, with its kind and its place."""

    kind: str
    path: Path
    line: int
    text: str


def main(arguments: list[str]) -> int:
    """Print the share of each kind, and the findings; return the exit code."""
    shows_all = "--all" in arguments
    paths = [Path(text) for text in arguments if text != "--all"] or [ROOT / name for name in ("src", "tests", "bench")]
    files = sorted({file for path in paths for file in (path.rglob("*.py") if path.is_dir() else (path,))})
    counts: defaultdict[str, int] = defaultdict(int)
    found: defaultdict[str, list[tuple[Sentence, str]]] = defaultdict(list)
    for sentence in (one for file in files for one in sentences_of(file)):
        counts[sentence.kind] += 1
        advice = next((advice for advice, pattern in _COMPILED.items() if pattern.search(sentence.text)), None)
        if advice is not None:
            found[sentence.kind].append((sentence, advice))
    failed = False
    for kind, limit in LIMITS.items():
        share = 100 * len(found[kind]) / max(counts[kind], 1)
        is_above = share > limit and not arguments
        failed |= is_above
        for sentence, advice in found[kind] if is_above or shows_all else ():
            sys.stdout.write(f"{sentence.path}:{sentence.line}: {sentence.text[:160]}\n    {advice}\n")
        sys.stdout.write(f"prose: {share:.1f} % of {counts[kind]} {kind} (limit {limit} %)\n")
    return int(failed)


def sentences_of(file: Path) -> Iterator[Sentence]:
    """Yield the sentences of a module's docstrings and messages, and the names of its tests."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    documented = set[ast.expr]()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield Sentence("tests", file, node.lineno, node.name.removeprefix("test_").replace("_", " "))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None and isinstance(node.body[0], ast.Expr):
                documented.add(node.body[0].value)
                plain = re.sub(r"``?[^`]*``?", "x", text)
                yield from (Sentence("docstrings", file, node.body[0].lineno, one) for one in split(plain))
    if "src" not in file.parts:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node not in documented:
            text = text_of(node)
            if len(text.split()) >= _SHORTEST and not _SQL.search(text):
                yield from (Sentence("messages", file, node.lineno, one) for one in split(text))


def text_of(node: ast.Constant | ast.JoinedStr) -> str:
    """Return the text of a string in the code; placeholders of an f-string are ``x``."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) if isinstance(part, ast.Constant) else "x" for part in node.values)
    return node.value if isinstance(node.value, str) else ""


def split(text: str) -> list[str]:
    """Split a text into sentences, with single blanks between words."""
    sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z`*\[])", re.sub(r"\s+", " ", text))
    return [sentence for sentence in map(str.strip, sentences) if sentence]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
