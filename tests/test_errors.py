"""Of several errors the worst decides how a command ends."""

from __future__ import annotations

import pytest

from frazil.errors import WORST_FIRST, FrazilError, worst_exit


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ((), 0),
        ((3,), 3),
        ((7, 3, 4), 4),
        ((4, 2), 2),
        ((2, 5), 5),
        ((5, 6, 3), 6),
        ((6, 8), 8),
        ((9, 8), 8),
        ((8, 1), 1),
    ],
)
def test_the_worst_is_what_a_person_is_needed_for_most(codes: tuple[int, ...], worst: int) -> None:
    assert worst_exit(codes) == worst
    assert worst_exit(reversed(codes)) == worst


def test_every_error_has_its_place() -> None:
    kinds, found = [FrazilError], set()
    while kinds:
        kind = kinds.pop()
        found.add(kind.exit_code)
        kinds += kind.__subclasses__()

    assert found <= {*WORST_FIRST}
