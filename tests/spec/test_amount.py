"""Numbers as people read them."""

from __future__ import annotations

import pytest

from frazil.spec.amount import counted, sized


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (1_234_567, "1,234,567 files")]
)
def test_one_is_one_and_all_else_is_many(number: int, text: str) -> None:
    assert counted(number, "file") == text


def test_some_nouns_have_another_plural() -> None:
    assert (counted(1, "batch", "batches"), counted(3, "batch", "batches")) == ("1 batch", "3 batches")


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (28_949, "28.9 kB"),
        (999_949, "999.9 kB"),
        (999_951, "1.0 MB"),
        (3_400_000_000, "3.4 GB"),
        (5e15, "5000.0 TB"),
    ],
)
def test_sizes_have_the_unit_that_fits(size_bytes: float, text: str) -> None:
    assert sized(size_bytes) == text
