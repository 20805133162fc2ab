"""Columns of JSON objects taken apart into columns of their fields, every value as the exact text it was.

Objects that a program writes mostly have the same fields in the same order. Such a shape is a regular expression, which
takes an object apart at a fraction of what a parser costs; whatever it does not match exactly goes to the parser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.json_text import NoObjectError, object_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MOST_SHAPES: Final = 64
_BLANK: Final = r"[ \t\r\n]*+"
_TEXT: Final = r'"[^"\\\x00-\x1f]*+"'
_NUMBER: Final = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
_VALUE: Final = rf"{_TEXT}|{_NUMBER}|null|true|false"
_FIELD: Final = re.compile(rf'({_BLANK}[{{,]{_BLANK})"([^"\\\x00-\x1f]*+)"({_BLANK}:{_BLANK})({_VALUE})')
_END: Final = re.compile(rf"{_BLANK}\}}{_BLANK}\Z")
_NAMED_TWICE: Final = "malformed_json: a field is named twice"


@dataclass(frozen=True, slots=True)
class Objects:
    """Some objects, taken apart.

    Attributes:
        columns: text columns by name, all of one length; NULL where an object has null, or has no such field.
        shapes: the columns that some objects have.
        shape_of: number of each object's shape (int64); that of an empty one where there is no object.
        problems: why there is no object, NULL where there is one; None where there always is.
    """

    columns: dict[str, Any]
    shapes: list[tuple[str, ...]]
    shape_of: Any
    problems: Any = None


class JsonObjects:
    """Takes JSON objects apart; learns their shapes as they come.

    Args:
        column_of: name of a field -> the column that it goes to.
    """

    def __init__(self, column_of: Callable[[str], str]) -> None:
        self._column_of = column_of
        self._shapes: dict[str, tuple[re.Pattern[str], tuple[str, ...]]] = {}

    def columns_of(self, texts: Any) -> tuple[str, ...]:
        """Return the columns of all objects in a text column, in the order in which they first come."""
        found: dict[str, None] = {}
        for _, names, _ in self._groups(texts)[0]:
            found |= dict.fromkeys(names)
        return tuple(found)

    def split(self, texts: Any) -> Objects:
        """Take a text column apart; a NULL in it is no object and no problem.

        Cost: some microseconds an object of a known shape, five times that for others.
        """
        groups, problems = self._groups(texts)
        names = dict.fromkeys(name for _, columns, _ in groups for name in columns)
        if len(groups) == 1 and len(groups[0][0]) == len(texts):
            [(_, columns, rows)] = groups
            values = dict(zip(columns, _arrays(rows, columns), strict=True))
            return Objects(values, [columns], pa.repeat(pa.scalar(0, pa.int64()), len(texts)))
        arrays = [dict(zip(columns, _arrays(rows, columns), strict=True)) for _, columns, rows in groups]
        # Behind the groups stands one row without values, for what is no object.
        count = sum(len(places) for places, _, _ in groups)
        place = np.full(len(texts), count, np.int64)
        shape_of = np.full(len(texts), len(groups), np.int64)
        start = 0
        for number, (places, _, _) in enumerate(groups):
            place[places] = np.arange(start, start + len(places))
            shape_of[places] = number
            start += len(places)
        order, nothing = pa.array(place), pa.nulls(1, pa.string())
        found = {}
        for name in names:
            pieces = [
                some[name] if name in some else pa.nulls(len(places), pa.string())
                for some, (places, _, _) in zip(arrays, groups, strict=True)
            ]
            found[name] = pa.concat_arrays([*pieces, nothing]).take(order)
        told = pa.array([problems.get(at) for at in range(len(texts))], pa.string()) if problems else None
        return Objects(found, [*(columns for _, columns, _ in groups), ()], pa.array(shape_of), told)

    def _groups(self, texts: Any) -> tuple[list[tuple[list[int], tuple[str, ...], Sequence[Any]]], dict[int, str]]:
        """Group objects by their shapes: (places, columns, values of each); also why there is none at a place."""
        groups: list[tuple[list[int], tuple[str, ...], Sequence[Any]]] = []
        problems: dict[int, str] = {}
        others: dict[tuple[str, ...], tuple[list[int], list[Any]]] = {}
        docs = texts.to_pylist()
        left = [at for at, doc in enumerate(docs) if doc is not None]
        tried = 0
        while left:
            for pattern, columns in [*self._shapes.values()][tried:]:
                found = list(map(pattern.fullmatch, [docs[at] for at in left]))
                places = [at for at, match in zip(left, found, strict=True) if match]
                if places:
                    groups.append((places, columns, [match.groups() for match in found if match]))
                    left = [at for at, match in zip(left, found, strict=True) if not match]
            tried = len(self._shapes)
            for number, at in enumerate(left):
                if self._learn(docs[at]):
                    left = left[number:]
                    break
                try:
                    fields = object_fields(docs[at])
                    columns = self._columns([name for name, _ in fields])
                except NoObjectError as error:
                    problems[at] = f"{error}"
                    continue
                places, rows = others.setdefault(columns, ([], []))
                places.append(at)
                rows.append(tuple(value for _, value in fields))
            else:
                left = []
        groups += [(places, columns, _Parsed(rows)) for columns, (places, rows) in others.items()]
        return groups, problems

    def _columns(self, names: Sequence[str]) -> tuple[str, ...]:
        columns = tuple(map(self._column_of, names))
        if len({column.lower() for column in columns}) < len(columns):
            raise NoObjectError(_NAMED_TWICE)
        return columns

    def _learn(self, doc: str) -> bool:
        """Learn the shape of an object, unless it is known or no regular expression can tell it."""
        names: list[str] = []
        pattern, at = "", 0
        while found := _FIELD.match(doc, at):
            before, name, between, _ = found.groups()
            if before.strip() != ("," if names else "{"):
                return False
            names.append(name)
            pattern += f'{re.escape(before)}"{re.escape(name)}"{re.escape(between)}({_VALUE})'
            at = found.end()
        end = _END.match(doc, at)
        if not end or not names or len(self._shapes) >= _MOST_SHAPES:
            return False
        pattern += re.escape(end[0])
        if pattern in self._shapes:
            return False
        try:
            columns = self._columns(names)
        except NoObjectError:
            return False
        self._shapes[pattern] = re.compile(pattern), columns
        return True


class _Parsed(list[Any]):
    """Values that are texts already; those of shapes still have their quotes."""


def _arrays(rows: Sequence[Any], columns: Sequence[str]) -> list[Any]:
    """Build a column for each value of a row."""
    arrays = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)] if columns else []
    return arrays if isinstance(rows, _Parsed) else list(map(_bare, arrays))


def _bare(tokens: Any) -> Any:
    """Return the texts of JSON values without backslashes: null is NULL, strings lose their quotes."""
    is_null = pc.equal(tokens, "null")
    if pc.any(is_null).as_py():
        tokens = pc.if_else(is_null, None, tokens)
    return pc.ascii_trim(tokens, '"')
