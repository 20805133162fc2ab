"""Fields become columns by a pure function of declaration and bookmarks."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.silver.evolution import evolved, later_fields, offered_types, renamed_bookmark, treated_otherwise
from frazil.spec import Column, DmsFiles, Table
from frazil.spec.model.types import Evolution

BRONZE = {"fields": dict.fromkeys(("Op", "id", "a", "B", "late"), "string"), "since": {"late": 3}, "batch": 3}


def a_table(*columns: str, policy: Any = None, **more: Any) -> Table:
    return Table(
        name="t",
        source=DmsFiles(path=("t",), header=True, op="Op"),
        keys=("id",),
        columns=tuple(Column(name=name) for name in columns) or None,
        evolution=Evolution(on_new_column=policy),
        **more,
    )


@pytest.mark.parametrize(
    ("table", "batch", "left_out", "blocked"),
    [
        (a_table(), 2, set(), set()),
        (a_table(policy="keep"), 2, {"late"}, set()),
        (a_table(policy="quarantine"), 2, {"late"}, {"late"}),
        # What is there when silver is made, and what it has taken, is no change.
        (a_table(policy="keep"), 0, set(), set()),
        (a_table(policy="quarantine"), 3, set(), set()),
        (a_table("id", "a"), 2, {"b", "late"}, set()),
        (a_table("id", "a", policy="evolve"), 2, {"b"}, set()),
        (a_table("id", "a", policy="evolve"), 0, {"b"}, set()),
        (a_table("id", "a", policy="quarantine"), 2, {"b", "late"}, {"late"}),
        (a_table("id", "late", policy="quarantine"), 2, {"a", "b"}, set()),
        (a_table("id", "*", policy="keep"), 2, {"late"}, set()),
        (a_table(policy="keep", renames={"a": "late"}), 2, set(), set()),
    ],
)
def test_fields_go_where_the_policy_says(table: Table, batch: int, left_out: set[str], blocked: set[str]) -> None:
    now = evolved(table, renamed_bookmark(table, BRONZE), {"batch": batch} if batch else {})

    assert (set(now.left_out), set(now.blocked)) == (left_out, blocked)


def test_evolve_takes_what_came_behind_the_first_file_also_before_it_was_said() -> None:
    named = [[("Op", "string"), ("id", "string")], [("id", "string"), ("Channel", "string")], []]
    bronze = {"fields": {"Op": "string", "id": "string", "Channel": "string"}, "later": later_fields(named), "batch": 1}
    kept = {"batch": 1, **evolved(a_table("id"), bronze, {}).in_bookmark()}

    now = evolved(a_table("id", policy="evolve"), bronze, kept)

    assert now.followed == {"channel"}
    assert treated_otherwise(now, kept) == "'channel' is a column now"


def after(table: Table, silver: dict[str, Any]) -> dict[str, Any]:
    """Return silver's bookmark once a table was brought level with bronze."""
    return {"batch": BRONZE["batch"], **evolved(table, BRONZE, silver).in_bookmark()}


def test_a_column_that_is_declared_no_more_is_left_out() -> None:
    before = after(a_table("id", "a", "B"), {"batch": 2})

    assert evolved(a_table("id", "a"), BRONZE, before).left_out == {"b", "late"}
    assert evolved(a_table("id"), BRONZE, before).left_out == {"a", "b", "late"}


@pytest.mark.parametrize("columns", [(), ("id", "a")])
def test_accepted_columns_stay_when_new_ones_are_left_out(columns: tuple[str, ...]) -> None:
    taken = after(a_table(*columns, policy="evolve"), {"batch": 2})

    for policy in ("keep", "quarantine", "fail"):
        table = a_table(*columns, policy=policy)
        assert "late" not in evolved(table, BRONZE, taken).left_out
        assert treated_otherwise(evolved(table, BRONZE, taken), taken) is None


@pytest.mark.parametrize("columns", [(), ("id", "a")])
def test_a_rebuild_takes_columns_that_were_left_out(columns: tuple[str, ...]) -> None:
    blocked = after(a_table(*columns, policy="quarantine"), {"batch": 2})

    now = evolved(a_table(*columns, policy="evolve"), BRONZE, blocked)
    assert treated_otherwise(now, blocked) == "'late' is a column now"
    assert "late" not in now.left_out
    passing = evolved(a_table(*columns, policy="keep"), BRONZE, blocked)
    assert treated_otherwise(passing, blocked) == "values of 'late' are let pass now"
    assert "late" in passing.left_out


def typed(policy: Any) -> Table:
    source = DmsFiles(path=("t",), header=True, op="Op")
    return Table(name="t", source=source, keys=("id",), evolution=Evolution(on_type_change=policy))


def retyped(kind: str, *offered: str) -> dict[str, Any]:
    return {"fields": {"id": "int", "N": kind}, "offered": {"N": [*offered]}, "batch": 2}


@pytest.mark.parametrize(
    ("policy", "kind", "offered", "waits", "types"),
    [
        ("quarantine", "decimal(12,2)", ["decimal(14,3)"], True, {}),
        ("keep", "int", ["bigint"], True, {}),
        ("fail", "int", ["bigint", "decimal(14,3)"], True, {}),
        ("quarantine", "int", ["bigint"], True, {"n": "bigint"}),
        ("evolve", "decimal(12,2)", ["decimal(14,3)"], True, {"n": "decimal(14,3)"}),
        ("evolve", "decimal(12,2)", ["decimal(12,4)", "decimal(14,3)"], True, {"n": "decimal(15,4)"}),
        # The same numbers: nothing is rewritten for them.
        ("evolve", "decimal(12,2)", ["decimal(14,3)"], False, {}),
        # A text such as 007 was taken as the number 7.
        ("evolve", "int", ["string"], False, {"n": "string"}),
    ],
)
def test_a_changed_policy_takes_the_types_that_came_before(
    *, policy: str, kind: str, offered: list[str], waits: bool, types: dict[str, str]
) -> None:
    silver = {"batch": 2, "refused": True} if waits else {"batch": 2}

    assert evolved(typed(policy), retyped(kind, *offered), silver).types == types


def test_a_type_that_evolve_made_stays_after_the_setting_is_set_back() -> None:
    bronze = retyped("decimal(12,2)", "decimal(14,3)")
    made = evolved(typed("evolve"), bronze, {"batch": 2, "refused": True}).in_bookmark()

    later = evolved(typed("quarantine"), bronze, {"batch": 3, **made})

    assert later.types == {"n": "decimal(14,3)"}
    assert later.offered == {}


def test_bronze_keeps_the_types_that_a_column_does_not_hold_the_newest_last() -> None:
    fields = {"id": "int", "N": "decimal(12,2)"}
    files = [[("n", kind)] for kind in ("decimal(14,3)", "decimal(10,2)", "string", "decimal(14,3)")]

    assert offered_types({}, files[1:2], fields) == {}
    assert offered_types({}, files, fields) == {"N": ["decimal(10,2)", "string", "decimal(14,3)"]}
    assert offered_types({"N": ["decimal(14,3)"]}, [], {"N": "decimal(14,3)"}) == {}
