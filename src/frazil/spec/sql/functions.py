"""Spark's functions by name, with their kinds and numbers of arguments.

``scripts/spark_functions.py`` writes the list from Spark's own registry.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from frazil.spec.load.problem import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlglot.tokenizer_core import Token

_CALLS_JAVA: Final = frozenset({"reflect", "java_method", "try_reflect"})
_NOT_OF_THE_DATA: Final = frozenset(
    {"current_date", "current_time", "current_timestamp", "curdate", "localtimestamp", "now", "current_timezone"}
    | {"current_user", "user", "session_user", "current_catalog", "current_database", "current_schema", "version"}
)
"""Functions whose value depends on the time or place of the run; Spark treats them as constants."""

_MANY_RECORDS: Final = frozenset({"window", "session_window", "grouping", "grouping_id", "window_time"})
"""Functions over more than one record, whatever their kind in Spark's list."""

_BY_SYNTAX: Final = frozenset({"try_cast", "timestampadd", "timestampdiff"})
"""Functions of Spark's grammar that are not in its list."""

_OWN_GRAMMAR: Final = frozenset(
    {"cast", "extract", "trim", "substring", "substr", "position", "overlay", "date_add", "dateadd", "date_diff"}
    | {"datediff", "struct", "mod", "array", "map"}
    | {"decimal", "dec", "numeric", "char", "character", "varchar", "time", "string"}
)
"""Functions with a syntax of their own, such as ``trim(both 'x' from v)``, and types with parameters."""

_WORDS: Final = frozenset(
    {"and", "or", "not", "in", "like", "ilike", "rlike", "regexp", "between", "div", "case", "when", "then", "else"}
    | {"is", "as", "on", "by", "distinct", "interval", "from", "for", "placing", "over", "where", "all", "escape"}
)
"""Keywords of SQL that can precede a parenthesis and are not functions."""

_LIKE: Final = frozenset({"like", "ilike", "rlike"})
_OPENING: Final = frozenset({"L_PAREN", "L_BRACKET"})
_CLOSING: Final = frozenset({"R_PAREN", "R_BRACKET"})


@dataclass(frozen=True, slots=True)
class Function:
    """A function in Spark's list.

    Attributes:
        kind: scalar, aggregate, window, generator, table or changing; a changing function is a scalar whose value does
            not depend on its arguments alone.
        counts: allowed numbers of arguments; empty if unknown.
        open: any number of arguments from the last count on is allowed.
    """

    kind: str
    counts: tuple[int, ...]
    open: bool

    def takes(self, count: int) -> bool:
        """Return whether the function accepts this number of arguments."""
        return not self.counts or count in self.counts or (self.open and count > self.counts[-1])


@dataclass(frozen=True, slots=True)
class Call:
    """A function call in SQL.

    Attributes:
        name: name in lower case, with its qualifiers.
        count: number of arguments; None if a keyword such as FROM separates them.
    """

    name: str
    count: int | None


@cache
def functions() -> dict[str, Function]:
    """Return Spark's functions by name."""
    found = {}
    for line in files("frazil.spec.sql").joinpath("spark_functions.txt").read_text(encoding="utf-8").splitlines():
        name, kind, counts = line.split()
        numbers = () if counts == "-" else tuple(map(int, counts.rstrip("+").split(",")))
        found[name] = Function(kind, numbers, counts.endswith("+"))
    return found


def unknown_function(name: str) -> str | None:
    """Return a message, with the nearest name, if Spark has no function of this name; None if it has."""
    known = functions()
    if name in known or name in _BY_SYNTAX:
        return None
    near = nearest(name, known)
    return f"unknown function {name}" + (f"; did you mean '{near}'?" if near else "")


def calls_java(name: str) -> bool:
    """Return whether a function runs Java code."""
    return name in _CALLS_JAVA


def call_problem(call: Call) -> str | None:
    """Return why a call is not allowed in an expression over one record; None if it is allowed."""
    name = call.name.removeprefix("system.").removeprefix("builtin.")
    known, problem = functions().get(name), unknown_function(name)
    if calls_java(name):
        problem = f"function {name} is not allowed: it calls Java"
    elif is_not_of_the_data(name) or (name, call.count) == ("unix_timestamp", 0):
        problem = f"function {name} is not allowed: a replay would give another value"
    elif known is not None and (name in _MANY_RECORDS or known.kind != "scalar"):
        problem = f"function {name} is not of one record: an expr sees one record and gives one value"
    elif known is not None and call.count is not None and name not in _OWN_GRAMMAR and not known.takes(call.count):
        problem = f"function {name} takes {_numbers(known)}, not {call.count}"
    return problem


def is_not_of_the_data(name: str) -> bool:
    """Return whether the value of a keyword or function depends on the time or place of the run."""
    return name in _NOT_OF_THE_DATA or (name in functions() and functions()[name].kind == "changing")


def is_scalar(name: str) -> bool:
    """Return whether a function is certainly scalar and depends on its arguments alone."""
    if name in _BY_SYNTAX or name in _OWN_GRAMMAR:
        return True
    return name in functions() and functions()[name].kind == "scalar" and name not in _MANY_RECORDS


def calls(tokens: list[Token]) -> Iterator[Call]:
    """Yield the function calls of SQL in order of appearance, without types and keywords."""
    for index, (token, after) in enumerate(pairwise(tokens)):
        kind, name = token.token_type.name, token.text.lower()
        if after.token_type.name != "L_PAREN" or kind == "STRING" or not (kind == "IDENTIFIER" or name.isidentifier()):
            continue
        if name in _WORDS or (name in {"any", "some"} and index and tokens[index - 1].text.lower() in _LIKE):
            continue
        at = index
        while at > 1 and tokens[at - 1].token_type.name == "DOT" and tokens[at - 2].token_type.name != "R_PAREN":
            at -= 2
            name = f"{tokens[at].text.lower()}.{name}"
        yield Call(name, _count(tokens[index + 2 :]))


def _count(tokens: list[Token]) -> int | None:
    """Count the arguments up to the closing parenthesis; None if a keyword separates them."""
    depth, commas, empty = 1, 0, True
    for token in tokens:
        kind = token.token_type.name
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth == 0:
            break
        if depth == 1 and token.text.lower() in {"from", "for", "placing", "as", "in"} and kind != "STRING":
            return None
        commas += depth == 1 and kind == "COMMA"
        empty = False
    return 0 if empty else commas + 1


def _numbers(function: Function) -> str:
    least = function.counts[-1] if function.open else None
    if least is not None:
        return f"{least} arguments or more"
    *first, last = map(str, function.counts)
    return f"{', '.join(first)} or {last} arguments" if first else f"{last} argument{'' if last == '1' else 's'}"
