"""Eras of a source: after a move to another server the places start again, while the offsets of the topic continue."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import HistoryChangedError
from frazil.sources.trail import NAME_END, Span, has_offsets, is_certain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from frazil.sources.base import NewFile

ERA: Final = "~"
"""Prefix of places from the second era on; it sorts after the digits and letters of the first era."""

ERAS: Final = "eras"
"""Key of bronze's bookmark."""

LAST: Final = 64
"""Era from which only offsets order records: this many moves mean that several servers share a topic."""

_SLASH: Final = "/"


class UnknownOrderError(HistoryChangedError):
    """A source moved to another server, and its records have no offsets to order them."""

    code = "FZ706"

    def __init__(self, table: str, before: str, behind: str) -> None:
        super().__init__(
            f"table {table!r}: the source moved to another server: the places of its records go back from {before} to "
            f"{behind}, and records without partition and offset have no other order; nothing was taken",
            hint="land the records with topic, partition and offset, in their order; or start over with the new "
            f"server: move the older files away, frazil drop --select {table}, let Debezium take a new snapshot, and "
            "frazil run",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """Files with known eras.

    Attributes:
        files: the files, with the offsets at which eras begin.
        kept: eras as plain values, for bronze's bookmark.
        moves: text with stream and offset of each new era.
    """

    files: tuple[NewFile, ...]
    kept: Mapping[str, Any]
    moves: tuple[str, ...] = ()


def follow(table: str, files: Sequence[NewFile], kept: Mapping[str, Any], *, stops: bool) -> Followed:
    """Find the begin of eras in new files.

    Args:
        table: name of the table.
        files: new files, in order.
        kept: ``kept`` of the previous batch's :class:`Followed`.
        stops: True if places order the changes of the table; a move that cannot be followed then stops the run.

    Raises:
        UnknownOrderError: a move has no offsets to order the records, or its records came too late to locate it.
    """
    eras = {stream: [_span(one) for one in spans] for stream, spans in kept.items()}
    known = {stream: len(spans) for stream, spans in eras.items()}
    for span in _in_order(files):
        if not _take(eras, span) and stops:
            before = next(iter(eras.get(span.stream) or _of_other_topics(eras, span)))
            raise UnknownOrderError(table, before.top, span.begin)
    turns = {stream: tuple(span.first for span in spans[1:]) for stream, spans in eras.items()}
    return Followed(
        files=tuple(replace(file, trail=(), turns=_turns_of(file, turns)) for file in files),
        kept={stream: [asdict(span) for span in spans] for stream, spans in eras.items()},
        moves=tuple(
            f"{stream.rpartition(NAME_END)[2].removeprefix(_SLASH)}, offset {first}"
            for stream, found in turns.items()
            for first in found[max(known.get(stream, 1) - 1, 0) :]
        ),
    )


def _in_order(files: Iterable[NewFile]) -> list[Span]:
    """Return the spans of files, ordered by stream and offset; streams without offsets keep the order of the files."""
    found = [replace(span, stream=f"{file.variant}{span.stream}") for file in files for span in file.trail]
    # The sort is stable.
    return sorted(found, key=lambda span: (span.stream, span.first if has_offsets(span.stream) else 0))


def _topic(stream: str) -> str:
    return stream.rpartition("/")[0]


def _of_other_topics(eras: Mapping[str, Sequence[Span]], span: Span) -> list[Span]:
    """Return the newest span of each other topic of the same source; offsets of different topics do not compare."""
    variant = span.stream.rpartition(NAME_END)[0]
    return [
        spans[-1]
        for stream, spans in eras.items()
        if stream.rpartition(NAME_END)[0] == variant and _topic(stream) != _topic(span.stream)
    ]


def _take(eras: dict[str, list[Span]], span: Span) -> bool:
    """Add a span to the eras of its stream; return False if its order is unknown."""
    known = eras.get(span.stream)
    if known is None:
        others = _of_other_topics(eras, span)
        eras[span.stream] = [span]
        return not any(_goes_back(other, span) for other in others)
    if not has_offsets(span.stream):
        is_known = not _goes_back(known[-1], span)
        known[-1] = known[-1].joined(replace(span, first=known[-1].last, last=known[-1].last))
        return is_known
    if span.first > known[-1].last:
        if len(known) <= LAST and known[-1].moves_to_span(span):
            known.append(span)
        else:
            known[-1] = known[-1].joined(span)
        return True
    at = max(bisect_right([one.first for one in known], span.first) - 1, 0)
    # Without times, records before or between known ones may have any place.
    is_known = span.begin_micros is None or not (
        span.moves_to_span(known[at])
        or known[at].moves_to_span(span)
        or (at + 1 < len(known) and _begins_after(span, known[at + 1]))
    )
    if is_known:
        known[at] = known[at].joined(span)
    return is_known


def _goes_back(one: Span, later: Span) -> bool:
    """Return True if later records of a stream without offsets come from another server.

    If places may go back without a move, all places must be lower.
    """
    if is_certain(one, later):
        return one.moves_to_span(later)
    return later.top < one.top and one.moves_to(later.begin, later.begin_micros, later.servers)


def _begins_after(one: Span, other: Span) -> bool:
    """Return True if the first record is newer than that of ``other``, as after a topic was recreated."""
    return one.begin_micros is not None and other.begin_micros is not None and one.begin_micros > other.begin_micros


def _turns_of(file: NewFile, turns: Mapping[str, tuple[int, ...]]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    streams = {span.stream: turns[f"{file.variant}{span.stream}"] for span in file.trail}
    return tuple((stream, found) for stream, found in streams.items() if found)


def place_in_era(turns: Sequence[int], offset: int, base: str | None, at: str) -> str:
    """Return the place of a record, ordered across all eras.

    Args:
        turns: offsets at which the second and later eras begin.
        offset: offset of the record.
        base: place of the record in its database; None if it has none.
        at: partition and offset of the record, as sortable text.
    """
    era = bisect_right(turns, offset)
    place = at if base is None or era >= LAST else f"{base}/{at}"
    return f"{ERA}{era:04}/{place}" if era else place


def without_era(place: str) -> str:
    """Write a place, SQL of one as positions have it, without its era."""
    return f"regexp_replace({place}, '^([^/]*/){ERA}[0-9]{{4}}/', '$1')"


def crosses_eras(kept: Mapping[str, Any]) -> bool:
    """Return whether one change may have records in different eras: in partitions of which one has moved.

    ``kept`` is from :class:`Followed`.
    """
    return len(kept) > 1 and any(len(spans) > 1 for spans in kept.values())


def _span(kept: Mapping[str, Any]) -> Span:
    return Span(**{**kept, "servers": tuple(kept["servers"])})


def moves_told(moves: Sequence[str]) -> list[str]:
    """Return a warning about moves to another server; empty without a move."""
    if not moves:
        return []
    text = (
        f"the source moved to another server, or began again, at partition {', '.join(moves)}: changes from there on "
        "are newer than all before. Deletes in between may be missing: frazil check --against DUMP finds them"
    )
    return [text]
