"""Read a line of JSON into the fields of a change: envelopes and flat rows, with and without schemas and keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from frazil.formats.json_lines import NoObjectError, Pairs, parsed, text_of
from frazil.formats.records import safe_name
from frazil.sources.before_images import BEFORE_IMAGE
from frazil.sources.debezium.encodings import Field, NoValueError, described, encoded, is_unavailable
from frazil.sources.debezium.forms import check_form, is_no_change, operation_of, source_block, with_key
from frazil.sources.debezium.key_changes import Deletes, other_key
from frazil.sources.debezium.place import (
    APART,
    BEFORE_CHANGES,
    after_read,
    ends_snapshot,
    has_own_place,
    lacks_place,
    mark_of,
    micros_of,
    number_of,
    place_of,
    stream_of,
)
from frazil.sources.eras import place_in_era
from frazil.sources.record_files import ALL
from frazil.spec.model.kinds.debezium import BEFORE, END, OP, POSITION, TIME
from frazil.spec.sql.names import literal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from frazil.sources.trail import Mark, Trail
    from frazil.spec import Table

    Keys = dict[str, str | None]

CREATES: Final = ("c", "create")
TOMBSTONE: Final = "tombstone"
"""Value of ``__op`` for a message without a value."""

_UPSERTS: Final = ("c", "r", "u", "i", "create", "read", "update", "insert", "upsert")
_READS: Final = ("r", "read")
DELETES: Final = ("d", "delete", TOMBSTONE)
_TRUNCATES: Final = ("t", "truncate")
_MESSAGE: Final = frozenset(
    {"topic", "partition", "offset", "timestamp", "timestamptype", "key", "value", "headers", "follows"}
)
_NUMBERS: Final = frozenset({"int", "bigint", "decimal"})
_AS_TEXT: Final = Field("string")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NO_PLACE: Final = (
    "no_place: a message without a value comes after the message before it, and here none of its table is before it; "
    "read the topic (servers, topic), or let files begin with a change"
)
_NAMED_TWICE: Final = "malformed_json: a field is named twice"


CLASSES: Final = dict.fromkeys(_UPSERTS, "upsert") | dict.fromkeys(DELETES, "delete")
"""Value of ``__op`` -> class of the change of a row."""


def change_class(operation: str) -> str:
    """Write the SQL of a change's class; ``operation`` is the SQL of ``__op``. Unknown values give NULL."""
    cases = (("upsert", _UPSERTS), ("delete", DELETES), ("truncate", _TRUNCATES))
    whens = " ".join(f"WHEN lower({operation}) IN ({_list(words)}) THEN {literal(name)}" for name, words in cases)
    return f"CASE {whens} END"


def _list(words: tuple[str, ...]) -> str:
    return ", ".join(map(literal, words))


@dataclass(frozen=True, slots=True)
class _Place:
    """Place and time of a record in its database, and what tells it apart from others of its place."""

    base: str | None = None
    time: str | None = None
    mark: Mark | None = None
    number: str = ""


@dataclass(slots=True)
class Records:
    """Reader of the lines of one file, in order, because a tombstone takes its place from the record before it.

    Attributes:
        table: declared table.
        file: name of the file; it orders records of one place without partition and offset.
        turns: stream -> offsets at which its second and later eras begin.
        trail: collector of the servers that wrote the records; None if they are known.
        types: lower-case name of every field so far -> its column and Spark type.
    """

    table: Table
    file: str
    turns: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    trail: Trail | None = None
    types: dict[str, tuple[str, str]] = field(default_factory=dict)
    _last: dict[str, _Place] = field(default_factory=dict)
    _others: dict[str, Any] = field(default_factory=dict)
    _deletes: Deletes = field(default_factory=Deletes)
    _images: dict[str, Keys] = field(default_factory=dict)
    _schemas: list[tuple[Any, dict[str, Field]]] = field(default_factory=list)
    _declared: dict[str, str] = field(default_factory=dict)
    _encodings: dict[str, Field] = field(default_factory=dict)
    _wrong: list[str] = field(default_factory=list)
    _count: int = 0

    def __post_init__(self) -> None:
        columns = self.table.columns or ()
        self._declared = {column.name.lower(): column.type for column in columns if column.expr is None}
        self._encodings = {name.lower(): encoded(way) for name, way in self.table.source.encodings.items()}
        for name, kind in self.table.source.own_fields.items():
            self.types[name] = (name, kind)

    def fields(self, text: str) -> dict[str, str | None] | None:
        """Return the fields of a line by lower-case name; None for ``null`` and for records of other tables.

        Raises:
            NoObjectError: the line cannot be read as a record; the message has the reason. If only values are wrong,
                it has the key and the place.
        """
        try:
            return self._fields(text)
        except NoObjectError:
            # It may be the update of the last image, and the next record is of another row.
            self._images.clear()
            raise

    def _fields(self, text: str) -> dict[str, str | None] | None:
        self._wrong.clear()
        line = parsed(text)
        if line is None:
            return None
        if not isinstance(line, Pairs):
            raise NoObjectError("malformed_json: not an object")
        whole = self._named(line)
        is_message = "value" in whole and whole.keys() <= _MESSAGE
        key, value = (_json(whole.get("key"), strict=False), _json(whole["value"])) if is_message else (None, line)
        found = self._change(value, key, whole if is_message else {})
        if found is not None and "\\u" in text:
            try:
                "".join(filter(None, found.values())).encode()
            except UnicodeEncodeError:
                raise NoObjectError("malformed_json: an unpaired surrogate") from None
        if self._wrong:
            raise NoObjectError(self._wrong[0], self._placed(found or {}))
        return found

    def _placed(self, fields: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return the fields that say which row a record is about, and when: without them no delete finds its create."""
        keys = self._lower_keys
        named = {*keys, *(BEFORE + key for key in keys), *(name.lower() for name in (OP, TIME, POSITION, END))}
        return {name: value for name, value in fields.items() if name in named}

    def _change(self, value: Any, key: Any, message: Mapping[str, Any]) -> dict[str, str | None] | None:
        ways, value = self._unwrapped(value)
        partition = str(message.get("partition"))
        if value is None:
            return self._tombstone(key, message, partition)
        if not isinstance(value, Pairs):
            raise NoObjectError("malformed_json: the value is no object")
        whole = self._named(value)
        is_envelope = self.table.source.form == "envelope"
        check_form(whole, is_envelope=is_envelope)
        if is_no_change(whole, self._own_names):
            return None
        if is_envelope and ("op" not in whole or not {"before", "after", "source"} & whole.keys()):
            raise NoObjectError("no_envelope: no op, before, after and source; rows without one are form: flat")
        op = whole["op"] if is_envelope else operation_of(whole, self.table)
        if op == BEFORE_IMAGE:
            self._images[partition] = with_key(self._row(value, ways, self._lower_keys), self._lower_keys)
            return None
        source = _with_read(_object(whole.get("source") or Pairs()) if is_envelope else source_block(whole), op)
        if not self._is_own(source):
            self._others[partition] = key if CLASSES.get(str(op).lower()) == "delete" else None
            return None
        self._follow(message, partition)
        self._others.pop(partition, None)
        place = _place(source)
        if lacks_place(source):
            place = self._behind(partition, place)
        self._last[partition] = place
        is_delete = CLASSES.get(str(op).lower()) == "delete"
        image = self._images.pop(partition, None)
        row = self._enveloped(whole, ways, key) if is_envelope else self._flat(value, ways, image, is_delete=is_delete)
        if place.base is not None and (is_delete or str(op).lower() in CREATES) and has_own_place(source):
            self._pair(row, (partition, f"{place.base}/{place.number}"), message, is_delete=is_delete)
        if ends_snapshot(source):
            self.types.setdefault(END, (END, "string"))
            row[END] = "true"
        return row | self._own(op, place, message)

    def _flat(
        self, value: Pairs, ways: Mapping[str, Field], image: Keys | None, *, is_delete: bool
    ) -> dict[str, str | None]:
        """Return the fields of a flat row; ``image`` is the row before it if the last record was that."""
        row = self._row(value, ways, self._lower_keys if is_delete else None)
        if image is not None and not is_delete:
            self._add_other(row, image)
        return row

    def _pair(
        self, row: dict[str, str | None], at: tuple[str, str], message: Mapping[str, Any], *, is_delete: bool
    ) -> None:
        """Remember a delete; give it and a create the key of the other, where they are a change of key.

        ``at`` are partition and place.
        """
        told = other_key(message, is_delete=is_delete)
        other = None if is_delete else self._deletes.take(*at)
        if is_delete:
            self._deletes.see(*at, {name: row.get(name) for name in self._lower_keys})
        if told is not None:
            other = self._keys(told)
        if other is not None:
            self._add_other(row, other)

    def _add_other(self, row: dict[str, str | None], other: Mapping[str, str | None]) -> None:
        """Add the key that a row had before, or of a delete the one that it has then, where it is whole and another."""
        keys = self._lower_keys
        if all(other.get(name) is not None for name in keys) and any(other[name] != row.get(name) for name in keys):
            for name in keys:
                self.types.setdefault(BEFORE + name, (BEFORE + name, "string"))
                row[BEFORE + name] = other[name]

    def _enveloped(self, whole: Mapping[str, Any], ways: Mapping[str, Field], key: Any) -> dict[str, str | None]:
        before, after = whole.get("before"), whole.get("after")
        is_delete = whole["op"] == "d"
        image = before if is_delete else after
        needed = self._lower_keys if is_delete else None
        row = self._row(image, ways, needed) if isinstance(image, Pairs) else {}
        if is_delete:
            return self._keys(key) | row
        if isinstance(before, Pairs) and whole["op"] == "u":
            self._add_other(row, self._row(before, ways, self._lower_keys))
        return row

    def _tombstone(self, key: Any, message: Mapping[str, Any], partition: str) -> dict[str, str | None] | None:
        """Return a message without a value as a delete, placed after the record before it.

        After compaction it may be the only trace of a delete. Behind a delete of its key in another table it is that
        table's.

        Raises:
            NoObjectError: the record before it is in no file, or of another table.
        """
        self._follow(message, partition)
        keys = self._keys(key)
        if keys and partition in self._others:
            if self._others[partition] == key:
                return None
            raise NoObjectError(_NO_PLACE)
        place = self._last.get(partition)
        if place is not None and place.base is not None:
            place = _Place(after_read(place.base), place.time, number=place.number)
        if place is None and self.table.source.form == "flat":
            place = _Place()
        if place is None and keys and self.table.source.path is not None:  # a topic that begins so has no row of it
            raise NoObjectError(_NO_PLACE)
        return None if not keys or place is None else keys | self._own(TOMBSTONE, place, message)

    def _follow(self, message: Mapping[str, Any], partition: str) -> None:
        """Remember the place of the record before the first one of a file, if the file names it."""
        if (follows := _json(message.get("follows"))) is None:
            return
        whole = _object(self._unwrapped(follows)[1] or Pairs())
        is_envelope = self.table.source.form == "envelope"
        source = _object(whole.get("source") or Pairs()) if is_envelope else source_block(whole)
        if not is_envelope and whole and operation_of(whole, self.table) == BEFORE_IMAGE:
            self._images[partition] = self._row(Pairs(whole.items()), {})
        if not self._is_own(source):
            self._others[partition] = None
        elif not lacks_place(source):
            self._last[partition] = _place(source)

    def _behind(self, partition: str, place: _Place) -> _Place:
        """Return the place of the record before, for a record without one; without either it precedes all changes."""
        last = self._last.get(partition)
        if last is not None and last.base is not None:
            return _Place(after_read(last.base), place.time, number=last.number)
        return _Place(None if place.base is None else f"{BEFORE_CHANGES}{place.base}", place.time)

    def _keys(self, key: Any) -> dict[str, str | None]:
        ways, key = self._unwrapped(key)
        if isinstance(key, Pairs):
            return self._row(key, ways)
        if key is None or len(self.table.keys) > 1:
            return {}
        return self._row(Pairs([(self.table.keys[0], key)]), {})

    def _unwrapped(self, value: Any) -> tuple[dict[str, Field], Any]:
        """Unwrap ``{"schema": …, "payload": …}``; return the fields of the schema and the value."""
        if not isinstance(value, Pairs) or {name for name, _ in value} != {"schema", "payload"}:
            return {}, value
        parts = dict(value)
        for known, ways in self._schemas:
            if known == parts["schema"]:
                return ways, parts["payload"]
        ways = _ways(parts["schema"], is_envelope=self.table.source.form == "envelope")
        self._schemas[:0] = [(parts["schema"], ways)]
        del self._schemas[8:]
        return ways, parts["payload"]

    def _named(self, value: Pairs) -> dict[str, Any]:
        """Return the fields of an object by lower-case name, after renaming them by the declared ``names``."""
        names = self.table.source.names
        return _object(Pairs((names.get(name, name), one) for name, one in value) if names else value)

    @property
    def _own_names(self) -> set[str]:
        return {*self._lower_keys, *self._declared}

    @property
    def _lower_keys(self) -> list[str]:
        return [name.lower() for name in self.table.keys]

    def _row(
        self, row: Pairs, ways: Mapping[str, Field], needed: Collection[str] | None = None
    ) -> dict[str, str | None]:
        """Return the fields of a row without unreadable ones; one that is ``needed`` makes the record bad."""
        found: dict[str, str | None] = {}
        for name, value in row:
            column = _column(self.table.source.names.get(name, name))
            lower = column.lower()
            if lower in found:
                raise NoObjectError(_NAMED_TWICE)
            way = self._encodings.get(lower) or ways.get(name)
            self.types.setdefault(lower, (column, (way or _AS_TEXT).type))
            if value is None:
                found[lower] = None
            elif is_unavailable(value, self.table.source.unavailable):
                # Not carried: MISSING-IS-NOT-NULL.
                continue
            else:
                try:
                    found[lower] = self._text(lower, value, way)
                except NoValueError as why:
                    if needed is None or lower in needed:
                        self._wrong.append(f"{why}")
        return found

    def _text(self, name: str, value: Any, way: Field | None) -> str | None:
        if way is not None and way.decode is not None:
            try:
                return way.decode(value)
            except NoValueError as why:
                way_out = f"encodings: {{{name}: text}} keeps what is written"
                raise NoValueError(f"no_value: {name} is {why}; {way_out}") from None
        kind = self._declared.get(name, "").partition("(")[0]
        if isinstance(value, bool) and kind in _NUMBERS:
            # MySQL's TINYINT(1) is a number or a boolean, as the connector is set; a change of that changes no value.
            return f"{int(value)}"
        if way is None and kind in {"decimal", "binary"} and type(value) is str:
            # Frazil does not guess whether a text holds digits or their base64.
            ways = "text or decimal(scale)" if kind == "decimal" else "base64 or hex"
            raise NoValueError(f"unknown_encoding: {name} is a text, and no schema says of what; declare {ways}")
        return text_of(value)

    def _is_own(self, source: Mapping[str, Any]) -> bool:
        wanted = self.table.source.table
        if wanted == ALL:
            return True
        names = [source.get("schema") or source.get("db"), source.get("table")]
        name = ".".join(str(name) for name in names if name)
        if wanted is None and self.trail is not None and source.get("table"):
            self.trail.tables.setdefault(name)
        return wanted is None or name == str(wanted)

    @property
    def ends_before_update(self) -> bool:
        """Return whether the last record is the image before an update."""
        return bool(self._images)

    def _own(self, op: Any, place: _Place, message: Mapping[str, Any]) -> dict[str, str | None]:
        partition, offset = message.get("partition"), message.get("offset")
        stream, number = stream_of(message)
        apart, self._count = f"{APART}{place.number}" if place.number else "", self._count + 1
        if self.trail is not None and place.mark is not None:
            self.trail.see(stream, number, place.mark)
        if partition is not None and offset is not None:
            at = f"{str(partition).rjust(6, '0')}/{str(offset).rjust(20, '0')}{apart}"
            position: str | None = place_in_era(self.turns.get(stream, ()), number or 0, place.base, at)
        else:
            # Within a file, the number of the record orders those of one position only.
            at = f"{self.file}/{self._count:020}{apart}" if apart else self.file
            position = None if place.base is None else f"{place.base}/{at}"
        return {OP: text_of(op), TIME: place.time, POSITION: position}


def _place(source: Mapping[str, Any]) -> _Place:
    micros = micros_of(source)
    try:
        time = None if micros is None else f"{_EPOCH + timedelta(microseconds=micros):%Y-%m-%d %H:%M:%S.%f}"
    except OverflowError:
        time = None
    base = place_of(source)
    return _Place(base, time, mark_of(source, base), number_of(source))


def _object(pairs: Any) -> dict[str, Any]:
    """Return the fields of an object by lower-case name."""
    if not isinstance(pairs, Pairs):
        raise NoObjectError("malformed_json: not an object")
    found = {name.lower(): value for name, value in pairs}
    if len(found) < len(pairs):
        raise NoObjectError(_NAMED_TWICE)
    return found


def _json(value: Any, *, strict: bool = True) -> Any:
    """Return a part of a message, parsed if it is JSON in a text; with ``strict=False`` any text is valid."""
    if type(value) is not str:
        return value
    try:
        return parsed(value)
    except NoObjectError:
        if strict:
            raise
        return value


def _with_read(source: dict[str, Any], op: Any) -> dict[str, Any]:
    """Mark a change as a snapshot read if only its op says so, as in flat rows."""
    is_untold = source.get("snapshot") is None and str(text_of(op)).lower() in _READS
    return source | {"snapshot": "true"} if is_untold else source


def _ways(schema: Any, *, is_envelope: bool) -> dict[str, Field]:
    """Return the encoding of each field of a row; in an envelope the row is ``after`` or ``before``."""
    fields = _fields_of(schema)
    for image in ("after", "before") if is_envelope else ():
        for one in fields:
            if one.get("field") == image:
                return _ways(Pairs(one.items()), is_envelope=False)
    return {str(one.get("field")): described(one) for one in fields}


def _fields_of(schema: Any) -> list[dict[str, Any]]:
    fields = dict(schema).get("fields") if isinstance(schema, Pairs) else None
    return [dict(one) for one in fields or () if isinstance(one, Pairs)]


@cache
def _column(name: str) -> str:
    return safe_name(name)
