"""How many hostile inputs and situations the tables have."""

from __future__ import annotations

from tests.hostile.commands import LINES, QUERIES
from tests.hostile.declarations import CONTENTS, EDITS
from tests.hostile.files import CSV, ENTRIES, OPEN, PARQUET, VALUES


def test_there_are_at_least_a_hundred_and_twenty_and_each_is_another() -> None:
    tables = (EDITS, CONTENTS, LINES, QUERIES, CSV, OPEN, PARQUET, VALUES, ENTRIES)

    assert len(set().union(*tables)) == sum(map(len, tables)) >= 120
