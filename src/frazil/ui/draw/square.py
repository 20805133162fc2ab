"""A bitemporal history of one key as a square: when it was true, from left to right; when it was known, upwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from frazil.ui.draw.scale import Scale, Tick
from frazil.ui.draw.timeline import Palette, Row, time_in
from frazil.ui.text import moment

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Collection, Sequence

WIDTH: Final = 660
HEIGHT: Final = 420
_LEFT: Final = 118
_TOP: Final = 12
_BOTTOM: Final = HEIGHT - 46
MOST_CELLS: Final = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """A row of the history: a rectangle of when it was true and when it was known."""

    x: float
    y: float
    width: float
    height: float
    colour: int
    label: str
    title: str
    is_deleted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A part of the square to click: all its points have one answer."""

    x: float
    y: float
    width: float
    height: float
    valid: str
    known: str
    title: str
    is_chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """The drawing, and the answer for the chosen point.

    Attributes:
        areas, cells: rectangles; no cells if they were too many to click.
        columns: labels of the valid times.
        lines: labels of the known times, each at its y.
        valid, known: the chosen point in words.
        answer: the row at the chosen point; None if nothing was true or known.
    """

    areas: tuple[Area, ...]
    cells: tuple[Cell, ...]
    columns: tuple[Tick, ...]
    lines: tuple[tuple[float, str], ...]
    valid: str
    known: str
    answer: Row | None
    width: float = WIDTH
    height: float = HEIGHT
    left: float = _LEFT
    top: float = _TOP
    bottom: float = _BOTTOM


def draw_square(rows: Sequence[Row], valid: str, known: str, hidden: Collection[str]) -> Square:
    """Draw the rows of a bitemporal history.

    Args:
        rows: all rows of one key, with ``valid_from``, ``valid_to``, ``known_from`` and ``known_to``.
        valid: when the chosen point is true, as ISO text; anything else means now.
        known: when it is known, likewise.
        hidden: columns whose values say nothing new or must not be shown.
    """
    true_times = _times(rows, "valid_from", "valid_to")
    known_times = _times(rows, "known_from", "known_to")
    x = Scale.of(true_times, _LEFT, WIDTH - 8, lead=40, room=130)
    y = Scale.of(known_times, 0, _BOTTOM - _TOP, lead=34, room=90)
    at = _chosen(true_times, valid), _chosen(known_times, known)
    palette = Palette.of(rows, hidden)
    return Square(
        areas=tuple(_area(row, x, y, palette) for row in rows),
        cells=_cells(true_times, known_times, x, y, at),
        columns=x.ticks(),
        lines=tuple((round(_BOTTOM - place, 1), moment(time)[:19]) for time, place in y.places.items()),
        valid=moment(at[0]) or "the begin",
        known=moment(at[1]) or "the begin",
        answer=next((row for row in rows if _holds(row, *at)), None),
    )


def _times(rows: Sequence[Row], *names: str) -> list[dt.datetime]:
    return sorted({time for row in rows for name in names if (time := time_in(row, name)) is not None})


def _chosen(times: Sequence[dt.datetime], text: str) -> dt.datetime | None:
    """Return the begin of the part that a text names; the last one without a text."""
    return next((time for time in times if time.isoformat() == text), times[-1] if times else None)


def _holds(row: Row, valid: dt.datetime | None, known: dt.datetime | None) -> bool:
    return _is_within(row, "valid", valid) and _is_within(row, "known", known)


def _is_within(row: Row, name: str, at: dt.datetime | None) -> bool:
    begin, end = time_in(row, f"{name}_from"), time_in(row, f"{name}_to")
    if at is None:
        return begin is None
    return (begin is None or begin <= at) and (end is None or at < end)


def _area(row: Row, x: Scale, y: Scale, palette: Palette) -> Area:
    left, right = x.x(time_in(row, "valid_from"), x.begin), x.x(time_in(row, "valid_to"), x.end)
    low, high = y.x(time_in(row, "known_from"), y.begin), y.x(time_in(row, "known_to"), y.end)
    words = palette.words(row)
    letters = int((right - left - 14) / 6.6)
    return Area(
        x=left,
        y=round(_BOTTOM - high, 1),
        width=round(max(1.0, right - left), 1),
        height=round(max(1.0, high - low), 1),
        colour=palette.colour(row),
        label=words if len(words) <= letters else f"{words[: letters - 1]}…" if letters > 3 else "",  # noqa: PLR2004
        title=words,
        is_deleted=bool(row.get("is_deleted")),
    )


def _cells(
    valid: Sequence[dt.datetime], known: Sequence[dt.datetime], x: Scale, y: Scale, at: tuple[dt.datetime | None, ...]
) -> tuple[Cell, ...]:
    if len(valid) * len(known) > MOST_CELLS:
        return ()
    found = []
    for place, then in enumerate(known):
        low = y.places[then]
        high = y.places[known[place + 1]] if place + 1 < len(known) else y.end
        for number, time in enumerate(valid):
            left = x.places[time]
            right = x.places[valid[number + 1]] if number + 1 < len(valid) else x.end
            found.append(
                Cell(
                    x=left,
                    y=round(_BOTTOM - high, 1),
                    width=round(right - left, 1),
                    height=round(high - low, 1),
                    valid=time.isoformat(),
                    known=then.isoformat(),
                    title=f"true at {moment(time)}, as known at {moment(then)[:19]}",
                    is_chosen=(time, then) == at,
                )
            )
    return tuple(found)
