from __future__ import annotations

from functools import reduce
from itertools import product

import pytest

from frazil.errors import DeclarationError
from frazil.spec.model.types import SIMPLE, column_type, type_after


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
def test_type_names_of_other_databases_are_accepted(written: str, meant: str) -> None:
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
        ("map<string, int>", "write 'string', which keeps the JSON, or 'struct<name: type>'"),
        ("", "known are"),
    ],
)
def test_an_unknown_type_names_the_way_out(written: str, hint: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        column_type(written)

    assert f"'{written}'" in caught.value.message
    assert hint in (caught.value.hint or "")


KINDS = (
    "boolean",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(5,2)",
    "decimal(20,0)",
    "decimal(38,9)",
    "date",
    "string",
)


@pytest.mark.parametrize("one", KINDS)
def test_a_type_that_evolves_is_the_same_in_any_order_of_arrival(one: str) -> None:
    def evolved(*kinds: str) -> str:
        return reduce(lambda have, kind: type_after(have, kind, "evolve"), kinds)

    assert evolved(one, one) == one
    for two, three in product(KINDS, KINDS):
        assert evolved(one, two) == evolved(two, one)
        assert evolved(one, two, three) == evolved(three, two, one) == evolved(two, three, one)
        assert evolved(one, two, three, one, two) == evolved(one, two, three)


@pytest.mark.parametrize(
    ("have", "kind", "evolve", "quarantine"),
    [
        ("int", "bigint", "bigint", "bigint"),
        ("bigint", "int", "bigint", "bigint"),
        ("int", "decimal(5,2)", "decimal(12,2)", "int"),
        ("decimal(5,2)", "decimal(5,4)", "decimal(7,4)", "decimal(5,2)"),
        ("decimal(38,0)", "decimal(5,2)", "string", "decimal(38,0)"),
        ("int", "date", "string", "int"),
        ("float", "bigint", "string", "float"),
    ],
)
def test_a_type_that_evolves_holds_the_values_of_both(have: str, kind: str, evolve: str, quarantine: str) -> None:
    assert type_after(have, kind, "evolve") == evolve
    assert type_after(have, kind, "quarantine") == quarantine
    assert type_after(have, kind, "keep") == have


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ARRAY<Integer>", "array<int>"),
        ("array < array<varchar(3)> >", "array<array<string>>"),
        ("struct<a: int, B: numeric(10, 2)>", "struct<a:int,B:decimal(10,2)>"),
        ("struct<a int, b struct<c: text>>", "struct<a:int,b:struct<c:string>>"),
        ("array<struct<order: decimal(12,2), x: bytes>>", "array<struct<order:decimal(12,2),x:binary>>"),
    ],
)
def test_a_nested_type_has_one_name(written: str, meant: str) -> None:
    assert column_type(written) == meant
    assert column_type(meant) == meant


@pytest.mark.parametrize(
    "written",
    [
        "array",
        "array<>",
        "array<int",
        "array<nothing>",
        "array<int, int>",
        "struct<a>",
        "struct<a: int, A: int>",
        "struct<a-b: int>",
        "struct<a: int,>",
        "struct<`a`: int>",
        "array<map<string, int>>",
        "array<int>; DROP TABLE x",
    ],
)
def test_a_type_with_wrong_parts_is_refused(written: str) -> None:
    with pytest.raises(DeclarationError):
        column_type(written)
