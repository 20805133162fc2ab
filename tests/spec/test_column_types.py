from __future__ import annotations

import pytest

from frazil.errors import DeclarationError
from frazil.spec.types import SIMPLE, column_type


@pytest.mark.parametrize("name", [*SIMPLE, "decimal(12,2)"])
def test_every_type_has_its_own_name(name: str) -> None:
    assert column_type(name) == name


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("INTEGER", "int"),
        ("smallint", "int"),
        ("long", "bigint"),
        ("text", "string"),
        ("varchar", "string"),
        ("varchar(20)", "string"),
        ("CHAR (3)", "string"),
        ("datetime", "timestamp"),
        ("double  precision", "double"),
        ("bytea", "binary"),
        ("numeric(10, 2)", "decimal(10,2)"),
        ("DECIMAL( 38 )", "decimal(38,0)"),
    ],
)
def test_names_of_other_databases_stand_for_a_type(written: str, meant: str) -> None:
    assert column_type(written) == meant


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("integr", "did you mean 'integer'?"),
        ("timestmp", "did you mean 'timestamp'?"),
        ("geometry", "known are boolean, int,"),
        ("decimal", "write 'decimal(18,2)'"),
        ("decimal(39,2)", "p is 1 to 38"),
        ("decimal(5,6)", "s at most p"),
        ("array<int>", "known are"),
        ("", "known are"),
    ],
)
def test_an_unknown_type_names_the_way_out(written: str, hint: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        column_type(written)

    assert f"'{written}'" in caught.value.message
    assert hint in (caught.value.hint or "")
