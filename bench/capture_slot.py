"""The slot that peers of Frazil read with its decoder: the newest change of every key, in memory."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from frazil.sources.postgres.landed.pgoutput import Decoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from frazil.sources.postgres.landed.pgoutput import Relation, Rows

COLUMNS: Final = ("id", "customer_id", "status", "amount", "note", "updated_at", "payload")
CREATE_SLOT: Final = "SELECT pg_create_logical_replication_slot('bench', 'pgoutput')"
_PEEK: Final = """\
SELECT data FROM pg_logical_slot_peek_binary_changes('bench', NULL, NULL, 'proto_version', '1', 'publication_names',
    'bench')"""


class _Newest:
    """Takes the changes of a slot, and keeps the newest of every key."""

    def __init__(self) -> None:
        self.values: list[list[bytes | None]] = [[] for _ in COLUMNS]
        self.old: list[tuple[int, list[bytes | None]]] = []
        self.ops: list[str] = []

    def begin(self, *_: object) -> bool:
        """Take every transaction."""
        return True

    def relation(self, relation: Relation) -> Rows | None:
        """Take the one table that is published."""
        del relation
        return self

    def add(self, op: str, *_: object) -> bool:
        """Keep what a change does."""
        self.ops.append(op)
        return False

    def write(self) -> None:
        """Do nothing: all is kept."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the newest change of every key as a row of Python values."""
        last = {key: place for place, key in enumerate(self.values[0])}
        for place in last.values():
            texts = [None if column[place] is None else bytes(column[place] or b"").decode() for column in self.values]
            yield dict(zip(COLUMNS, map(_value, COLUMNS, texts), strict=True)) | {"gone": self.ops[place] == "d"}


def read_slot(session: psycopg.Connection[Any]) -> Iterator[dict[str, Any]]:
    """Yield the newest change of every key in the slot, as rows of Python values."""
    newest = _Newest()
    decoder = Decoder(newest)
    with session.transaction(), session.cursor("peek", binary=True) as cursor:
        cursor.itersize = 10_000
        for (data,) in cursor.execute(_PEEK.encode()):
            decoder.feed(data)
    yield from newest.rows()


def _value(name: str, text: str | None) -> Any:
    if text is None:
        return None
    if name in {"id", "customer_id"}:
        return int(text)
    if name == "amount":
        return Decimal(text)
    return datetime.fromisoformat(text) if name == "updated_at" else text
