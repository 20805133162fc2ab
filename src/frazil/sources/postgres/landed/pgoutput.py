"""Decode messages of PostgreSQL's output plugin ``pgoutput``, protocol 1, into columns.

PostgreSQL's manual has the layouts: "Logical Replication Message Formats".
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_LENGTH: Final = Struct("!i").unpack_from
_COUNT: Final = Struct("!H").unpack_from
_NUMBER: Final = Struct("!I").unpack_from
_BEGIN: Final = Struct("!QqI").unpack_from
_TYPE: Final = Struct("!Ii").unpack_from
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)

_INSERT, _UPDATE, _DELETE, _TRUNCATE = b"IUDT"
_RELATION, _BEGINS = b"RB"
_TEXT, _NULL, _TOAST = b"tnu"
_KEY, _OLD = b"KO"
_FULL: Final = "f"


@dataclass(frozen=True, slots=True)
class Relation:
    """A table at the time of the changes that follow this message.

    Attributes:
        schema, name: schema and name of the table.
        identity: replica identity: ``d``, ``n``, ``f`` or ``i``.
        columns: columns in the order of the values.
        keys: indexes of the columns of the identity; all columns if the identity is full.
        types: number and modifier of each column's type.
        oid: number of the table.
    """

    schema: str
    name: str
    identity: str
    columns: tuple[str, ...]
    keys: tuple[int, ...]
    types: tuple[tuple[int, int], ...]
    oid: int

    @property
    def is_full(self) -> bool:
        """Return True if changes carry the whole old row."""
        return self.identity == _FULL


class Rows(Protocol):
    """Receiver of the changes of one table, column by column."""

    @property
    def values(self) -> Sequence[list[bytes | None]]:
        """Return the list of values of each column."""

    @property
    def old(self) -> Sequence[tuple[int, list[bytes | None]]]:
        """Return (index of a column, list of its old values)."""

    def add(self, op: str, sequence: int, unchanged: Sequence[int], size: int) -> bool:
        """Add the properties of a change whose values are in the lists; return True if it is time to write.

        Args:
            op: ``i``, ``u``, ``d`` or ``t``.
            sequence: number in the transaction, from 1.
            unchanged: indexes of the columns that the change does not carry.
            size: bytes of its message.
        """


class Receiver(Protocol):
    """Receiver of decoded messages."""

    def begin(self, commit_lsn: int, committed_at: str, xid: int) -> bool:
        """Begin a transaction; return False to skip its changes.

        Args:
            commit_lsn: position of the commit.
            committed_at: time of the commit as text.
            xid: number of the transaction.
        """

    def relation(self, relation: Relation) -> Rows | None:
        """Return the receiver of a table's changes from here on; None to skip them."""

    def write(self) -> None:
        """Write the collected changes; called when :meth:`Rows.add` returns True."""


class Decoder:
    """Decoder of messages in the order of the server, starting at the begin of a transaction."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._relations: dict[int, tuple[Relation, Rows | None]] = {}
        self._sequence = 0
        self._taken = False

    def feed(self, data: bytes) -> None:
        """Decode one message."""
        kind = data[0]
        if kind in (_INSERT, _UPDATE, _DELETE):
            # Skipped changes count too, so that numbers do not depend on the declaration.
            self._sequence += 1
            relation, rows = self._relations[_NUMBER(data, 1)[0]]
            if rows is not None and self._taken:
                self._change(kind, data, relation, rows)
        elif kind == _BEGINS:
            commit_lsn, microseconds, xid = _BEGIN(data, 1)
            committed_at = f"{(_EPOCH + timedelta(microseconds=microseconds)).replace(tzinfo=None)}"
            self._sequence = 0
            self._taken = self._receiver.begin(commit_lsn, committed_at, xid)
        elif kind == _RELATION:
            relation = _relation(data)
            self._relations[_NUMBER(data, 1)[0]] = relation, self._receiver.relation(relation)
        elif kind == _TRUNCATE:
            self._truncate(data)

    def _change(self, kind: int, data: bytes, relation: Relation, rows: Rows) -> None:
        before: list[bytes | None] = []
        at = 5
        has_before = data[at] in (_KEY, _OLD)
        if has_before:
            before, at = _values(data, at + 1)
        if kind == _DELETE:
            op = "d"
            for column, value in zip(rows.values, before, strict=True):
                column.append(value)
            missing: Sequence[int] = () if data[5] == _OLD else _others(relation)
            before = []
        else:
            op = "i" if kind == _INSERT else "u"
            missing = _append(data, at + 3, rows.values)  # behind N and the number of columns
            if missing and relation.is_full and before:
                for place in missing:
                    rows.values[place][-1] = before[place]
                missing = ()
        for place, column in rows.old:
            column.append(before[place] if before else None)
        if rows.add(op, self._sequence, missing, len(data)):
            self._receiver.write()

    def _truncate(self, data: bytes) -> None:
        for number in range(_NUMBER(data, 1)[0]):
            self._sequence += 1
            relation, rows = self._relations[_NUMBER(data, 6 + 4 * number)[0]]
            if rows is None or not self._taken:
                continue
            for column in rows.values:
                column.append(None)
            for _, column in rows.old:
                column.append(None)
            rows.add("t", self._sequence, range(len(relation.columns)), len(data))


def changed_tables(messages: Iterable[bytes], start: int) -> Iterator[int]:
    """Yield the number of the table for each change that was committed at or after a position."""
    is_taken = False
    for data in messages:
        kind = data[0]
        if kind == _BEGINS:
            is_taken = _BEGIN(data, 1)[0] >= start
        elif is_taken and kind in (_INSERT, _UPDATE, _DELETE):
            yield _NUMBER(data, 1)[0]
        elif is_taken and kind == _TRUNCATE:
            yield from (_NUMBER(data, 6 + 4 * number)[0] for number in range(_NUMBER(data, 1)[0]))


def _append(data: bytes, at: int, columns: Sequence[list[bytes | None]]) -> Sequence[int]:
    """Append the values of a row to columns; return the indexes of columns that it does not carry."""
    missing: list[int] | None = None
    for place, column in enumerate(columns):
        form = data[at]
        if form == _TEXT:
            start = at + 5
            at = start + _LENGTH(data, at + 1)[0]
            column.append(data[start:at])
            continue
        at += 1
        column.append(None)
        if form == _TOAST:
            missing = [*(missing or ()), place]
        elif form != _NULL:
            raise _unknown(form)
    return missing or ()


def _others(relation: Relation) -> Sequence[int]:
    """Return the indexes of the columns outside the identity."""
    return [place for place in range(len(relation.columns)) if place not in relation.keys]


def _values(data: bytes, at: int) -> tuple[list[bytes | None], int]:
    """Read a row; return its values and the offset after it."""
    found: list[bytes | None] = []
    count = _COUNT(data, at)[0]
    at += 2
    for _ in range(count):
        form = data[at]
        at += 1
        if form == _TEXT:
            start = at + 4
            at = start + _LENGTH(data, at)[0]
            found.append(data[start:at])
        elif form in (_NULL, _TOAST):
            found.append(None)
        else:
            raise _unknown(form)
    return found, at


def _relation(data: bytes) -> Relation:
    schema, at = _name(data, 5)
    name, at = _name(data, at)
    identity, count = chr(data[at]), _COUNT(data, at + 1)[0]
    at += 3
    columns, keys, types = [], [], []
    for place in range(count):
        if data[at] & 1:
            keys.append(place)
        column, at = _name(data, at + 1)
        columns.append(column)
        types.append(_TYPE(data, at))
        at += 8
    oid = _NUMBER(data, 1)[0]
    return Relation(schema or "pg_catalog", name, identity, tuple(columns), tuple(keys), tuple(types), oid)


def _name(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _unknown(form: int) -> ValueError:
    return ValueError(f"a value of the unknown form {form:#x}")
