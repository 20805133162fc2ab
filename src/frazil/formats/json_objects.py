"""Split columns of JSON objects into columns of their fields, every value as its exact text.

A program's objects mostly have the same fields in the same order. Such a shape is a regular expression that is matched
on a whole column at once; objects that do not match it exactly go to the parser. Objects of a shape are split at their
quotes, since the bytes between their values are the same in all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.csv_form import offsets_of
from frazil.formats.json_lines import NoObjectError, object_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


_MOST_SHAPES: Final = 64
_BLANK: Final = r"[ \t\r\n]*+"
_TEXT: Final = r'"[^"\\\x00-\x1f]*"'
_NUMBER: Final = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_VALUE: Final = rf"(?:{_TEXT}|{_NUMBER}|null|true|false)"
_FIELD: Final = re.compile(rf'({_BLANK}[{{,]{_BLANK})"([^"\\\x00-\x1f]*+)"({_BLANK}:{_BLANK})({_VALUE})')
_NAME: Final = re.compile(r'"([^"]*)"')
_END: Final = re.compile(rf"{_BLANK}\}}{_BLANK}\Z")
_NO_WORD: Final = re.compile(r"[^0-9A-Za-z_\x80-\U0010ffff]")
_NAMED_TWICE: Final = "malformed_json: a field is named twice"
_QUOTE, _N = b'"'[0], b"n"[0]


class _OtherShapeError(Exception):
    """Objects are not written as it was said."""


@dataclass(frozen=True, slots=True)
class Objects:
    """Some objects, taken apart.

    Attributes:
        columns: text columns by name, all of one length; NULL for a null or missing field.
        shapes: the columns of each shape.
        shape_of: number of each object's shape (int64); an invalid text has the number of an empty shape.
        problems: the reason for each invalid text, NULL for a valid object; None if all are valid.
    """

    columns: dict[str, Any]
    shapes: list[tuple[str, ...]]
    shape_of: Any
    problems: Any = None


@dataclass(frozen=True, slots=True)
class _Shape:
    """The common form of similar objects.

    Attributes:
        columns: the columns of their fields.
        between: the bytes before the first value, between values, and after the last.
        pattern: of a whole object, for RE2; no value has a backslash, so a quote always begins or ends a text.
    """

    columns: tuple[str, ...]
    between: tuple[bytes, ...]
    pattern: str

    def of(self, texts: Any) -> Any:
        """Return which texts are such objects; NULL of NULL."""
        return pc.match_substring_regex(texts, self.pattern)

    def values(self, texts: Any) -> list[Any]:
        """Return a text column for each field of such objects: null is NULL, strings lose their quotes.

        Raises:
            IndexError, _OtherShapeError: they are no such objects.

        Cost: looks at each byte once, and makes no Python object of a value.
        """
        offsets = offsets_of(texts).astype(np.int64)
        if not len(texts):
            return [texts for _ in self.columns]
        data = np.frombuffer(texts.buffers()[2], np.uint8)[: offsets[-1]]
        quotes = np.flatnonzero(data[offsets[0] :] == _QUOTE) + offsets[0]
        quote = np.searchsorted(quotes, offsets[:-1])
        quotes = np.append(quotes, [len(data)] * 2)
        bounds = np.empty((len(texts), 2 * len(self.columns)), np.int32)
        nulls = []
        end = offsets[:-1]
        for number, (before, behind) in enumerate(zip(self.between, self.between[1:], strict=False)):
            begin, quote = end + len(before), quote + before.count(_QUOTE)
            first = data[begin]
            is_text = first == _QUOTE
            is_last = number == len(self.columns) - 1
            bare_end = offsets[1:] - len(behind) if is_last else quotes[quote] - behind.index(_QUOTE)
            end = np.where(is_text, quotes[quote + 1] + 1, bare_end)
            bounds[:, 2 * number], bounds[:, 2 * number + 1] = begin + is_text, end - is_text
            nulls.append(first == _N)
            quote = quote + 2 * is_text
        # Otherwise Arrow reads past its memory.
        if (end + len(self.between[-1]) != offsets[1:]).any() or (np.diff(bounds.reshape(-1)) < 0).any():
            raise _OtherShapeError
        # Every second piece is a value.
        pieces = pa.StringArray.from_buffers(bounds.size - 1, pa.py_buffer(bounds), texts.buffers()[2])
        rows = np.arange(len(texts)) * bounds.shape[1]
        return [pieces.take(pa.array(rows + 2 * number, mask=mask)) for number, mask in enumerate(nulls)]


_Group: TypeAlias = "tuple[tuple[str, ...], NDArray[np.int64], _Shape | Sequence[tuple[str | None, ...]]]"
"""Objects of one shape: their columns, places, and what has their values."""


class JsonObjects:
    """Takes JSON objects apart; learns their shapes as they come.

    Args:
        column_of: name of a field -> the column that it goes to.
        written: the :attr:`written` of others that have seen the same objects, which are then not matched again.
    """

    def __init__(self, column_of: Callable[[str], str], written: tuple[str, ...] = ()) -> None:
        self._column_of = column_of
        self._shapes: dict[str, _Shape] = {}
        self._is_mixed = False
        self._only = self._shape_of(written) if written else None

    @property
    def written(self) -> tuple[str, ...]:
        """Return the bytes before, between and after the values of all objects so far; empty if they differ."""
        shapes = [*self._shapes.values()]
        return () if self._is_mixed or len(shapes) != 1 else tuple(part.decode() for part in shapes[0].between)

    def columns_of(self, texts: Any) -> tuple[str, ...]:
        """Return the columns of all objects in a text column, in the order in which they first come."""
        found: dict[str, None] = {}
        groups, problems = self._groups(texts)
        self._is_mixed |= bool(problems) or any(not isinstance(source, _Shape) for _, _, source in groups)
        for columns, _, _ in groups:
            found |= dict.fromkeys(columns)
        return tuple(found)

    def split(self, texts: Any) -> Objects:
        """Split a text column of objects; a NULL has neither fields nor a problem.

        Cost: about a microsecond an object of a known shape, twenty times that for others.
        """
        if self._only is not None:
            try:
                return self._split(texts)
            except (IndexError, _OtherShapeError):  # they are not those that were seen
                self._only = None
        return self._split(texts)

    def _split(self, texts: Any) -> Objects:
        groups, problems = self._groups(texts)
        names = dict.fromkeys(name for columns, _, _ in groups for name in columns)
        if len(groups) == 1 and len(groups[0][1]) == len(texts):
            [(columns, _, source)] = groups
            values = dict(zip(columns, _arrays(source, texts, columns), strict=True))
            return Objects(values, [columns], pa.repeat(pa.scalar(0, pa.int64()), len(texts)))
        arrays = [
            dict(zip(columns, _arrays(source, texts.take(pa.array(places)), columns), strict=True))
            for columns, places, source in groups
        ]
        # The groups are followed by one row without values, for invalid texts.
        count = sum(len(places) for _, places, _ in groups)
        place = np.full(len(texts), count, np.int64)
        shape_of = np.full(len(texts), len(groups), np.int64)
        start = 0
        for number, (_, places, _) in enumerate(groups):
            place[places] = np.arange(start, start + len(places))
            shape_of[places] = number
            start += len(places)
        order, nothing = pa.array(place), pa.nulls(1, pa.string())
        found = {}
        for name in names:
            pieces = [
                some[name] if name in some else pa.nulls(len(places), pa.string())
                for some, (_, places, _) in zip(arrays, groups, strict=True)
            ]
            found[name] = pa.concat_arrays([*pieces, nothing]).take(order)
        told = pa.array([problems.get(at) for at in range(len(texts))], pa.string()) if problems else None
        return Objects(found, [*(columns for columns, _, _ in groups), ()], pa.array(shape_of), told)

    def _groups(self, texts: Any) -> tuple[list[_Group], dict[int, str]]:
        """Group objects by their shapes, known shapes first; also return the reasons for invalid texts."""
        groups: list[_Group] = []
        problems: dict[int, str] = {}
        others: dict[tuple[str, ...], tuple[list[int], list[tuple[str | None, ...]]]] = {}
        left, docs = np.flatnonzero(texts.is_valid()), texts.filter(texts.is_valid()) if texts.null_count else texts
        if self._only is not None:
            return [(self._only.columns, left, self._only)] if len(left) else [], problems
        tried = 0
        while len(left):
            for shape in [*self._shapes.values()][tried:]:
                is_such = shape.of(docs).to_numpy(zero_copy_only=False)
                if is_such.any():
                    groups.append((shape.columns, left[is_such], shape))
                    left, docs = left[~is_such], docs.filter(pa.array(~is_such))
            tried = len(self._shapes)
            for number, (at, doc) in enumerate(zip(left.tolist(), docs.to_pylist(), strict=True)):
                if self._learn(doc):
                    left, docs = left[number:], docs.slice(number)
                    break
                try:
                    fields = object_fields(doc)
                    columns = self._columns([name for name, _ in fields])
                except NoObjectError as error:
                    problems[at] = f"{error}"
                    continue
                places, rows = others.setdefault(columns, ([], []))
                places.append(at)
                rows.append(tuple(value for _, value in fields))
            else:
                break
        groups += [(columns, np.array(places), rows) for columns, (places, rows) in others.items()]
        return groups, problems

    def _columns(self, names: Sequence[str]) -> tuple[str, ...]:
        columns = tuple(map(self._column_of, names))
        if len({column.lower() for column in columns}) < len(columns):
            raise NoObjectError(_NAMED_TWICE)
        return columns

    def _learn(self, doc: str) -> bool:
        """Learn the shape of an object, unless it is known or cannot be a regular expression."""
        if len(self._shapes) >= _MOST_SHAPES:
            return False
        names: list[str] = []
        between, at = [], 0
        while found := _FIELD.match(doc, at):
            before, name, colon, _ = found.groups()
            if before.strip() != ("," if names else "{"):
                return False
            names.append(name)
            between.append(f'{before}"{name}"{colon}')
            at = found.end()
        end = _END.match(doc, at)
        between.append(end[0] if end else "")
        try:
            shape = self._shape_of(between)
            if not end or not names or shape.pattern in self._shapes or not shape.of(pa.array([doc]))[0].as_py():
                return False
        except (NoObjectError, pa.ArrowInvalid):  # RE2 takes no pattern that is too large
            return False
        self._shapes[shape.pattern] = shape
        return True

    def _shape_of(self, between: Sequence[str]) -> _Shape:
        """Return the shape of objects that have some texts before, between and behind their values."""
        columns = self._columns([found[1] for part in between if (found := _NAME.search(part))])
        pattern = rf"\A{_VALUE.join(map(_escaped, between))}\z"
        return _Shape(columns, tuple(part.encode() for part in between), pattern)


def _escaped(text: str) -> str:
    """Write a text as a pattern of RE2."""
    return _NO_WORD.sub(lambda sign: rf"\x{{{ord(sign[0]):x}}}", text)


def _arrays(source: _Shape | Sequence[tuple[str | None, ...]], texts: Any, columns: Sequence[str]) -> list[Any]:
    """Build a column for each field of objects: cut by their shape, or from what the parser found."""
    if isinstance(source, _Shape):
        return source.values(texts)
    return [pa.array(values, pa.string()) for values in zip(*source, strict=True)] if columns else []
