"""The columns that may be widened in existing tables without changing a row."""

from __future__ import annotations

import pytest

from frazil.plan.alterations import as_made, later_columns
from frazil.spec import AuditLog, Column, DmsFiles, Postgres, Table
from frazil.spec.model.types import Evolution, widens


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
    """A mart that a killed run left with floats must be rebuilt, although its column could be widened."""
    assert made(declared, present) == was


def test_types_that_iceberg_can_widen() -> None:
    assert widens("float", "DOUBLE")
    assert widens("decimal(8, 2)", "decimal(9,2)")
    assert not widens("int", "int")
    assert not widens("int", "decimal(20,0)")


BRONZE = {"fields": {"id": "int", "N": "int", "m": "int"}, "since": {"m": 3}}


@pytest.mark.parametrize(
    ("column", "batch", "is_later"),
    [
        ({"name": "w"}, 2, True),
        ({"name": "W", "nullable": False}, 2, False),
        ({"name": "w", "expr": "n + 1"}, 2, False),
        ({"name": "n"}, 2, False),
        ({"name": "*"}, 2, False),
        ({"name": "M"}, 2, True),
        ({"name": "M"}, 3, False),
        ({"name": "w", "accepted_values": ["a", "b"]}, 2, True),
    ],
)
def test_a_column_comes_later_than_rows_that_no_record_with_its_field_was_in(
    column: dict[str, object], batch: int, *, is_later: bool
) -> None:
    columns = (Column(name="id", type="int"), Column.model_validate({"type": "string", **column}))
    table = Table(name="t", source=DmsFiles(path=("x",)), keys=("id",), columns=columns)

    later = later_columns(table, BRONZE, {"batch": batch})

    assert later == ({columns[1].name.lower()} if is_later else set())
    assert as_made(table, {}, later).columns == (columns[:1] if is_later else columns)


def test_no_column_comes_later_where_a_record_without_it_waits() -> None:
    columns = (Column(name="id", type="int"), Column(name="w", type="int"))
    waits = Evolution(on_missing_column="quarantine")
    table = Table(name="t", source=DmsFiles(path=("x",)), keys=("id",), columns=columns, evolution=waits)

    assert later_columns(table, BRONZE, {"batch": 2}) == set()


@pytest.mark.parametrize(
    ("source", "column"),
    [
        (AuditLog(path=("x",), table="public.t"), "ingested_at"),
        (Postgres(url="${env:DB}", table="public.t", landing="./x"), "prev_id"),
        (Postgres(url="${env:DB}", table="public.t", landing="./x"), "__committed_at"),
    ],
)
def test_columns_that_the_source_makes_are_not_later_columns(source: AuditLog | Postgres, column: str) -> None:
    columns = (Column(name="id", type="int"), Column(name=column))
    table = Table(name="t", source=source, keys=("id",), columns=columns)

    assert later_columns(table, BRONZE, {"batch": 2}) == set()
