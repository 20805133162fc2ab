"""A database by lot: rows that change their keys, values that no type has, and servers that move; and what it logs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

Key = tuple[int, int]
Row = dict[str, str | None]

COLUMNS: Final = ("at", "v", "n", "due", "big")
"""The columns beside the key: ``at`` is when the application says that it changed the row."""
BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
NO_NUMBER: Final = "no number"
NO_TIMES: Final = ("10000-01-01 00:00:00", "0000-00-00 00:00:00", "infinity", "30:15:00")
"""What is no time, though some database has it."""
_TEXTS: Final = (None, "", "ada", "Ünïcödé 🧊", "one, two", "NULL", "two\nlines")
_NUMBERS: Final = (None, "0", "-1", "2147483647")
_TIMES: Final = (
    None,
    "0001-01-01 00:00:00",
    "1969-12-31 23:59:59.999999999",
    "2026-03-29 02:30:00.1234567",
    "2026-01-01 00:00:00.123456",
    "9999-12-31 23:59:59.9999999",
)
_KEYS: Final = range(1, 7)
_STATEMENTS: Final = {"insert": 3, "update": 4, "delete": 2, "move": 1, "shift": 2, "cycle": 2}


@dataclass(slots=True)
class Server:
    """A server, and the next position in its log."""

    number: int
    file: int
    at: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A change of one row, or a truncate.

    Attributes:
        number: its place among all changes of the table.
        statement: the transaction.
        index: its place in that.
        server, file, at, begin: its position at the server that wrote it, and the begin of its transaction.
        op: ``I``, ``U``, ``D`` or ``T``.
        key, old_key: of the row after and before.
        time: when it was committed.
        row, before: all values after and before.
        carried: the columns that its record carries.
        spoiled: column whose text comes wrong -> that text.
        load: it is part of a copy of the whole table.
    """

    number: int
    statement: int
    index: int
    server: int
    file: int
    at: int
    begin: int
    op: str
    time: datetime
    key: Key = (0, 0)
    old_key: Key | None = None
    row: Row = field(default_factory=dict)
    before: Row = field(default_factory=dict)
    carried: tuple[str, ...] = ()
    spoiled: Row = field(default_factory=dict)
    load: bool = False

    @property
    def moves(self) -> bool:
        """Return whether the row has another key than before."""
        return self.op == "U" and self.old_key != self.key

    @property
    def texts(self) -> Row:
        """Return what its record carries of the row, as it comes."""
        return {name: self.row[name] for name in self.carried} | self.spoiled


@dataclass(kw_only=True)
class Database:
    """A table of some groups of rows; a statement changes rows of one group.

    Attributes:
        groups: the first parts of the keys.
        chance: the lot.
        server_moves, truncates, leaves_out, spoils: features of the table and of its records.
        rows: rows of the table.
        log: events in order.
    """

    groups: Sequence[int]
    chance: Random
    server_moves: bool = False
    truncates: bool = False
    leaves_out: bool = False
    spoils: bool = False
    rows: dict[Key, Row] = field(default_factory=dict)
    log: list[Logged] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    _time: datetime = BEGIN
    _statement: int = 0
    _servers: list[Server] = field(default_factory=list)

    def draw(self, statements: int) -> list[Logged]:
        """Let some statements happen; the first ones are the copy that a load brings."""
        self._here = self._server()
        for group in self.groups:
            self._begin()
            for key in self.chance.sample(_KEYS, self.chance.randint(0, 4)):
                self._write("I", (group, key), self._new_row(), load=True)
        for _ in range(statements):
            if self.server_moves and self.chance.random() < 0.12:
                self._move_server()
            self._begin()
            self._state()
        return self.log

    def _server(self) -> Server:
        self._servers.append(Server(len(self._servers) + 1, self.chance.randrange(5, 50)))
        return self._servers[-1]

    def _move_server(self) -> None:
        """Failover, failback, and ``RESET MASTER`` or a restore."""
        self.moved.append(len(self.log))
        match self.chance.randrange(3):
            case 0:
                self._here = self._server()
            case 1:
                self._here = self.chance.choice(self._servers)
            case _:
                self._here.file, self._here.at = max(self._here.file - self.chance.randrange(1, 9), 0), 0

    def _begin(self) -> None:
        self._time += timedelta(seconds=self.chance.randint(1, 60))
        self._statement += 1
        self._index, self._here.at = 0, self._here.at + 10
        self._first = self._here.at

    def _state(self) -> None:
        """Let one statement happen."""
        group = self.chance.choice(self.groups)
        keys = [key for key in self.rows if key[0] == group]
        free = [(group, key) for key in _KEYS if (group, key) not in self.rows]
        what = self.chance.choices([*_STATEMENTS], [*_STATEMENTS.values()])[0]
        if self.truncates and self.chance.random() < 0.03:
            self.rows.clear()
            self._write("T", (0, 0), {})
        elif what == "insert" or not keys:
            for key in self.chance.sample(free, min(len(free), self.chance.randint(1, 3))):
                self._write("I", key, self._new_row())
        elif what == "update":
            key = self.chance.choice(keys)
            self._write("U", key, self._changed(self.rows[key], self.chance.random() < 0.8), key)
        elif what == "delete":
            key = self.chance.choice(keys)
            self._write("D", key, {}, key)
        else:
            self._move_keys(what, keys, free)

    def _move_keys(self, what: str, keys: list[Key], free: list[Key]) -> None:
        """Change keys of some rows, in any order: a row may come to a key before the one that has it left."""
        if what == "move":
            moves = {self.chance.choice(keys): self.chance.choice(free)} if free else {}
        elif what == "shift":
            least, by = self.chance.choice(keys), self.chance.choice((1, 1, -1))
            moves = {key: (key[0], key[1] + by) for key in keys if (key >= least) == (by > 0) or len(keys) == 1}
        else:
            some = self.chance.sample(keys, self.chance.randint(1, len(keys)))
            moves = dict(pairwise([*some, some[0]])) if len(some) > 1 else {}
        if {*moves.values()} & ({*self.rows} - {*moves}):
            return
        moves_time = self.chance.random() < 0.6
        old = {key: self.rows.pop(key) for key in moves}
        self.chance.shuffle(order := [*moves.items()])
        changed = self.chance.random() < 0.3
        for before, after in order:
            row = self._changed(old[before], moves_time) if changed else self._stamped(old[before], moves_time)
            self._write("U", after, row, before, old[before])

    def _write(
        self, op: str, key: Key, row: Row, old_key: Key | None = None, before: Row | None = None, *, load: bool = False
    ) -> None:
        before = before or self.rows.get(key, {})
        if op == "D":
            del self.rows[key]
        elif op != "T":
            self.rows[key] = row
        carried = [*row]
        if self.leaves_out and op == "U":
            same = [name for name in row if name != "at" and row[name] == before.get(name)]
            left_out = self.chance.sample(same, self.chance.randint(0, len(same)))
            carried = [name for name in row if name not in left_out]
        spoiled = self._spoiled(carried) if self.spoils and op in "IU" and not load else {}
        self.log.append(
            Logged(
                number=len(self.log) + 1,
                statement=self._statement,
                index=self._index,
                server=self._here.number,
                file=self._here.file,
                at=self._here.at,
                begin=self._first - 5,
                op=op,
                time=self._time,
                key=key,
                old_key=old_key,
                row=row,
                before=before,
                carried=tuple(carried),
                spoiled=spoiled,
                load=load,
            )
        )
        self._index, self._here.at = self._index + 1, self._here.at + 10

    def _spoiled(self, carried: Sequence[str]) -> Row:
        if self.chance.random() > 0.08:
            return {}
        name = self.chance.choice(("n", "due"))
        return {name: NO_NUMBER if name == "n" else self.chance.choice(NO_TIMES)} if name in carried else {}

    def _new_row(self) -> Row:
        return {name: self._value(name) for name in COLUMNS}

    def _stamped(self, row: Row, moves_time: bool) -> Row:  # noqa: FBT001 - of what was drawn
        return {**row, "at": self._value("at")} if moves_time else dict(row)

    def _changed(self, row: Row, moves_time: bool) -> Row:  # noqa: FBT001 - as above
        rest = {name: self._value(name) for name in COLUMNS if name != "at" and self.chance.random() < 0.4}
        return self._stamped({**row, **rest}, moves_time)

    def _value(self, name: str) -> str | None:
        if name == "at":
            return f"{self._time:%Y-%m-%d %H:%M:%S.%f}"
        if name == "n":
            return self.chance.choice(_NUMBERS)
        return self.chance.choice(_TIMES if name == "due" else _TEXTS)
