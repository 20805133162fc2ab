"""Servers that wrote the records of each stream, collected before the begin of eras is known."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME_END: Final = "\n"
"""Separator between the name of a shard, or another part of a source, and the name of a stream."""

_SERVERS: Final = 50
_NO_OFFSETS: Final = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """Server and place of one record.

    Attributes:
        place: place in the database's log.
        micros: time of the write in microseconds since 1970; None if the record has none.
        server: server that wrote the record; None if the record does not name it.
        in_commit_order: True if the places of one server never go back from record to record.
    """

    place: str
    micros: int | None
    server: str | None
    in_commit_order: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Consecutive records of one stream from one server.

    Attributes:
        stream: topic and partition; empty for records without offsets.
        first, last: offsets of the first and the last record; without offsets their numbers in the file.
        begin, begin_micros: place and time of the first record.
        top, top_micros: greatest place and greatest time.
        servers: servers that the records name.
        in_commit_order: True if :attr:`Mark.in_commit_order` is True for all records.
    """

    stream: str
    first: int
    last: int
    begin: str
    begin_micros: int | None
    top: str
    top_micros: int | None
    servers: tuple[str, ...]
    in_commit_order: bool

    def joined(self, other: Span) -> Span:
        """Return both as one span."""
        return replace(
            self,
            first=min(self.first, other.first),
            last=max(self.last, other.last),
            top=max(self.top, other.top),
            top_micros=max((one for one in (self.top_micros, other.top_micros) if one is not None), default=None),
            servers=tuple(dict.fromkeys((*self.servers, *other.servers)))[:_SERVERS],
            in_commit_order=self.in_commit_order and other.in_commit_order,
        )

    def moves_to(self, place: str, micros: int | None, servers: Sequence[str]) -> bool:
        """Return True if later records come from another server, or from the same one after its log started again.

        A repeated delivery goes back too, but has an older time and a known server. Without times, offsets decide: a
        repeated delivery ends with the newest records.

        Args:
            place: place of the later record.
            micros: its time in microseconds since 1970; None if it has none.
            servers: servers that it names.
        """
        if place >= self.top:
            return False
        is_newer = has_offsets(self.stream) if micros is None or self.top_micros is None else micros > self.top_micros
        return is_newer or bool(servers and self.servers and not {*servers} & {*self.servers})

    def moves_to_span(self, other: Span) -> bool:
        """Return True if a later span comes from another server, judged by its first or its greatest place."""
        return self.moves_to(other.begin, other.begin_micros, other.servers) or self.moves_to(
            other.top, other.top_micros, other.servers
        )


@dataclass(slots=True)
class Trail:
    """Collector of the spans of a file.

    Attributes:
        spans: stream -> its spans, newest last.
        tables: names of the tables that the records belong to.
    """

    spans: dict[str, list[Span]] = field(default_factory=dict)
    tables: dict[str, None] = field(default_factory=dict)

    def see(self, stream: str, offset: int | None, mark: Mark) -> None:
        """Add a record.

        Args:
            stream: topic and partition.
            offset: offset of the record; None if it has none, then records are ordered by their lines.
            mark: server and place of the record.
        """
        spans = self.spans.setdefault(stream, [])
        number = offset if offset is not None else (spans[-1].last + 1 if spans else 0)
        servers = () if mark.server is None else (mark.server,)
        one = Span(
            stream=stream,
            first=number,
            last=number,
            begin=mark.place,
            begin_micros=mark.micros,
            top=mark.place,
            top_micros=mark.micros,
            servers=servers,
            in_commit_order=mark.in_commit_order,
        )
        is_apart = bool(spans) and spans[-1].moves_to(mark.place, mark.micros, servers)
        if offset is None and is_apart:
            is_apart = is_certain(spans[-1], one)
        if not spans or number < spans[-1].last or is_apart:
            spans.append(one)
        else:
            spans[-1] = spans[-1].joined(one)

    def all(self) -> tuple[Span, ...]:
        """Return all spans."""
        return tuple(span for spans in self.spans.values() for span in spans)


def has_offsets(stream: str) -> bool:
    """Return True if the records of a stream have offsets."""
    return stream.rpartition(NAME_END)[2] != _NO_OFFSETS


def is_certain(one: Span, other: Span) -> bool:
    """Return True if a lower place proves a move: places out of commit order go back without one."""
    return one.in_commit_order and other.in_commit_order
