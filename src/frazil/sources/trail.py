"""What records tell of the servers that wrote them, stream by stream, before anybody knows where eras begin."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME_END: Final = "\n"
"""Ends the name of a shard or another part of a source before that of a stream."""

_SERVERS: Final = 50
_NO_OFFSETS: Final = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a record says of its server.

    Attributes:
        place: where it stood in its database.
        micros: when it was written there, in microseconds since 1970; None where it does not say.
        server: the server that wrote it; None where it does not say.
        in_commit_order: places of one server never go back from record to record.
    """

    place: str
    micros: int | None
    server: str | None
    in_commit_order: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Records of one stream, one behind the other, without a move among them.

    Attributes:
        stream: topic and partition; empty for records without offsets.
        first, last: offsets of the first and the last; without offsets their numbers.
        begin, begin_micros: place and time of the first.
        top, top_micros: greatest place and time.
        servers: those that are named.
        in_commit_order: as :class:`Mark` has it, of all.
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
        """Return whether later records are of another server, or of the same one that began again.

        A record that is delivered twice goes back, too: it has an older time, and a server that was seen. Where no time
        is told, an offset says enough: what is delivered twice ends with what is newest.
        """
        if place >= self.top:
            return False
        is_newer = has_offsets(self.stream) if micros is None or self.top_micros is None else micros > self.top_micros
        return is_newer or bool(servers and self.servers and not {*servers} & {*self.servers})

    def moves_to_span(self, other: Span) -> bool:
        """Return whether later records are of another server, by their first or their greatest place."""
        return self.moves_to(other.begin, other.begin_micros, other.servers) or self.moves_to(
            other.top, other.top_micros, other.servers
        )


@dataclass(slots=True)
class Trail:
    """Collects the spans of a file.

    Attributes:
        spans: stream -> its spans, the newest last.
    """

    spans: dict[str, list[Span]] = field(default_factory=dict)

    def see(self, stream: str, offset: int | None, mark: Mark) -> None:
        """Take a record; without offsets records are in the order of their lines."""
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
    """Return whether the records of a stream have offsets."""
    return stream.rpartition(NAME_END)[2] != _NO_OFFSETS


def is_certain(one: Span, other: Span) -> bool:
    """Return whether places that go back are a move: without commits in order they may go back by themselves."""
    return one.in_commit_order and other.in_commit_order
