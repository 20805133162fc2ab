"""KEY-CHANGE: which changes of which keys are changes of one row."""

from __future__ import annotations

from frazil.engine.moves import Move, Stretch, stretches


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
