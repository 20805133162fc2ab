"""Which columns may be wider than in the tables there are, without a row that changes."""

from __future__ import annotations

import pytest

from frazil.plan.widening import as_made
from frazil.spec import Column, DmsFiles, Table
from frazil.spec.types import widens


def made(kind: str, present: str) -> str:
    columns = (Column(name="id", type="int"), Column(name="n", type=kind))
    table = Table(name="t", source=DmsFiles(path=("x",)), keys=("id",), columns=columns)
    was = as_made(table, {"ID": "int", "N": present, "_cdc_row": "bigint"}).columns
    assert was is not None
    return was[1].type


@pytest.mark.parametrize(
    ("present", "declared", "was"),
    [
        ("int", "bigint", "int"),
        ("decimal(8, 2)", "decimal(20,2)", "decimal(8,2)"),
        ("float", "double", "double"),
        ("bigint", "int", "int"),
        ("int", "string", "string"),
        ("decimal(8,2)", "decimal(8,4)", "decimal(8,4)"),
        ("decimal(8,2)", "decimal(20,4)", "decimal(20,4)"),
    ],
)
def test_only_a_type_that_keeps_every_value_counts_as_what_was_declared(present: str, declared: str, was: str) -> None:
    """A mart that a killed run left with floats must be made anew, although its column could be widened."""
    assert made(declared, present) == was


def test_what_iceberg_can_widen() -> None:
    assert widens("float", "DOUBLE")
    assert widens("decimal(8, 2)", "decimal(9,2)")
    assert not widens("int", "int")
    assert not widens("int", "decimal(20,0)")
