"""Bronze that was read in another way than declared now is refused, before any step is planned."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.bronze.pii import BRONZE_MADE_BY, MADE_BY
from frazil.plan.checks import SourceChangedError
from frazil.plan.layout import BRONZE, QUARANTINE, SILVER
from frazil.plan.plan import warnings
from frazil.plan.state import TableState, table_state
from frazil.silver.contract import LAWS, declared
from frazil.sources.base import NewFile, SourceDelta
from frazil.sources.kinds import source_of
from frazil.spec import Column, Current, DmsFiles, Lake, Pipeline, Table
from frazil.spec.pii import TREATED, TREATING, declared_pii


def people(column: Column, **renames: str) -> Table:
    source = DmsFiles(path=("people",), header=True)
    columns = (Column(name="id", type="int"), column)
    return Table(name="t", source=source, keys=("id",), columns=columns, renames=renames, marts=(Current(),))


def offered(*fields: str) -> SourceDelta:
    columns = tuple((name, "string") for name in ("op", "id", *fields))
    file = NewFile(
        path="f",
        uri="f",
        name="f",
        size_bytes=1,
        modified_ns=1,
        load=False,
        position="1/f",
        sha256="0",
        columns=columns,
    )
    return SourceDelta(files=(file,))


def begin(
    before: Table, now: Table, *fields: str, new: SourceDelta, silver: dict[str, Any] | None = None, **more: object
) -> TableState:
    """Plan with a declaration, after bronze was read with another one; its files had some fields."""
    bronze = {
        "batch": 1,
        "fields": dict.fromkeys(("op", "id", *fields), "string"),
        "reading": {**source_of(before).reading(), **declared_pii(before)},
        **more,
    }
    pipeline = Pipeline(pipeline="p", lake=Lake(warehouse="lake"), tables=(now,))
    return table_state(
        pipeline,
        now,
        {
            BRONZE: bronze,
            SILVER: {} if silver is None else {**silver, "declared": declared(now)},
            QUARANTINE: {},
            "t": {},
        },
        new,
    )


@pytest.mark.parametrize(
    ("name", "field", "renames"),
    [
        ("email", "email", {}),
        ("email", "Email", {}),
        ("email", "mail", {"mail": "email"}),
        ("email", "Mail", {"mail": "Email"}),
        ("a:b", "a:b", {}),
        ("a: b", "a: b", {}),
    ],
)
def test_values_that_are_in_bronze_cannot_be_treated_otherwise(name: str, field: str, renames: dict[str, str]) -> None:
    """Clear values would stay beside hashed ones, whatever the source calls the column."""
    clear = people(Column(name=name, type="string"), **renames)
    hashed = people(Column(name=name, type="string", pii="hmac"), **renames)
    masked = people(Column(name=name, type="string", pii="mask"), **renames)

    for before, now in ((clear, hashed), (hashed, clear), (hashed, masked)):
        with pytest.raises(SourceChangedError, match="pii of its columns") as refused:
            begin(before, now, field, new=SourceDelta())
        assert "None" not in f"{refused.value}"
        assert ("frazil erase --select t --pii" in f"{refused.value.hint}") == (before is clear)


def test_a_field_that_is_renamed_to_a_treated_column_later_was_not_treated() -> None:
    """Field names count too, not only columns: otherwise old values would stay."""
    before, now = (
        people(Column(name="email", type="string", pii="hmac"), **names) for names in ({}, {"mail": "email"})
    )
    bookmark = {TREATED: {"email": "hmac"}}

    with pytest.raises(SourceChangedError, match="values of mail as they came"):
        begin(before, now, "email", "mail", new=SourceDelta(), **bookmark)
    assert begin(before, now, "email", "mail", new=SourceDelta(), **{TREATED: {"email": "hmac", "mail": "hmac"}})


def test_a_treated_column_can_be_called_otherwise() -> None:
    before = people(Column(name="email", type="string", pii="hmac"))
    now = people(Column(name="mail", type="string", pii="hmac"), email="mail")

    assert begin(before, now, "email", new=SourceDelta()).rebuilds == {}
    assert begin(before, now, "email", new=SourceDelta(), **{TREATED: {"email": "hmac"}}).rebuilds == {}


def test_silver_is_rebuilt_from_a_bronze_with_replaced_values() -> None:
    table = people(Column(name="email", type="string", pii="hmac"))
    replaced = {TREATED: {"email": "hmac"}, MADE_BY: "a treatment", TREATING: "a treatment"}

    state = begin(table, table, "email", new=SourceDelta(), silver={"batch": 1, "laws": LAWS}, **replaced)

    assert state.rebuilds[SILVER] == "personal data was replaced in bronze"
    assert "ends what was begun" in str(warnings(table, state))
    made = {"batch": 1, "laws": LAWS, BRONZE_MADE_BY: "a treatment"}
    assert SILVER not in begin(table, table, "email", new=SourceDelta(), silver=made, **replaced).rebuilds


def test_a_column_that_no_file_had_yet_can_be_given_any_treatment() -> None:
    clear, hashed = (people(Column(name="email", type="string", pii=pii)) for pii in (None, "hmac"))
    renamed = people(Column(name="email", type="string", pii="hmac"), mail="email")

    for before, now in ((clear, hashed), (hashed, clear), (clear, renamed)):
        new = offered("mail" if now.renames else "email")
        assert begin(before, now, "email_of_the_shop", new=new).taken is new
