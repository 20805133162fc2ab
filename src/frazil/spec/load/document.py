"""YAML text as plain data, with the line and column of every entry.

Supports the part of YAML that a declaration needs: one document of mappings, lists and scalars, with anchors, aliases
and ``<<``, but without tags. Scalars follow YAML 1.2, so ``no`` and ``on`` are text and ``012`` is not octal. Nesting
is limited to ``MAX_DEPTH``, and aliases cannot add more than ``MAX_ALIASED`` entries to those of the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import yaml

Path: TypeAlias = tuple[str | int, ...]
Place: TypeAlias = tuple[int, int]
"""Line and column, both from 1."""

MAX_CHARACTERS: Final = 4_000_000
MAX_DEPTH: Final = 40
MAX_ALIASED: Final = 200_000

_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEAN: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)\.[0-9]*)(?:[eE][-+]?[0-9]+)?")
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class Document:
    """A parsed text.

    Attributes:
        data: dicts with text keys, lists, str, int, float, bool, None.
        keys: path of an entry -> place of its key.
        values: path of a value -> its place.
        problems: (place, message) of each problem of the text itself.
    """

    data: object = None
    keys: dict[Path, Place] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)
    problems: list[tuple[Place, str]] = field(default_factory=list)

    def place(self, path: Path) -> Place:
        """Return the place of a value, or of the nearest value around it."""
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, (1, 1))

    def key_place(self, path: Path) -> Place:
        """Return the place of an entry's key, else of its value."""
        return self.keys.get(path) or self.place(path)


@dataclass(slots=True)
class _Node:
    place: Place
    value: str | list[_Node] | list[tuple[_Node, _Node]]
    is_map: bool = False
    plain: bool = False
    entries: int = 1

    @property
    def is_merge(self) -> bool:
        """Whether this is the key ``<<``."""
        return self.plain and self.value == "<<"


class _Refusal(Exception):  # noqa: N818 - never leaves this module
    def __init__(self, place: Place, message: str) -> None:
        self.place, self.message = place, message
        super().__init__(message)


def read_document(text: str) -> Document:
    """Read YAML text; problems are returned in ``problems`` and never raised.

    After a syntax error ``data`` is None. Of a repeated key, ``data`` has the first value.
    """
    document = Document()
    if len(text) > MAX_CHARACTERS:
        document.problems.append(((1, 1), f"the file is larger than {MAX_CHARACTERS} characters"))
        return document
    try:
        root, limit = _tree(text)
        if root is not None:
            document.data = _Plain(document, limit).convert(root, ())
    except _Refusal as refusal:
        document.problems.append((refusal.place, refusal.message))
        document.data = None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        document.problems.append((place, f"not YAML: {error.problem or error.context}"))
    except yaml.YAMLError as error:
        document.problems.append(((1, 1), f"not YAML: {' '.join(str(error).split())}"))
    return document


def _tree(text: str) -> tuple[_Node | None, int]:
    """Build the tree from parser events, without recursion; also return how many entries it may have."""
    builder = _Builder()
    for event in yaml.parse(text, Loader=_LOADER):
        mark = event.start_mark
        builder.take(event, (mark.line + 1, mark.column + 1) if mark else (1, 1))
    return builder.root, builder.limit


class _Builder:
    """Builds nodes from events. An anchor counts only after its node is complete, so a node cannot contain itself."""

    def __init__(self) -> None:
        self.root: _Node | None = None
        self.documents = 0
        self.limit = MAX_ALIASED
        self.anchors: dict[str, _Node] = {}
        self.open: list[tuple[_Node, list[_Node], str | None]] = []

    def take(self, event: yaml.Event, place: Place) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self.documents += 1
                if self.documents > 1:
                    raise _Refusal(place, "a second YAML document; one file is one declaration")
            case yaml.AliasEvent():
                if event.anchor not in self.anchors:
                    raise _Refusal(place, f"alias *{event.anchor} has no complete anchor before it")
                self.add(self.anchors[event.anchor], None)
            case yaml.ScalarEvent():
                _refuse_tag(event.tag, place)
                self.limit += 1
                self.add(_Node(place, event.value, plain=event.implicit[0]), event.anchor)
            case yaml.CollectionStartEvent():
                _refuse_tag(event.tag, place)
                if len(self.open) >= MAX_DEPTH:
                    raise _Refusal(place, f"nested deeper than {MAX_DEPTH} levels")
                self.limit += 1
                node = _Node(place, [], is_map=isinstance(event, yaml.MappingStartEvent))
                self.open.append((node, [], event.anchor))
            case yaml.CollectionEndEvent():
                node, children, anchor = self.open.pop()
                self.add(_filled(node, children, self.limit), anchor)
            case _:
                pass

    def add(self, node: _Node, anchor: str | None) -> None:
        if anchor:
            self.anchors[anchor] = node
        if self.open:
            self.open[-1][1].append(node)
        else:
            self.root = node


def _filled(node: _Node, children: list[_Node], limit: int) -> _Node:
    """Fill a node with its children and count its entries, aliases expanded; refuse more than the limit."""
    if node.is_map:
        pairs = list(zip(children[::2], children[1::2], strict=True))
        node.value = pairs
        node.entries += sum(value.entries for key, value in pairs if not key.is_merge)
    else:
        node.value = children
        node.entries += sum(child.entries for child in children)
    if node.entries > limit:
        raise _too_large(node)
    return node


def _too_large(node: _Node) -> _Refusal:
    return _Refusal(node.place, f"aliases add more than {MAX_ALIASED} entries, or more than {MAX_DEPTH} levels")


def _refuse_tag(tag: str | None, place: Place) -> None:
    if tag not in {None, "!"}:
        raise _Refusal(place, f"YAML tags such as {tag} are not allowed")


class _Plain:
    """Converts nodes to data and notes the place of each entry."""

    def __init__(self, document: Document, limit: int) -> None:
        self.document, self.left = document, limit

    def convert(self, node: _Node, path: Path) -> object:
        self.left -= 1
        if self.left < 0 or len(path) > MAX_DEPTH:
            raise _too_large(node)
        self.document.values[path] = node.place
        if isinstance(node.value, str):
            return _scalar(node.value) if node.plain else node.value
        if not node.is_map:
            return [self.convert(child, (*path, i)) for i, child in enumerate(node.value) if isinstance(child, _Node)]
        entries: dict[str, object] = {}
        merged: list[_Node] = []
        for key, value in _pairs(node):
            if key.is_merge:
                merged.append(value)
            else:
                self._enter(key, value, entries, path)
        for source in merged:
            self._merge(source, entries, path, 0)
        return entries

    def _enter(self, key: _Node, value: _Node, entries: dict[str, object], path: Path) -> None:
        if not isinstance(key.value, str):
            raise _Refusal(key.place, "a setting's name must be text")
        entry = (*path, key.value)
        if key.value in entries:
            message = f"setting '{key.value}' is written twice, first in line {self.document.keys[entry][0]}"
            self.document.problems.append((key.place, message))
            return
        self.document.keys[entry] = key.place
        entries[key.value] = self.convert(value, entry)

    def _merge(self, source: _Node, entries: dict[str, object], path: Path, depth: int) -> None:
        """Add the entries of ``<<``: the mapping's own entries win, then those of the first mapping in the list."""
        parts = source.value if isinstance(source.value, list) and not source.is_map else [source]
        for part in parts:
            self.left -= 1
            if not isinstance(part, _Node) or not part.is_map:
                raise _Refusal(source.place, "<< takes a mapping, or a list of mappings")
            if self.left < 0 or depth > MAX_DEPTH:
                raise _Refusal(source.place, f"<< is nested deeper than {MAX_DEPTH} levels")
            inner = []
            for key, value in _pairs(part):
                if key.is_merge:
                    inner.append(value)
                elif key.value not in entries:
                    self._enter(key, value, entries, path)
            for deeper in inner:
                self._merge(deeper, entries, path, depth + 1)


def _pairs(node: _Node) -> list[tuple[_Node, _Node]]:
    return [pair for pair in node.value if isinstance(pair, tuple)]


def _scalar(text: str) -> object:
    if text in _NULL:
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
