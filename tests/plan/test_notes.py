"""What a plan draws attention to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from frazil.plan.plan import warnings
from frazil.plan.state import TableState
from frazil.runner.record import warn_of_late
from frazil.runner.report import MartReport, TableReport
from frazil.silver.contract import settle
from frazil.sources.base import NewFile, SourceDelta
from frazil.spec import Column, DmsFiles, Table

if TYPE_CHECKING:
    from collections.abc import Sequence


def a_table(*columns: Column, **source: Any) -> Table:
    return Table(name="t", source=DmsFiles(path=("t",), header=True, **source), keys=("id",), columns=columns or None)


def with_fields(table: Table, *names: str, known: Sequence[str] = ()) -> TableState:
    file = NewFile(
        path="f",
        uri="f",
        name="f",
        size_bytes=1,
        modified_ns=1,
        load=False,
        position="1/f",
        sha256="0",
        columns=tuple((name, "string") for name in names),
    )
    contract = settle(table, dict.fromkeys((*known, *names), "string"))
    return TableState(seen_fields=frozenset(known), taken=SourceDelta(files=(file, file)), contract=contract)


ID = Column(name="id", type="int")


@pytest.mark.parametrize(
    ("table", "fields", "known", "new"),
    [
        (a_table(ID), ("Op", "ID"), (), ()),
        (a_table(ID), ("op", "id", "Price", "note"), (), ("Price", "note")),
        (a_table(ID), ("op", "id", "Price", "note"), ("op", "id", "price"), ("note",)),
        (a_table(ID, Column(name="cents", expr="cast(Price * 100 as int)")), ("op", "id", "price"), (), ()),
        (a_table(ID, Column(name="*")), ("op", "id", "price"), (), ()),
        (a_table(), ("op", "id", "price"), (), ()),
        (a_table(ID, change_seq="seq", before_image_prefix="BI_"), ("op", "id", "SEQ", "BI_id"), (), ()),
    ],
)
def test_fields_that_no_column_takes_are_named_when_they_first_come(
    table: Table, fields: Sequence[str], known: Sequence[str], new: Sequence[str]
) -> None:
    [*found] = warnings(table, with_fields(table, *fields, known=known))

    assert [f"in no column: {', '.join(map(repr, new))}. Bronze" in text for text in found] == [True] * bool(new)


def test_the_warning_says_how_to_have_the_fields() -> None:
    table = a_table(ID)
    assert warnings(table, with_fields(table, "op", "id")) == []
    [one] = warnings(table, with_fields(table, "op", "id", "price"))
    [many] = warnings(table, with_fields(table, "op", "id", *(f"f{number}" for number in range(12))))

    assert one.startswith("1 field of the source is in no column: 'price'. Bronze keeps it; ")
    assert many.startswith("12 fields of the source are in no column: 'f0', ")
    assert "'f9' and 2 more. Bronze keeps them; " in many


@pytest.mark.parametrize(("changes", "late", "warns"), [(100, 100, False), (200, 40, False), (200, 41, True)])
def test_many_late_changes_of_a_large_batch_are_worth_a_warning(changes: int, late: int, *, warns: bool) -> None:
    report = TableReport(table="t", changes=changes, marts=[MartReport(mart="t", late=late)])

    warn_of_late(report)

    assert [warning.split(" are ")[0] for warning in report.warnings] == ["41 of 200 changes (20%)"] * warns


def test_a_full_load_that_is_given_again_does_not_replace_the_table() -> None:
    state = TableState(taken=SourceDelta(loads_again=("again/LOAD00000001.csv",)))

    [partial] = warnings(a_table(ID, snapshots="partial"), state)
    [compared] = warnings(a_table(ID), state)

    assert partial.startswith("again/LOAD00000001.csv is a full load, and one of that name was taken before: ")
    assert partial.endswith(": frazil drop --select t, then frazil run")
    assert compared.startswith("again/LOAD00000001.csv is a full load, and one of that name was taken before: ")
    assert compared.endswith("it has to agree with the table, or the table stops (FZ417)")


def test_a_folder_without_files_is_named_until_the_table_has_some() -> None:
    assert warnings(a_table(ID), TableState()) == ["no file was found in t"]
    assert warnings(a_table(ID), TableState(bronze=1)) == []


def test_files_that_wait_are_named_with_the_reason() -> None:
    waiting = tuple((f"{number}.csv", "no line end") for number in range(12))

    found = warnings(a_table(ID), TableState(taken=SourceDelta(deferred=waiting)))

    assert (found[0], found[9:]) == ("0.csv waits: no line end", ["9.csv waits: no line end", "2 more files wait"])


def test_only_fields_that_came_later_are_promised_to_evolve() -> None:
    state = with_fields(a_table(ID), "op", "id", "secret")
    wide = replace(state.taken.files[0], columns=(*state.taken.files[0].columns, ("channel", "string")))
    state = replace(state, taken=SourceDelta(files=(state.taken.files[0], wide)))

    first, later = warnings(a_table(ID), state)

    assert "'secret'" in first
    assert first.endswith("declare it")
    assert "'channel'" in later
    assert later.endswith("declare it, or say evolution: {on_new_column: evolve}")
