"""The drawings as values: the story of a key, the bitemporal square and the heat map."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from frazil.serve.key import KeyChange, KeyRecord, KeyStory
from frazil.serve.late import LateCell
from frazil.serve.quarantine import QuarantinedRecord
from frazil.ui.draw.charts import draw_heat
from frazil.ui.draw.scale import Scale
from frazil.ui.draw.square import draw_square
from frazil.ui.draw.timeline import MOST_DRAWN, Timeline, draw_timeline
from frazil.ui.pages.rows import marked


def day(number: int) -> dt.datetime:
    return dt.datetime(2026, 1, number, 8, tzinfo=dt.UTC)


def version(city: str, begin: int, end: int | None, known: tuple[int, int | None] = (1, None)) -> dict[str, Any]:
    since, until = known
    return {
        "id": 1,
        "city": city,
        "valid_from": day(begin),
        "valid_to": day(end) if end else None,
        "known_from": day(since),
        "known_to": day(until) if until else None,
        "is_deleted": False,
    }


def change(row: int, at: int, batch: int, *marks: Any) -> KeyChange:
    return KeyChange(
        kind="upsert", file="f", row=row, position="p", batch=batch, values={"id": 1}, marks=marks, at=day(at)
    )


def record(row: int, batch: int, quarantine: dict[str, Any] | None = None) -> KeyRecord:
    return KeyRecord(file="f", row=row, batch=batch, op="U", fields={}, quarantine=quarantine, arrived_at=day(9))


# 1 and 3 arrive in the first batch, 2 happened between them and arrives later; 4 is in quarantine.
STORY = KeyStory(
    table="hosts",
    key={"id": 1},
    records=(record(1, 1), record(3, 1), record(2, 2), record(4, 2, {"reason": "no number", "rule": "cast"})),
    changes=(change(1, 1, 1, "superseded"), change(2, 2, 2, "superseded", "late"), change(3, 3, 1, "winner")),
    marts={
        "marts.hosts": ({"id": 1, "city": "Oslo"},),
        "marts.hosts_history": (version("Rome", 1, 2), version("Bern", 2, 3), version("Oslo", 3, None)),
    },
    notes=(),
)


def drawn(story: KeyStory = STORY) -> Timeline:
    return draw_timeline(story, {"marts.hosts": "current"}, [("gold.sums", "marts.hosts")], {"id"})


def test_records_are_in_the_order_of_arrival_and_changes_in_that_of_the_source() -> None:
    found = drawn()

    assert [station.batch for station in found.stations] == [1, 2]
    assert [(dot.number, dot.kind) for dot in found.records] == [
        (0, "record"),
        (2, "record"),
        (1, "record"),
        (-1, "quar"),
    ]
    assert sorted(dot.x for dot in found.records) == [dot.x for dot in found.records]
    assert sorted(dot.x for dot in found.changes) == [dot.x for dot in found.changes]


def test_a_late_change_goes_back_in_time() -> None:
    found = drawn()

    assert [link.number for link in found.links if link.is_late] == [1]
    came, happened = found.records[2], found.changes[1]
    assert (came.number, came.x > happened.x) == (1, True)


def test_versions_are_bars_that_meet_and_the_last_one_is_open() -> None:
    current, history, gold = drawn().lanes

    assert [bar.label for bar in history.bars] == ["city Rome", "city Bern", "city Oslo"]
    assert [bar.is_open for bar in history.bars] == [False, False, True]
    assert [round(bar.x + bar.width + 2) for bar in history.bars[:2]] == [round(bar.x) for bar in history.bars[1:]]
    assert current.bars[0].colour == history.bars[2].colour
    assert (gold.bars, gold.name) == ((), "gold.sums")


def test_everything_is_within_the_drawing() -> None:
    many = tuple(change(row, 1 + row % 28, 1, "superseded") for row in range(500))
    story = KeyStory(table="t", key={}, records=(), changes=many, marts={}, notes=())

    found = drawn(story)

    assert (len(found.changes), found.is_cut) == (MOST_DRAWN, True)
    for dot in (*drawn().changes, *drawn().records):
        assert found.left <= dot.x <= found.right


def test_an_empty_story_is_drawn() -> None:
    found = drawn(KeyStory(table="t", key={}, records=(), changes=(), marts={"marts.t": ()}, notes=()))

    assert next(lane.words for lane in found.lanes) == "no row"


def test_close_times_stay_apart_on_the_axis() -> None:
    times = [day(1), day(1) + dt.timedelta(seconds=1), day(28) + dt.timedelta(days=9_000)]

    places = [*Scale.of(times, 0, 1_000).places.values()]

    assert places[1] - places[0] > 50
    assert places == sorted(places)


# Bern was corrected to Basel on day 5: both are true from day 2 on, and known one after the other.
SQUARE = (version("Rome", 1, 2), version("Bern", 2, None, (1, 5)), version("Basel", 2, None, (5, None)))


def test_a_point_of_the_square_has_one_answer() -> None:
    answers = {
        known: draw_square(SQUARE, day(2).isoformat(), day(known).isoformat(), {"id"}).answer for known in (1, 5)
    }

    assert {known: answer and answer["city"] for known, answer in answers.items()} == {1: "Bern", 5: "Basel"}


def test_the_square_begins_at_what_is_true_and_known_now() -> None:
    found = draw_square(SQUARE, "", "nonsense", {"id"})

    assert found.answer is not None
    assert found.answer["city"] == "Basel"
    assert len(found.cells) == 4
    assert [cell.is_chosen for cell in found.cells].count(True) == 1
    assert all(area.width > 1 and area.height > 1 for area in found.areas)


def test_the_heat_map_says_how_many_came_late() -> None:
    found = draw_heat(
        [
            LateCell(event_day=dt.date(2026, 1, 1), arrival_day=dt.date(2026, 1, 1), changes=30),
            LateCell(event_day=dt.date(2026, 1, 1), arrival_day=dt.date(2026, 1, 3), changes=10),
            LateCell(event_day=None, arrival_day=dt.date(2026, 1, 3), changes=0),
        ]
    )

    assert (found.share, [cell.is_late for cell in found.cells]) == (0.25, [False, True, False])
    assert [name for _, name in found.days] == ["2026-01-01", "no time"]


@pytest.mark.parametrize(
    ("raw", "parts"),
    [
        ('{"id":"4","price":"four"}', ['{"id":"4",', '"price":"four"', "}"]),
        ("4,hail,four", ["4,hail,", "four", ""]),
        ("four,four", ["four,four", "", ""]),
        (None, ["", "", ""]),
    ],
)
def test_the_wrong_value_of_a_record_is_marked(raw: str | None, parts: list[str]) -> None:
    bad = QuarantinedRecord(
        file="f",
        row=1,
        position="p",
        batch=1,
        rule="cast",
        reason="not exactly a decimal(10,2): four",
        column="price",
        raw=raw,
    )

    assert [*marked(bad)] == parts
