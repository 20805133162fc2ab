"""The table of docs/engines.md is what ``python -m bench.engines`` has written, and leaves nothing out."""

from __future__ import annotations

from bench.engines.kinds import ENGINES, KINDS, TRIED
from bench.engines.page import PAGE, kept, rendered, shown


def test_the_page_shows_what_is_kept() -> None:
    assert shown(PAGE.read_text(encoding="utf-8")) == rendered(kept())


def test_every_engine_was_tried_with_every_lake_and_says_why_where_it_is_not_yes() -> None:
    lakes = kept()["lakes"]

    assert {*lakes} == {kind.name for kind in KINDS}
    for lake in lakes.values():
        assert {engine: {*cells} for engine, cells in lake["cells"].items()} == {one: {*TRIED} for one in ENGINES}
        for cells in lake["cells"].values():
            for outcome, why in cells.values():
                assert outcome in {"yes", "no", "not tried", "—"}
                assert (outcome == "yes") == (not why)


def test_format_versions_with_the_same_outcomes_share_a_line_and_reasons_are_notes() -> None:
    yes, no = ["yes", ""], ["no", "it reads no deletion vectors"]

    def lake(version: int, read: list[str]) -> dict[str, object]:
        cells = {engine: dict.fromkeys(TRIED, yes) for engine in ENGINES}
        cells["trino"] = cells["trino"] | {"read": read}
        return {"catalog": "SQLite", "store": "disk", "format": version, "cells": cells}

    lakes = {"sqlite-disk-2": lake(2, yes), "sqlite-disk-3": lake(3, no)}
    text = rendered({"date": "2026-01-01", "versions": {one: f"{one} 1" for one in ENGINES}, "lakes": lakes})

    assert [line for line in text.splitlines() if line.startswith(("| spark", "| trino"))] == [
        "| spark 1 | SQLite | disk | 2, 3 | yes | yes | yes | yes |",
        "| trino 1 | SQLite | disk | 2 | yes | yes | yes | yes |",
        "| trino 1 | SQLite | disk | 3 | no (1) | yes | yes | yes |",
    ]
    assert "\n1. it reads no deletion vectors.\n" in text
