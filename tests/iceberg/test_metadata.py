"""The snapshots that may expire by Iceberg's rules."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.iceberg.metadata import expirable


def metadata(*times: int, refs: dict[str, dict[str, Any]] | None = None) -> dict[str, Any]:
    """A table whose snapshots 1, 2, … were made at these times, each out of the one before."""
    snapshots = [
        {"snapshot-id": number, "timestamp-ms": time, **({"parent-snapshot-id": number - 1} if number > 1 else {})}
        for number, time in enumerate(times, 1)
    ]
    main = {"type": "branch", "snapshot-id": len(times)}
    return {"snapshots": snapshots, "refs": {"main": main, **(refs or {})}, "last-updated-ms": max(times, default=0)}


@pytest.mark.parametrize(
    ("older_than", "retain_last", "gone"),
    [
        (0, 1, []),
        (25, 1, [10, 20]),
        (99, 1, [10, 20, 30]),  # the newest stays whatever its age
        (99, 2, [10, 20]),
        (99, 4, []),
        (20, 1, [10]),  # not older than itself
    ],
)
def test_old_snapshots_go_but_for_the_last(older_than: int, retain_last: int, gone: list[int]) -> None:
    assert expirable(metadata(10, 20, 30, 40), older_than_ms=older_than, retain_last=retain_last) == gone


def test_what_a_tag_names_stays_and_nothing_before_it() -> None:
    tagged = metadata(10, 20, 30, 40, refs={"kept": {"type": "tag", "snapshot-id": 2}})

    assert expirable(tagged, older_than_ms=99, retain_last=1) == [10, 30]


def test_a_branch_keeps_as_many_as_main_does() -> None:
    branched = metadata(10, 20, 30, 40, refs={"audit": {"type": "branch", "snapshot-id": 3}})

    assert expirable(branched, older_than_ms=99, retain_last=2) == [10]


def test_a_branch_with_numbers_of_its_own_keeps_by_them() -> None:
    own = {"type": "branch", "snapshot-id": 4, "min-snapshots-to-keep": 1, "max-snapshot-age-ms": 15}

    assert expirable(metadata(10, 20, 30, 40, refs={"main": own}), older_than_ms=99, retain_last=4) == [10, 20]


def test_a_table_without_a_snapshot_has_none_that_may_go() -> None:
    assert expirable({"snapshots": [], "refs": {}, "last-updated-ms": 5}, older_than_ms=99, retain_last=1) == []


def test_a_parent_that_is_gone_ends_the_line() -> None:
    cut_off = metadata(10, 20, 30)
    del cut_off["snapshots"][1]

    assert expirable(cut_off, older_than_ms=99, retain_last=3) == [10]
