"""The oracle against the acceptance cases that concern changes, and against the laws.

A change is drawn as ``I1a@5``: op, key, value and sequence; ``|`` stands between files.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.shifts import COLUMNS as SHIFTED
from tests.properties.shifts import changes_of, random_shifts, spoiled

from frazil.testing import (
    COLUMNS,
    Change,
    as_files,
    check_history,
    current,
    history,
    oracle_changes,
    random_history,
    soft,
)

SHOP = ("id", "seq", "value")


def changes(drawing: str) -> list[Change]:
    """Read drawn changes; their files are named f1, f2 … in the order of the drawing. ``D1/5@2``: source time 5."""
    read = []
    for number, file in enumerate(drawing.split("|"), start=1):
        for row, text in enumerate(file.split(), start=1):
            found = re.fullmatch(r"([IUD])(\d+)([a-z]?)(?:/([\d.]+))?@([\d.]+|-)", text)
            op, key, value, source, seq = found.groups()  # type: ignore[union-attr]
            order, told = None if seq == "-" else float(seq), float(source) if source else None
            values = {"id": int(key), "seq": order, "value": value or None}
            place = (f"1/f{number}/", row)
            read.append(Change((int(key),), (order,), *place, op == "D", values, order, told))
    return read


def hard(drawn: list[Change]) -> dict[int, str]:
    return {row["id"]: row["value"] for row in current(drawn, SHOP)}


def softly(drawn: list[Change]) -> dict[int, tuple[str, bool, float | None]]:
    return {row["id"]: (row["value"], row["is_deleted"], row["deleted_at"]) for row in soft(drawn, SHOP)}


def spans(drawn: list[Change], deletes: Any = "close") -> list[str]:
    """Draw a history as ``1a [1, 2)``, with ``x`` behind what is deleted."""
    rows = history(drawn, SHOP, ["value"], deletes)
    assert check_history(rows, ["id"]) == []
    ends = ["" if row["is_current"] else f"{row['valid_to']:g}" for row in rows]
    return [
        f"{row['id']}{row['value']} [{row['valid_from']:g}, {end})" + ("x" if row["is_deleted"] else "")
        for row, end in zip(rows, ends, strict=True)
    ]


def test_case_1_a_load_and_five_changes_give_the_last_state_of_each_key() -> None:
    drawn = changes("I100a@1 I101a@1 I102a@1 I103a@1 I104a@1 | I105a@2 U102b@3 D103@4 I106a@5 U102c@6")

    assert hard(drawn) == {100: "a", 101: "a", 102: "c", 104: "a", 105: "a", 106: "a"}
    assert softly(drawn)[103] == ("a", True, 4)
    assert [span for span in spans(drawn) if span.startswith("102")] == [
        "102a [1, 3)",
        "102b [3, 6)",
        "102c [6, )",
    ]


THREE = "I1a@1 U1b@2 U1c@3"


def test_case_2_every_change_of_a_file_is_a_version() -> None:
    assert hard(changes(THREE)) == {1: "c"}
    assert spans(changes(THREE)) == ["1a [1, 2)", "1b [2, 3)", "1c [3, )"]


def test_cases_3_and_4_files_in_reverse_order_change_nothing() -> None:
    drawn = changes("I1a@1 | U1b@2 | U1c@3")

    assert current(drawn[::-1], SHOP) == current(drawn, SHOP)
    assert spans(drawn[::-1]) == spans(drawn) == spans(changes(THREE))


def test_case_5_a_file_delivered_twice_is_one_file() -> None:
    assert current(changes(THREE) * 2, SHOP) == current(changes(THREE), SHOP)
    assert spans(changes(THREE) * 2) == spans(changes(THREE))


def test_case_6_a_file_delivered_again_under_another_name_gives_the_same_rows() -> None:
    assert hard(changes(f"{THREE} | {THREE}")) == hard(changes(THREE))
    assert spans(changes(f"{THREE} | {THREE}")) == spans(changes(THREE))


def test_case_7_a_late_update_does_not_bring_a_deleted_key_back() -> None:
    drawn = changes("I1a@1 D1@2 | U1x@1.5")

    assert hard(drawn) == {}
    assert softly(drawn) == {1: ("x", True, 2)}
    assert spans(drawn) == ["1a [1, 1.5)", "1x [1.5, 2)x"]


def test_case_8_a_delete_that_arrives_before_its_insert_still_deletes() -> None:
    drawn = changes("D1@2 | I1a@1")

    assert hard(drawn) == {}
    assert softly(drawn) == {1: ("a", True, 2)}


def test_case_9_a_key_that_comes_back_leaves_a_gap() -> None:
    drawn = changes("I1a@1 D1@2 I1b@3")

    assert hard(drawn) == {1: "b"}
    assert softly(drawn) == {1: ("b", False, None)}
    assert spans(drawn) == ["1a [1, 2)x", "1b [3, )"]
    assert spans(drawn, "mark") == ["1a [1, 2)", "1a [2, 3)x", "1b [3, )"]


def test_case_10_a_delete_of_an_unknown_key_makes_no_row() -> None:
    drawn = changes("D1@5")

    assert (current(drawn, SHOP), soft(drawn, SHOP), spans(drawn), spans(drawn, "mark")) == ([], [], [], [])


def test_case_11_an_update_of_an_unseen_key_inserts_it() -> None:
    assert hard(changes("U1b@2")) == {1: "b"}


def test_case_12_of_a_tie_in_one_file_the_later_row_wins() -> None:
    assert hard(changes("U1a@5 U1b@5")) == {1: "b"}
    assert spans(changes("U1a@5 U1b@5")) == ["1b [5, )"]


def test_case_13_of_a_tie_across_files_the_later_name_wins() -> None:
    drawn = changes("U1x@1 U1a@5 | U1b@5")

    assert hard(drawn) == hard(drawn[::-1]) == {1: "b"}


def test_case_14_a_delete_takes_its_place_in_a_tie_by_its_row() -> None:
    assert hard(changes("U1a@5 D1@5")) == {}
    assert hard(changes("D1@5 U1a@5")) == {1: "a"}


def test_case_15_changes_equal_in_everything_are_one() -> None:
    once = changes("U1a@5")

    assert current(once * 3, SHOP) == current(once, SHOP)


def test_case_16_one_place_with_two_contents_has_one_winner_whatever_comes_first() -> None:
    rewritten = changes("U1a@5") + changes("U1b@5")

    assert current(rewritten, SHOP) == current(rewritten[::-1], SHOP)


def test_case_17_a_change_without_effect_is_not_a_version_but_the_newest_change() -> None:
    drawn = changes("U1a@1 U1a@2")

    assert spans(drawn) == ["1a [1, )"]
    assert [row["_cdc_row"] for row in history(drawn, SHOP, ["value"])] == [2]
    assert current(drawn, SHOP)[0]["seq"] == 2


def test_case_18_a_change_of_key_closes_the_old_key() -> None:
    drawn = changes("I1a@1 | D1@2 I2a@2")

    assert hard(drawn) == {2: "a"}
    assert spans(drawn) == ["1a [1, 2)x", "2a [2, )"]


def test_case_20_a_column_that_is_not_carried_keeps_its_value_also_before_the_insert_arrives() -> None:
    insert, update, again = changes("I1a@1 U1b@2 U1c@4")
    patch = Change((1,), (3.0,), "1/f2/", 1, deleted=False, values={"id": 1, "seq": 3.0}, event_time=3.0)

    assert hard([patch, insert]) == hard([insert, patch]) == {1: "a"}
    assert hard([patch, update, insert]) == {1: "b"}
    assert spans([patch, again, update, insert]) == ["1a [1, 2)", "1b [2, 4)", "1c [4, )"]


def test_an_explicit_null_is_a_value_and_a_delete_ends_all_values() -> None:
    null = Change((1,), (3.0,), "1/f2/", 1, deleted=False, values={"id": 1, "seq": 3.0, "value": None}, event_time=3.0)
    patch = Change((1,), (4.0,), "1/f2/", 2, deleted=False, values={"id": 1, "seq": 4.0}, event_time=4.0)

    assert hard([*changes("I1a@1"), null, patch]) == {1: None}
    assert hard([*changes("I1a@1 D1@2"), patch]) == {1: None}


def test_the_payload_of_a_delete_is_never_used() -> None:
    drawn = changes("I1a@1 D1z@2")

    assert softly(drawn) == {1: ("a", True, 2)}
    assert spans(drawn, "mark") == ["1a [1, 2)", "1a [2, )x"]


def test_where_event_times_run_against_the_order_the_order_rules() -> None:
    first, second = changes("I1a@1 U1b@2")
    early = Change(second.key, second.sequence, second.position, 2, deleted=False, values=second.values, event_time=0.5)

    assert spans([first, early]) == ["1b [1, )"]


def test_deletes_in_a_row_are_one_and_keep_the_first() -> None:
    drawn = changes("I1a@1 D1@2 D1@3 | U1b@4 D1@4")

    assert spans(drawn) == ["1a [1, 2)x", "1b [4, 4)x"]
    assert spans(drawn, "mark") == ["1a [1, 2)", "1a [2, 4)x", "1b [4, 4)", "1b [4, )x"]
    assert softly(drawn) == {1: ("b", True, 4)}


def test_a_row_that_was_inserted_and_deleted_has_a_history() -> None:
    drawn = changes("I1a@5 D1@5")

    assert (spans(drawn), spans(drawn, "mark")) == (["1a [5, 5)x"], ["1a [5, 5)", "1a [5, )x"])
    assert softly(drawn) == {1: ("a", True, 5)}


def test_a_delete_never_removes_a_version() -> None:
    drawn = changes("I1a@1 U1b@2 D1@2 I1b@2 D1@2")

    assert spans(drawn) == ["1a [1, 2)", "1b [2, 2)x", "1b [2, 2)x"]
    assert spans(drawn, "mark") == ["1a [1, 2)", "1b [2, 2)", "1b [2, 2)x", "1b [2, 2)", "1b [2, )x"]


def test_a_delete_with_an_old_time_takes_the_time_of_its_source() -> None:
    drawn = changes("I1a@1 U1b@2 D1/5@2 | I2a@1 D2/0.5@1 | I3a@1 D3/9@2 | I4a@1 D4/9@1 U4b@3")

    assert spans(drawn) == ["1a [1, 2)", "1b [2, 5)x", "2a [1, 1)x", "3a [1, 2)x", "4a [1, 9)x", "4b [9, )"]
    assert softly(drawn) == {1: ("b", True, 5), 2: ("a", True, 1), 3: ("a", True, 2), 4: ("b", False, None)}
    assert spans(drawn, "mark")[1:3] == ["1b [2, 5)", "1b [5, )x"]


def test_a_broken_history_is_reported() -> None:
    sound = {"id": 1, "valid_from": 1, "valid_to": 3, "is_current": False, "is_deleted": False}

    assert check_history([sound, {**sound, "valid_from": 3, "valid_to": None, "is_current": True}], ["id"]) == []
    assert check_history([sound, {**sound, "valid_from": 2}], ["id"]) == ["(1,): the versions from 1 and 2 overlap"]
    assert check_history([{**sound, "valid_to": 1}], ["id"]) == ["(1,): the version from 1 ends at 1"]
    assert check_history([{**sound, "valid_to": 1, "is_deleted": True}], ["id"]) == []
    assert check_history([{**sound, "is_current": True}], ["id"]) == [
        "(1,): the version from 1 to 3 has the wrong is_current"
    ]


TRACKED = ["name", "qty", "note"]


def all_tables(stream: list[Change]) -> list[list[dict[str, Any]]]:
    names = list(COLUMNS)
    return [
        current(stream, names),
        soft(stream, names),
        history(stream, names, TRACKED),
        history(stream, names, TRACKED, "mark"),
    ]


@given(seed=st.integers(0, 10_000), shuffle=st.randoms(use_true_random=False), repeats=st.integers(1, 3))
def test_arrival_order_and_repeats_do_not_matter(seed: int, shuffle: Random, repeats: int) -> None:
    stream = oracle_changes(as_files(random_history(seed), seed, narrow=0.3))
    arrived = stream * repeats

    shuffle.shuffle(arrived)

    assert all_tables(arrived) == all_tables(stream)


@given(seed=st.integers(0, 10_000))
def test_the_tables_agree(seed: int) -> None:
    stream = oracle_changes(as_files(random_history(seed), seed, narrow=0.3))
    names = list(COLUMNS)

    hard_rows, soft_rows, closed, marked = all_tables(stream)

    def contract(rows: list[dict[str, Any]]) -> list[list[Any]]:
        return [[row[name] for name in names] for row in rows]

    live = [row for row in soft_rows if not row["is_deleted"]]
    assert contract(hard_rows) == contract(live)
    assert contract(hard_rows) == contract([row for row in closed if row["is_current"] and not row["is_deleted"]])
    assert contract(hard_rows) == contract([row for row in marked if row["is_current"] and not row["is_deleted"]])
    assert check_history(closed, ["id"]) == check_history(marked, ["id"]) == []


@pytest.mark.parametrize("deletes", ["close", "mark"])
def test_without_tracked_columns_a_life_is_one_version(deletes: Any) -> None:
    assert len([row for row in history(changes(THREE), SHOP, [], deletes) if not row["is_deleted"]]) == 1


def test_a_delete_without_sequence_is_ordered_by_its_place() -> None:
    """SEQUENCE-OF-DELETES: it comes after the changes of its key at earlier places, and before what is newer."""
    assert hard(changes("I1a@1 I2a@1 | D1@-")) == {2: "a"}
    assert hard(changes("U1a@5 U1b@3 D1@- I2a@9")) == {2: "a"}
    assert hard(changes("U1a@5 D1@- U1b@6")) == {1: "b"}
    assert hard(changes("D1@- U1a@1")) == {1: "a"}
    assert softly(changes("U1a@5 D1@- D1@-")) == {1: ("a", True, 5)}


@pytest.mark.parametrize("seed", range(200))
def test_rows_whose_keys_shift_are_where_the_source_has_them(seed: int) -> None:
    """KEY-CHANGE: shifts, swaps and cycles, whatever the order of their changes in a statement."""
    records, table = random_shifts(seed)

    assert {row["id"]: row["v"] for row in current(changes_of(records), SHIFTED)} == table


@pytest.mark.parametrize("bad_deletes", [True, False])
@pytest.mark.parametrize("seed", range(100))
def test_bad_changes_of_key_leave_no_other_row_wrong(seed: int, bad_deletes: bool) -> None:  # noqa: FBT001 - of a test
    """KEY-CHANGE and NOTHING-LOST: rows whose last record is sound are there, whatever is in quarantine."""
    records, _ = random_shifts(seed)
    bad, sound = spoiled(records, Random(seed))

    found = {row["id"]: row["v"] for row in current(changes_of(records, bad, bad_deletes=bad_deletes), SHIFTED)}

    assert {key: found.get(key) for key in sound} == sound
