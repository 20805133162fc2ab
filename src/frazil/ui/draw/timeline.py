"""The story of one key as a drawing: how it arrived, in which order it happened, and rows of tables as spans."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from frazil.ui.draw.scale import Scale, Tick
from frazil.ui.text import moment, value_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from frazil.serve.key import KeyChange, KeyRecord, KeyStory


WIDTH: Final = 1160
LEFT: Final = 190
RIGHT: Final = WIDTH - 12
_ARRIVED_Y: Final = 46
_ORDER_Y: Final = 168
_LANES_Y: Final = 214
_LANE: Final = 46
_BAR: Final = 28
_LETTER: Final = 6.6
_APART: Final = 15
MOST_DRAWN: Final = 80
"""So many of the last changes and records are drawn; the tables below have all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A record in the order of arrival, or a change in the order of the source; ``number`` joins the two."""

    number: int
    x: float
    y: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The way of a record to its place in the order; ``is_late`` if it came after a newer one."""

    number: int
    path: str
    is_late: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A row of a mart over the time in which it is valid."""

    x: float
    width: float
    colour: int
    label: str
    title: str
    is_open: bool
    is_deleted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A mart or an aggregate: bars, or words in place of them."""

    name: str
    note: str
    y: float
    bars: tuple[Bar, ...]
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """A batch in the order of arrival, between ``x`` and ``end``."""

    batch: int
    x: float
    end: float
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The whole drawing."""

    height: float
    ticks: tuple[Tick, ...]
    stations: tuple[Station, ...]
    records: tuple[Dot, ...]
    links: tuple[Link, ...]
    changes: tuple[Dot, ...]
    lanes: tuple[Lane, ...]
    is_cut: bool
    width: float = WIDTH
    left: float = LEFT
    right: float = RIGHT
    arrived_y: float = _ARRIVED_Y
    order_y: float = _ORDER_Y
    bar: float = _BAR


def draw_timeline(
    story: KeyStory, kinds: Mapping[str, str], readers: Sequence[tuple[str, str]], hidden: Collection[str]
) -> Timeline:
    """Draw the story of a key.

    Args:
        story: what the lake holds of it.
        kinds: name of each mart -> words for its kind.
        readers: aggregates, each with the mart that it reads.
        hidden: columns whose values say nothing new or must not be shown.
    """
    changes = story.changes[-MOST_DRAWN:]
    numbers = {(change.file, change.row): number for number, change in enumerate(changes)}
    records = _drawn_records(story, numbers)
    beliefs = {name: _believed(rows) for name, rows in story.marts.items()}
    spans = [row for rows in beliefs.values() for row in rows]
    times = [time for row in spans for name in ("valid_from", "valid_to") if (time := time_in(row, name))]
    scale = Scale.of([*times, *(change.at for change in changes if change.at)], LEFT, RIGHT)
    stations, dots = _arrivals(records, numbers)
    happened = _happened(changes, scale)
    lanes = _lanes(beliefs, kinds, scale, Palette.of(spans, hidden), changes)
    lanes += _gold(readers, len(lanes))
    return Timeline(
        height=_LANES_Y + _LANE * len(lanes) + 44,
        ticks=scale.ticks(),
        stations=stations,
        records=dots,
        links=_links(dots, happened, changes),
        changes=happened,
        lanes=tuple(lanes),
        is_cut=len(changes) < len(story.changes) or len(records) < len(story.records),
    )


def _drawn_records(story: KeyStory, numbers: Mapping[tuple[str, int], int]) -> list[KeyRecord]:
    """Return the records of the drawn changes, and the last ones that became no change, in the order of arrival."""
    without = [record for record in story.records if (record.file, record.row) not in numbers]
    last = [*map(id, without[-MOST_DRAWN // 2 :])]
    drawn = [one for one in story.records if (one.file, one.row) in numbers or (one.quarantine and id(one) in last)]
    return sorted(drawn, key=lambda record: record.batch)


def _believed(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that are believed now; only a bitemporal history has others."""
    return [row for row in rows if row.get("known_to") is None]


def _arrivals(
    records: Sequence[KeyRecord], numbers: Mapping[tuple[str, int], int]
) -> tuple[tuple[Station, ...], tuple[Dot, ...]]:
    batches = [*dict.fromkeys(record.batch for record in records)]
    if not batches:
        return (), ()
    counts = {batch: sum(record.batch == batch for record in records) for batch in batches}
    gap = 10
    free = RIGHT - LEFT - gap * (len(batches) - 1)
    widths = {batch: free * (1 + counts[batch]) / (len(records) + len(batches)) for batch in batches}
    stations, dots, x = [], [], float(LEFT)
    for batch in batches:
        mine = [record for record in records if record.batch == batch]
        at = next((record.arrived_at for record in mine if record.arrived_at), None)
        stations.append(Station(batch=batch, x=round(x, 1), end=round(x + widths[batch], 1), at=moment(at)[:19]))
        step = widths[batch] / (len(mine) + 1)
        for place, record in enumerate(mine, 1):
            number = numbers.get((record.file, record.row), -1)
            dots.append(
                Dot(
                    number=number,
                    x=round(x + step * place, 1),
                    y=_ARRIVED_Y,
                    kind="quar" if record.quarantine else "record",
                    title=_record_title(record),
                )
            )
        x += widths[batch] + gap
    return tuple(stations), tuple(dots)


def _record_title(record: KeyRecord) -> str:
    place = f"{record.file.rpartition('/')[2]} row {record.row}, batch {record.batch}"
    op = f"{record.op} in " if record.op else ""
    return f"{op}{place}" + (f": quarantined, {record.quarantine['reason']}" if record.quarantine else "")


def _happened(changes: Sequence[KeyChange], scale: Scale) -> tuple[Dot, ...]:
    """Place the changes: at their times, those of one time beside each other, those without a time at the end."""
    dots: list[Dot] = []
    taken: dict[float, int] = {}
    for number, change in enumerate(changes):
        base = scale.x(change.at, RIGHT - _APART * (len(changes) - number))
        before = taken.get(base, 0)
        taken[base] = before + 1
        at = moment(change.at) or "no time"
        dots.append(
            Dot(
                number=number,
                x=round(base + before * _APART, 1),
                y=_ORDER_Y,
                kind=" ".join([change.kind, *change.marks]),
                title=f"{change.kind} at {at}: {', '.join(change.marks)}, batch {change.batch}",
            )
        )
    return tuple(dots)


def _links(records: Sequence[Dot], changes: Sequence[Dot], told: Sequence[KeyChange]) -> tuple[Link, ...]:
    found = []
    top, bottom = _ARRIVED_Y + 9, _ORDER_Y - 11
    middle = (top + bottom) / 2
    for record in records:
        if record.number >= 0 and record.kind != "quar":
            x = changes[record.number].x
            path = f"M{record.x} {top}C{record.x} {middle} {x} {middle} {x} {bottom}"
            found.append(Link(number=record.number, path=path, is_late="late" in told[record.number].marks))
    return tuple(sorted(found, key=lambda link: link.is_late))


def _lanes(
    marts: Mapping[str, Sequence[Row]],
    kinds: Mapping[str, str],
    scale: Scale,
    palette: Palette,
    changes: Sequence[KeyChange],
) -> list[Lane]:
    lanes = []
    newest = next((change.at for change in reversed(changes) if change.at), None)
    for place, (name, rows) in enumerate(marts.items()):
        bars, before = [], None
        for row in rows:
            bars.append(_bar(row, before, newest, scale, palette))
            before = row
        words = "" if rows else "no row: the key is deleted" if changes else "no row"
        y = _LANES_Y + _LANE * place
        lanes.append(Lane(name=name, note=kinds.get(name, ""), y=y, bars=tuple(bars), words=words))
    return lanes


def _bar(row: Row, before: Row | None, newest: dt.datetime | None, scale: Scale, palette: Palette) -> Bar:
    is_version = "valid_from" in row
    begin = time_in(row, "valid_from") if is_version else newest
    finish = time_in(row, "valid_to") if is_version else None
    x = scale.x(begin, scale.begin)
    width = max(4.0, scale.x(finish, scale.end) - x - 2)
    words = palette.words(row, before)
    span = f"{moment(begin) or 'the begin'} to {moment(finish) or 'now'}"
    letters = int((width - 12) / _LETTER)
    return Bar(
        x=round(x, 1),
        width=round(width, 1),
        colour=palette.colour(row),
        label=words if len(words) <= letters else f"{words[: letters - 1]}…" if letters > _LEAST_LETTERS else "",
        title=f"{span}: {words}" if is_version else words,
        is_open=finish is None,
        is_deleted=bool(row.get("is_deleted")),
    )


_LEAST_LETTERS: Final = 4


def _gold(readers: Sequence[tuple[str, str]], before: int) -> list[Lane]:
    return [
        Lane(
            name=name,
            note="aggregate",
            y=_LANES_Y + _LANE * (before + place),
            bars=(),
            words=f"made of {mart}, refreshed as a whole",
        )
        for place, (name, mart) in enumerate(readers)
    ]


def mart_kind(kind: str, deletes: str, *, bitemporal: bool) -> str:
    """Return a few words for the kind of a mart."""
    return f"{kind}, bitemporal" if bitemporal else f"{kind}, deletes {deletes}"


Row: TypeAlias = "dict[str, Any]"

ADDED: Final = frozenset({"valid_from", "valid_to", "known_from", "known_to", "is_current", "is_deleted", "deleted_at"})
"""Columns that marts add."""
COLOURS: Final = 6
_WORDS: Final = 2


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours and words for the rows of one key.

    Attributes:
        columns: the columns whose values differ, or all if none do.
        known: values of these columns -> number of their colour.
    """

    columns: tuple[str, ...]
    known: dict[tuple[str, ...], int]

    @classmethod
    def of(cls, rows: Sequence[Row], hidden: Collection[str]) -> Palette:
        """Look at all rows of a key; ``hidden`` are keys, columns of the order and those with personal data."""
        names = [
            name
            for name in dict.fromkeys(name for row in rows for name in row)
            if name not in ADDED and name not in hidden and not name.startswith("_cdc_")
        ]
        varied = [name for name in names if len({value_text(row[name]) for row in rows if name in row}) > 1]
        return cls(columns=tuple(varied or names[:_WORDS]), known={})

    def colour(self, row: Row) -> int:
        """Return the number of a row's colour: equal values have one colour in all marts."""
        return self.known.setdefault(self._values(row), len(self.known)) % COLOURS

    def words(self, row: Row, before: Row | None = None) -> str:
        """Return the first values of a row that differ from the row before it."""
        new = [name for name in self.columns if name in row and (before is None or before.get(name) != row[name])]
        named = new or [name for name in self.columns if name in row]
        return " · ".join(f"{name} {value_text(row[name], 40)}" for name in named[:_WORDS])

    def _values(self, row: Row) -> tuple[str, ...]:
        return tuple(value_text(row.get(name)) for name in self.columns)


def time_in(row: Row, name: str) -> dt.datetime | None:
    """Return a time of a row in UTC; None where it has none."""
    value = row.get(name)
    if not isinstance(value, dt.datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=dt.UTC)
