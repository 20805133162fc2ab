"""Points in a table's past."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.iceberg.snapshot import BOOKMARK
from frazil.iceberg.time_travel import (
    AmbiguousPointError,
    ExpiredPointError,
    NotYetThereError,
    Point,
    PointError,
    read_point,
    snapshot_at,
    utc_text,
)

SECOND = 1000
"""Milliseconds."""


def table(*snapshots: tuple[int, int | None, int, int | None], log: dict[int, int], **tags: int) -> dict[str, Any]:
    """A table's metadata: snapshots as (id, parent, second, batch), and since which second which was the newest."""
    return {
        "snapshots": [
            {
                "snapshot-id": number,
                "parent-snapshot-id": parent,
                "timestamp-ms": second * SECOND,
                "summary": {} if batch is None else {BOOKMARK: f'{{"batch": {batch}}}'},
            }
            for number, parent, second, batch in snapshots
        ],
        "snapshot-log": [{"timestamp-ms": second * SECOND, "snapshot-id": of} for second, of in log.items()],
        "refs": {
            "main": {"snapshot-id": snapshots[-1][0], "type": "branch"},
            **{name: {"snapshot-id": of, "type": "tag"} for name, of in tags.items()},
        },
    }


THREE = table((1, None, 10, 1), (2, 1, 20, 2), (3, 2, 30, None), log={10: 1, 20: 2, 30: 3}, friday=2)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("2026-01-31", "2026-01-31 00:00:00Z"),
        ("2026-01-31 08:00", "2026-01-31 08:00:00Z"),
        ("2026-01-31T08:00:00.250Z", "2026-01-31 08:00:00.25Z"),
        ("2026-01-31 08:00+02:00", "2026-01-31 06:00:00Z"),
        ("time:2026-01-31 08:00:01-0130", "2026-01-31 09:30:01Z"),
    ],
)
def test_a_time_is_in_utc_unless_it_has_an_offset(text: str, means: str) -> None:
    point = read_point(text)

    assert point.kind == "time"
    assert utc_text(point.moment) == means
    assert read_point(means).moment == point.moment


def test_snapshots_cuts_and_batches_are_distinguished() -> None:
    assert read_point("8002271764081129268") == Point("snapshot", "8002271764081129268")
    assert read_point("friday", {"friday"}) == Point("cut", "friday")
    assert read_point("batch:12") == Point("batch", "12")


@pytest.mark.parametrize("text", ["2026-01-31", "12"])
def test_a_text_that_means_two_points_is_refused_until_its_kind_is_said(text: str) -> None:
    with pytest.raises(AmbiguousPointError, match=f"cut:{text}"):
        read_point(text, {text})

    assert read_point(f"cut:{text}", {text}) == Point("cut", text)


@pytest.mark.parametrize(
    "text", ["", "frday", "2026-13-01", "2026-01-31 25:00", "batch:x", "snapshot:²", "cut:", "0001"]
)
def test_an_invalid_point_is_refused_with_the_valid_forms(text: str) -> None:
    if text == "0001":
        assert read_point(text) == Point("snapshot", text)
        return
    with pytest.raises(PointError, match=r"did you mean the cut 'friday'|a point is a time"):
        read_point(text, {"friday"})


@pytest.mark.parametrize(("second", "snapshot"), [(10, 1), (19, 1), (20, 2), (29, 2), (30, 3), (99, 3)])
def test_a_time_means_what_readers_saw_then(second: int, snapshot: int) -> None:
    assert snapshot_at("t", THREE, Point("time", f"1970-01-01 00:00:{second:02}" if second < 60 else "1970-01-02")) == (
        snapshot
    )


def test_a_table_that_was_rolled_back_is_what_readers_saw() -> None:
    rolled = table((1, None, 10, 1), (2, 1, 20, 2), log={10: 1, 20: 2, 30: 1})

    found = [snapshot_at("t", rolled, Point("time", f"1970-01-01 00:00:{second}")) for second in (15, 25, 35)]

    assert found == [1, 2, 1]


def test_a_cut_and_a_batch_name_their_snapshots_and_a_compaction_is_of_the_batch_below() -> None:
    assert snapshot_at("t", THREE, Point("cut", "friday")) == 2
    assert snapshot_at("t", THREE, Point("batch", "1")) == 1
    assert snapshot_at("t", THREE, Point("batch", "2")) == 3


def test_unreadable_points_have_different_errors() -> None:
    before = Point("time", "1970-01-01 00:00:05")
    expired = table((3, 2, 30, 3), log={30: 3})
    replaced = table((1, None, 2, 1), (2, None, 30, 1), log={30: 2})

    with pytest.raises(NotYetThereError, match=r"t was not there yet .*\n.*earliest time is 1970-01-01 00:00:10Z"):
        snapshot_at("t", THREE, before)
    with pytest.raises(ExpiredPointError, match=r"have expired\n.*earliest time is 1970-01-01 00:00:30Z"):
        snapshot_at("t", expired, before)
    with pytest.raises(ExpiredPointError, match=r"was replaced after .*\n.*the newest of then is 1:"):
        snapshot_at("t", replaced, before)
    with pytest.raises(NotYetThereError, match="has no snapshot"):
        snapshot_at("t", {}, before)
    with pytest.raises(PointError, match=r"no snapshot 7\n.*the newest of t are 3 .*, 2 .*, 1 "):
        snapshot_at("t", THREE, Point("snapshot", "7"))
    with pytest.raises(PointError, match=r"not part of the cut 'monday'\n.*it is part of friday"):
        snapshot_at("t", THREE, Point("cut", "monday"))
    with pytest.raises(PointError, match=r"no snapshot of batch 7.*\n.*its newest batches are 1, 2"):
        snapshot_at("t", THREE, Point("batch", "7"))
