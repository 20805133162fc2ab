from __future__ import annotations

import pytest

from frazil.errors import DeclarationError
from frazil.spec.model.mart import Transform, partition_transform


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("city", Transform("identity", "city")),
        ("year", Transform("identity", "year")),
        ("year(ts)", Transform("year", "ts")),
        ("Months( ts )", Transform("month", "ts")),
        ("days(ts)", Transform("day", "ts")),
        ("hour(ts)", Transform("hour", "ts")),
        ("bucket(16, id)", Transform("bucket", "id", 16)),
        ("truncate(4,name)", Transform("truncate", "name", 4)),
        ("`a, (b)`", Transform("identity", "a, (b)")),
        ("day(`a ``b`)", Transform("day", "a `b")),
    ],
)
def test_a_transform_is_taken_apart(written: str, meant: Transform) -> None:
    assert partition_transform(written) == meant


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("dya(ts)", "did you mean 'day'?"),
        ("lower(name)", "bucket(n, c)"),
        ("bucket(id, 16)", "write bucket(16, column)"),
        ("bucket(0, id)", "write bucket(16, column)"),
        ("truncate(id)", "write truncate(16, column)"),
        ("day()", "write a column"),
        ("day(a, b)", "write a column"),
        ("", "write a column"),
    ],
)
def test_an_invalid_transform_shows_the_valid_form(written: str, hint: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        partition_transform(written)

    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("written", "accepted", "refused"),
    [
        ("c", "string", "double"),
        ("day(c)", "date", "string"),
        ("hour(c)", "timestamp", "date"),
        ("bucket(4, c)", "decimal(4,2)", "boolean"),
        ("truncate(4, c)", "bigint", "timestamp"),
    ],
)
def test_a_transform_goes_with_some_types_only(written: str, accepted: str, refused: str) -> None:
    transform = partition_transform(written)

    assert transform.accepts(accepted)
    assert not transform.accepts(refused)
