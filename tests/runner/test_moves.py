"""KEY-CHANGE: the changes of several keys that belong to one row."""

from __future__ import annotations

from frazil.runner.key_changes.moves import Move, Stretch, moves_of, stretches


def at(number: int) -> tuple[str, int]:
    return (f"1/{number:03}", 1)


def test_a_row_is_followed_from_key_to_key() -> None:
    moves = [Move(at(2), "b", "c"), Move(at(1), "a", "b")]

    assert stretches(moves) == [
        Stretch(0, "a", ("", 0), at(1)),
        Stretch(0, "b", at(1), at(2)),
        Stretch(0, "c", at(2), None),
    ]


def test_rows_that_change_keys_with_each_other_stay_apart() -> None:
    moves = [Move(at(1), "a", "aside"), Move(at(2), "b", "a"), Move(at(3), "aside", "b")]

    of_rows = {(one.number, one.key) for one in stretches(moves)}

    assert of_rows == {(0, "a"), (0, "aside"), (1, "b"), (1, "a"), (0, "b")}


def test_another_row_under_the_same_key_begins_where_the_first_left_it() -> None:
    moves = [Move(at(1), "a", "b"), Move(at(5), "a", "c")]

    assert [one for one in stretches(moves) if one.key == "a"] == [
        Stretch(0, "a", ("", 0), at(1)),
        Stretch(1, "a", at(1), at(5)),
    ]


def test_a_row_that_comes_to_a_key_ends_the_one_that_was_there() -> None:
    moves = [Move(at(1), "a", "b"), Move(at(5), "c", "b")]

    assert [one for one in stretches(moves) if one.key == "b"] == [
        Stretch(0, "b", at(1), at(5)),
        Stretch(1, "b", at(5), None),
    ]


def test_a_row_that_leaves_after_another_one_came_is_the_one_that_was_there_first() -> None:
    moves = [Move(at(1), "a", "b"), Move(at(5), "x", "b"), Move(at(6), "b", "c")]

    found = stretches(moves, {("b", at(6)): at(5)})

    of_key = {one.key: one.number for one in found if one.end is None}
    assert of_key["c"] == 0
    assert [one for one in found if one.key == "b"] == [Stretch(0, "b", at(1), at(5)), Stretch(1, "b", at(5), None)]


def test_it_is_so_too_where_the_other_one_came_with_all_of_its_columns() -> None:
    moves = [Move(at(1), "a", "b"), Move(at(6), "b", "c")]

    found = stretches(moves, {("b", at(6)): at(5)})

    assert [one for one in found if one.key == "b"] == [Stretch(0, "b", at(1), at(5))]
    assert [one.number for one in found if one.key == "c"] == [0]


def test_a_moved_row_is_distinguished_from_the_earlier_row_of_its_key() -> None:
    moves = [Move(at(5), "x", "b"), Move(at(6), "b", "c")]

    found = stretches(moves, {("b", at(6)): at(5)})

    assert {(one.number, one.key, one.start) for one in found if one.key != "x"} == {
        (1, "b", ("", 0)),
        (0, "b", at(5)),
        (1, "c", at(6)),
    }


def test_a_move_that_its_source_tells_again_is_one() -> None:
    told = [
        {"place": {"_cdc_position": f"1/{place}", "_cdc_row": 0}, "old": "a", "new": "b", "event": event}
        for place, event in (("5/2", "5"), ("5/1", "5"), ("6/3", "6"))
    ]

    assert sorted(moves_of(told)) == [Move(("1/5/1", 0), "a", "b"), Move(("1/6/3", 0), "a", "b")]
    assert len(moves_of([{**one, "event": None} for one in told])) == 3
