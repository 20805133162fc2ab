"""How many hostile inputs and situations the tables have."""

from __future__ import annotations

from tests.hostile.commands import LINES, QUERIES
from tests.hostile.declarations import CONTENTS, EDITS
from tests.hostile.files import CSV, ENTRIES, OPEN, PARQUET, VALUES
from tests.hostile.row_events import EVENTS
from tests.hostile.row_stories import ORDERED, PLACED


def test_there_are_at_least_three_hundred_and_each_is_another() -> None:
    tables = (EDITS, CONTENTS, LINES, QUERIES, CSV, OPEN, PARQUET, VALUES, ENTRIES, ORDERED, PLACED)

    names = {story.name for story in EVENTS}  # events have values that no set can hold
    assert len(names) == len(EVENTS)
    assert len(set().union(*tables)) == sum(map(len, tables)) >= 320 - len(names)
