"""The type that fits all values of a field exactly."""

from __future__ import annotations

import pytest

from frazil.sources.dms.guess import type_of


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ("0 -7 2147483647", "int"),
        ("2147483648", "bigint"),
        ("9223372036854775808", "decimal(38,0)"),
        ("9" * 39, "string"),
        ("007", "string"),
        ("+7", "string"),
        ("-0", "string"),
        ("-0.0", "string"),
        ("1 2.50", "decimal(18,2)"),
        ("0.0000000000000000001", "decimal(38,19)"),
        ("1e5", "string"),
        ("true FALSE", "boolean"),
        ("2024-02-29", "date"),
        ("2023-02-29", "string"),
        ("2024-02-29T10:00:00Z", "timestamp"),
        ("2024-02-29T10:00:00.123456+01:00", "timestamp"),
        ("2024-02-29T10:00:00.1234567", "string"),
        ("2024-02-29T24:00:00", "string"),
        ("2024-02-29 2024-02-29T10:00:00", "string"),
        ("1 x", "string"),
        ("", "string"),
    ],
)
def test_a_type_fits_every_value_exactly(values: str, kind: str) -> None:
    assert type_of(values.split()) == kind
