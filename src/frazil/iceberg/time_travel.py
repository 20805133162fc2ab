"""Points in a table's past (a time, a snapshot, a cut or a batch), and the snapshot that was current then."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from frazil.errors import DeclarationError
from frazil.iceberg.snapshot import BOOKMARK, batch_at, known_snapshots

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

Kind: TypeAlias = Literal["time", "snapshot", "cut", "batch"]

KINDS: Final[tuple[Kind, ...]] = ("time", "snapshot", "cut", "batch")
FORMS: Final = "a time such as '2026-01-31 08:00' (UTC), a snapshot id, the name of a cut, or batch:N"

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_SHOWN: Final = 3


class PointError(DeclarationError):
    """A point in time that a table does not have."""

    code = "FZ180"


class AmbiguousPointError(PointError):
    """A text can mean two points."""

    code = "FZ181"


class NotYetThereError(PointError):
    """A table had no snapshot yet."""

    code = "FZ182"


class ExpiredPointError(PointError):
    """The snapshot of that time has expired, or can only be read by its id."""

    code = "FZ183"


@dataclass(frozen=True, slots=True)
class Point:
    """A point in the past.

    Attributes:
        kind: how the point is given.
        text: the time, id, name or number, without the kind as a prefix.
    """

    kind: Kind
    text: str

    @property
    def moment(self) -> datetime:
        """The time of a point that is one; without an offset it is in UTC."""
        moment = datetime.fromisoformat(self.text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)

    def __str__(self) -> str:
        """Return the point for people."""
        return utc_text(self.moment) if self.kind == "time" else f"{self.kind} {self.text}"


def read_point(text: str, cuts: Collection[str] = ()) -> Point:
    """Read a point from text; ``cuts`` are the names of the existing cuts.

    The text may begin with its kind: ``time:…``, ``snapshot:…``, ``cut:…``, ``batch:…``.

    Raises:
        AmbiguousPointError: the text is the name of a cut, and also a time or a snapshot.
        PointError: the text is not a point.
    """
    text = text.strip()
    before, colon, rest = text.partition(":")
    found: list[Point] = []
    if colon and before in KINDS:
        kind: Kind = before
        if _fits(kind, rest):
            return Point(kind, rest)
    else:
        found = [Point(kind, text) for kind in ("time", "snapshot") if _fits(kind, text)]
        found += [Point("cut", text)] if text in cuts else []
    if len(found) == 1:
        return found[0]
    if found:
        ways = " or ".join(f"{point.kind}:{text}" for point in found)
        raise AmbiguousPointError(f"'{text}' is a cut and a {found[0].kind} too", hint=f"write {ways}")
    near = get_close_matches(text, cuts, n=1)
    hint = f"did you mean the cut '{near[0]}'?" if near else f"a point is {FORMS}; frazil cut --list names the cuts"
    raise PointError(f"'{text}' is neither a point in time nor a cut", hint=hint)


def _fits(kind: Kind, text: str) -> bool:
    match kind:
        case "time":
            try:
                return bool(_TIME.fullmatch(text)) and bool(Point(kind, text).moment)
            except (ValueError, OverflowError):
                return False
        case "cut":
            return bool(text)
        case _:
            return text.isascii() and text.isdigit()


def tags_of(metadata: Mapping[str, Any]) -> dict[str, int]:
    """Return the tags of a table: name -> snapshot."""
    return {name: ref["snapshot-id"] for name, ref in metadata.get("refs", {}).items() if ref["type"] == "tag"}


def snapshot_at(table: str, metadata: Mapping[str, Any], point: Point) -> int:
    """Return the snapshot that was a table's current one at a point.

    Args:
        table: the table's name, for messages.
        metadata: the table's metadata, as Iceberg's table format has it.
        point: the point. A time means the rows that readers saw then, rollbacks included.

    Raises:
        NotYetThereError: the table had no snapshot then.
        ExpiredPointError: the snapshot has expired.
        PointError: the table does not have this snapshot, cut or batch.
    """
    match point.kind:
        case "time":
            return _at_time(table, metadata, point)
        case "cut":
            return _at_cut(table, metadata, point)
        case "snapshot":
            if int(point.text) in known_snapshots(metadata):
                return int(point.text)
            raise PointError(f"{table} has no snapshot {point.text}", hint=_newest(table, metadata))
        case "batch":
            return _at_batch(table, metadata, int(point.text))


def head_log(metadata: Mapping[str, Any]) -> list[tuple[datetime, int]]:
    """Return the known changes of a table's current snapshot, as (time, snapshot), oldest first."""
    return [(_moment(entry["timestamp-ms"]), entry["snapshot-id"]) for entry in metadata.get("snapshot-log", ())]


def batch_of(metadata: Mapping[str, Any], snapshot_id: int) -> int:
    """Return the batch in the bookmark of a snapshot or its nearest ancestor; 0 if none has a bookmark."""
    return batch_at(snapshot_id, known_snapshots(metadata).get)


def _at_time(table: str, metadata: Mapping[str, Any], point: Point) -> int:
    moment, log = point.moment, head_log(metadata)
    if before := [snapshot for since, snapshot in log if since <= moment]:
        return before[-1]
    known = known_snapshots(metadata)
    if not log:
        raise NotYetThereError(f"{table} has no snapshot", hint="frazil run writes it")
    since, first = log[0]
    hint = f"the earliest time is {utc_text(since)}"
    parent = known.get(first, {}).get("parent-snapshot-id")
    started = None if parent is None else known.get(parent)
    if parent is not None and started is None:
        raise ExpiredPointError(f"{table}: the snapshots of {point} have expired", hint=f"{hint}; or name a cut")
    # A first batch commits an empty snapshot and then one with rows. Earlier snapshots with a bookmark mean a replaced
    # table.
    older = [
        one
        for one in known.values()
        if BOOKMARK in one.get("summary", {}) and _moment(one["timestamp-ms"]) <= moment and one["snapshot-id"] != first
    ]
    if older:
        raise ExpiredPointError(
            f"{table} was replaced after {point}: what it was then is only known by snapshots",
            hint=f"the newest of then is {max(older, key=_written)['snapshot-id']}: --as-of takes it for one table",
        )
    raise NotYetThereError(f"{table} was not there yet at {point}", hint=hint)


def _at_cut(table: str, metadata: Mapping[str, Any], point: Point) -> int:
    tags = tags_of(metadata)
    if point.text in tags:
        return tags[point.text]
    near = ", ".join(sorted(tags)[:_SHOWN])
    raise PointError(
        f"{table} is not part of the cut '{point.text}'",
        hint=f"it is part of {near}" if near else "it was made after the cut, or the cut has other tables",
    )


def _at_batch(table: str, metadata: Mapping[str, Any], batch: int) -> int:
    known = known_snapshots(metadata)
    heads = [snapshot for _, snapshot in head_log(metadata) if snapshot in known]
    batches = {snapshot: batch_at(snapshot, known.get) for snapshot in heads}
    if found := [snapshot for snapshot in heads if batches[snapshot] == batch]:
        return found[-1]
    there = ", ".join(map(str, sorted({*batches.values()} - {0})[-_SHOWN:]))
    raise PointError(
        f"{table} has no snapshot of batch {batch}: it never had one, or it has expired",
        hint=f"its newest batches are {there}" if there else "frazil run writes it",
    )


def _newest(table: str, metadata: Mapping[str, Any]) -> str:
    log = list(reversed(head_log(metadata)[-_SHOWN:]))
    there = ", ".join(f"{snapshot} ({utc_text(since)})" for since, snapshot in log)
    return f"the newest of {table} are {there}" if there else "frazil run writes it"


def _written(snapshot: Mapping[str, Any]) -> int:
    return int(snapshot["timestamp-ms"])


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def utc_text(moment: datetime) -> str:
    """Return a time in UTC as :func:`read_point` reads it, without trailing zeros."""
    utc = moment.astimezone(UTC)
    return f"{utc:%Y-%m-%d %H:%M:%S}{f'.{utc.microsecond:06d}'.rstrip('0') if utc.microsecond else ''}Z"


def cut_names(metadata: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the names of all tags of some tables."""
    return {name for one in metadata for name in tags_of(one)}
