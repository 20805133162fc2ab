"""Spark's functions by name: which there are, what they see, and how many arguments they take.

The list is Spark's own, written by ``scripts/spark_functions.py``.
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
"""Functions whose value is decided by the moment or the place of the run; Spark holds them for constants."""

_MANY_RECORDS: Final = frozenset({"window", "session_window", "grouping", "grouping_id", "window_time"})
"""Functions that see more than one record, whatever Spark's list calls them."""

_BY_SYNTAX: Final = frozenset({"try_cast", "timestampadd", "timestampdiff"})
"""What Spark's grammar knows besides the functions."""

_OWN_GRAMMAR: Final = frozenset(
    {"cast", "extract", "trim", "substring", "substr", "position", "overlay", "date_add", "dateadd", "date_diff"}
    | {"datediff", "struct", "mod", "array", "map"}
    | {"decimal", "dec", "numeric", "char", "character", "varchar", "time", "string"}
)
"""Names that stand before a parenthesis in forms of their own, such as ``trim(both 'x' from v)``, or are types."""

_WORDS: Final = frozenset(
    {"and", "or", "not", "in", "like", "ilike", "rlike", "regexp", "between", "div", "case", "when", "then", "else"}
    | {"is", "as", "on", "by", "distinct", "interval", "from", "for", "placing", "over", "where", "all", "escape"}
)
"""Words of SQL that may stand before a parenthesis without being called."""

_LIKE: Final = frozenset({"like", "ilike", "rlike"})
_OPENING: Final = frozenset({"L_PAREN", "L_BRACKET"})
_CLOSING: Final = frozenset({"R_PAREN", "R_BRACKET"})


@dataclass(frozen=True, slots=True)
class Function:
    """What Spark's list says of a function.

    Attributes:
        kind: scalar, aggregate, window, generator, table or changing; the last is a scalar whose value its arguments
            do not decide.
        counts: numbers of arguments it takes; none where that is not known.
        open: it takes any number from the last of them on.
    """

    kind: str
    counts: tuple[int, ...]
    open: bool

    def takes(self, count: int) -> bool:
        """Return whether the function takes that many arguments."""
        return not self.counts or count in self.counts or (self.open and count > self.counts[-1])


@dataclass(frozen=True, slots=True)
class Call:
    """A function that SQL calls.

    Attributes:
        name: in lower case, with what stands before it and a dot.
        count: of its arguments; None where a word such as FROM parts them.
    """

    name: str
    count: int | None


@cache
def functions() -> dict[str, Function]:
    """Read the list: name -> what is known of it."""
    found = {}
    for line in files("frazil.spec.sql").joinpath("spark_functions.txt").read_text(encoding="utf-8").splitlines():
        name, kind, counts = line.split()
        numbers = () if counts == "-" else tuple(map(int, counts.rstrip("+").split(",")))
        found[name] = Function(kind, numbers, counts.endswith("+"))
    return found


def unknown_function(name: str) -> str | None:
    """Return the message that Spark has no function of a name, and which one may be meant; None if it has."""
    known = functions()
    if name in known or name in _BY_SYNTAX:
        return None
    near = nearest(name, known)
    return f"there is no function {name}" + (f"; did you mean '{near}'?" if near else "")


def calls_java(name: str) -> bool:
    """Return whether a function runs Java code."""
    return name in _CALLS_JAVA


def call_problem(call: Call) -> str | None:
    """Return what keeps a function from being called for one record, None if nothing does."""
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
    """Return whether a word or a function gives the moment or the place of the run."""
    return name in _NOT_OF_THE_DATA or (name in functions() and functions()[name].kind == "changing")


def is_scalar(name: str) -> bool:
    """Return whether a function surely gives one value of one record, which its arguments decide."""
    if name in _BY_SYNTAX or name in _OWN_GRAMMAR:
        return True
    return name in functions() and functions()[name].kind == "scalar" and name not in _MANY_RECORDS


def calls(tokens: list[Token]) -> Iterator[Call]:
    """List the functions that SQL calls, as they are written; types and words of SQL are none."""
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
    """Count the arguments that stand before the parenthesis that closes them."""
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
