"""A page of the docs as a list of steps, as its reader would do them from top to bottom.

A fenced block is one of these; a word after its language marks it:

``console``             commands after ``$``, each followed by all that it prints
``sh``                  commands, whatever they print
``python``              code; a ``text`` block right after it is what it prints
``yaml writes=PATH``    a file that the reader writes; also where the first line is ``# frazil.yml``
``yaml shows=PATH``     a file as a command has left it
``yaml``                a declaration, or a part of one
``sql``, ``json``       statements and values, read and not run
``jinja``               a model of dbt, read and not run
``text``                a drawing, without commands
``… fragment``          what only another machine could run: read and not run
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

LANGUAGES: Final = ("console", "sh", "python", "yaml", "sql", "json", "jinja", "text")
MARKS: Final = ("writes", "shows", "fragment")
_FENCE: Final = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_VARIES: Final = re.compile(r"\d[\d,]* Spark jobs?|\b\d[\d,]*\.\d(?= s\b|$)")
"""What differs from run to run: counts of jobs, seconds."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block: the line of its fence, its language, its mark with what it names, and its text."""

    line: int
    language: str
    mark: str
    path: str
    text: str
    follows: bool
    """Whether only blank lines part it from the block before."""


@dataclass(frozen=True)
class Command:
    """A command, and what it prints; None where the page does not say."""

    line: int
    text: str
    prints: str | None

    @property
    def words(self) -> list[str]:
        """The command as a shell would split it, without a comment at its end."""
        return shlex.split(self.text, comments=True)


@dataclass(frozen=True)
class Code:
    """Python code, and what it prints; None where the page does not say."""

    line: int
    text: str
    prints: str | None


@dataclass(frozen=True)
class Written:
    """A file that the reader writes."""

    line: int
    path: str
    text: str


@dataclass(frozen=True)
class Shown:
    """A file as commands have left it."""

    line: int
    path: str
    text: str


Step: TypeAlias = Command | Code | Written | Shown


def blocks(page: str) -> list[Block]:
    """Find the fenced blocks of a page, in order."""
    found, end = [], -1
    for match in _FENCE.finditer(page):
        language, _, words = match[1].partition(" ")
        mark, _, path = words.partition("=")
        if language == "yaml" and match[2].startswith("# frazil.yml\n"):
            mark, path = "writes", "frazil.yml"
        follows = end >= 0 and not page[end : match.start()].strip()
        line = page.count("\n", 0, match.start()) + 1
        found.append(Block(line=line, language=language, mark=mark, path=path, text=match[2], follows=follows))
        end = match.end()
    return found


def steps(page: str) -> list[Step]:
    """Read a page as steps, without blocks that are only to be read."""
    found: list[Step] = []
    for block in blocks(page):
        before = found[-1] if found else None
        if block.mark == "fragment":
            continue
        if block.language in ("console", "sh"):
            found += _commands(block)
        elif block.language == "python":
            found.append(Code(block.line, block.text, None))
        elif block.mark == "writes":
            found.append(Written(block.line, block.path, block.text))
        elif block.mark == "shows":
            found.append(Shown(block.line, block.path, block.text))
        elif block.language == "text" and block.follows and isinstance(before, Code):
            found[-1] = Code(before.line, before.text, block.text)
    return found


def _commands(block: Block) -> Iterator[Command]:
    if block.language == "sh":
        lines = enumerate(block.text.splitlines(), block.line + 1)
        yield from (Command(at, text, None) for at, text in lines if text.strip())
        return
    at = block.line + 1
    assert block.text.startswith("$ "), f"line {at}: a console block begins with a command"
    for text in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, prints = text.partition("\n")
        yield Command(at, command, prints)
        at += text.count("\n")


def matches(wanted: str, found: str) -> bool:
    """Return whether a command printed the text of its page.

    ``…`` matches any text of a line, and alone in a line any lines. Repeated blanks are one; blank lines, rules, times
    and counts of Spark jobs are ignored.
    """
    patterns = [
        r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n" for line in plain(wanted)
    ]
    return re.fullmatch("".join(patterns), "".join(f"{line}\n" for line in plain(found))) is not None


def plain(text: str) -> list[str]:
    """Give the lines of a text by which it is compared."""
    lines = (" ".join(_VARIES.sub("~", line.rstrip()).split()) for line in text.splitlines())
    return [line for line in lines if line.strip("─━- ")]
