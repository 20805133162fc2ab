"""What a table must be altered by is a pure function of what it is and what is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frazil.plan.alterations import TypeChangedError, alterations, fits
from frazil.plan.build import build
from frazil.plan.explain import as_values, explain
from frazil.plan.layout import BRONZE, QUARANTINE, SILVER, TableLayout, source_layouts
from frazil.plan.state import State, TableState, table_state
from frazil.silver.contract import LAWS, declared, declared_mart, settle
from frazil.sources.base import NewFile, SourceDelta
from frazil.spec import Current, DmsFiles, Lake, Pipeline, Table
from frazil.steps import AddColumn, AlterTable, WidenColumn

if TYPE_CHECKING:
    from collections.abc import Mapping

PATH = ("lake", "marts", "orders")
ORDERS = Table(name="orders", source=DmsFiles(path=("landing",), header=True), keys=("id",), marts=(Current(),))
PIPELINE = Pipeline(pipeline="shop", lake=Lake(warehouse="lake"), tables=(ORDERS,))
SEEN = {"op": "string", "id": "string"}
"""Fields that bronze has."""


def layout(**columns: str) -> TableLayout:
    return TableLayout(path=PATH, columns=columns)


def test_columns_are_added_and_widened_and_none_is_dropped() -> None:
    present = layout(id="int", price="decimal(8, 2)", said="string", gone="int")
    wanted = layout(ID="bigint", price="decimal(12,2)", said="string", note="string")

    assert alterations(present, wanted) == (
        WidenColumn(column="ID", before="int", type="bigint"),
        WidenColumn(column="price", before="decimal(8, 2)", type="decimal(12,2)"),
        AddColumn(column="note", type="string"),
    )
    assert alterations(wanted, wanted) == ()


@pytest.mark.parametrize(
    ("have", "want"), [("bigint", "int"), ("string", "int"), ("decimal(8,2)", "decimal(9,3)"), ("date", "timestamp")]
)
def test_a_type_that_no_widening_reaches_is_refused(have: str, want: str) -> None:
    with pytest.raises(TypeChangedError, match=f"marts.orders: column 'id' is {have.replace('(', '.').split('.')[0]}"):
        alterations(layout(id=have), layout(id=want))

    assert not fits({"id": have}, layout(id=want))


def test_a_table_fits_where_altering_it_leaves_no_other_column() -> None:
    assert fits({"id": "int"}, layout(id="bigint", note="string"))
    assert not fits({"id": "int", "gone": "int"}, layout(id="int"))


def state_with(
    *fields: str, table: Table = ORDERS, present: tuple[str, ...] = ("op", "id"), mart: Mapping[str, str] | None = None
) -> TableState:
    """Return the state of a table at batch 1, with a new file of some fields; ``mart`` has other types of its mart."""
    file = NewFile(
        path="landing/2.csv",
        uri="landing/2.csv",
        name="2.csv",
        size_bytes=1,
        modified_ns=0,
        load=False,
        position="1/2.csv",
        sha256="0",
        columns=tuple((name, "string") for name in fields),
    )
    had = dict.fromkeys(present, "string")
    made = source_layouts(PIPELINE, ORDERS, had, settle(ORDERS, had))
    bookmarks: dict[str, dict[str, object]] = {
        BRONZE: {"batch": 1, "fields": SEEN},
        SILVER: {"batch": 1, "declared": declared(ORDERS), "laws": LAWS},
        QUARANTINE: {"batch": 1},
        "orders": {"batch": 1, "declared": declared_mart(ORDERS, Current())},
    }
    columns = {name: one.columns for name, one in made.items()}
    columns["orders"] = {**columns["orders"], **(mart or {})}
    return table_state(PIPELINE, table, bookmarks, SourceDelta(files=(file,)), columns=columns)


def steps_of(state: TableState) -> list[str]:
    pipeline = PIPELINE.model_copy(update={"tables": (ORDERS,)})
    return [
        explain(step).splitlines()[0].removeprefix("orders: ")
        for step in build(pipeline, State(tables={"orders": state}))
    ]


def test_a_new_field_is_a_column_that_the_plan_shows_before_it_is_added() -> None:
    assert steps_of(state_with("op", "id", "note")) == [
        "alter bronze.orders: add column note string",
        "ingest 1 file (1 B) as batch 2",
        "alter silver.orders_changes: add column note string",
        "normalize batch 2",
        "alter marts.orders: add column note string",
        "apply batch 2 to orders, overwritten if more than 10,000 changes",
    ]


def test_a_mart_whose_types_another_engine_changed_is_rebuilt() -> None:
    state = state_with("op", "id", mart={"id": "bigint", "theirs": "int"})

    assert state.rebuilds == {"orders": "another engine changed the type of id from string to bigint"}


def test_a_file_with_the_known_fields_alters_nothing() -> None:
    assert not state_with("op", "id").alters


def test_a_table_that_is_written_whole_is_not_given_columns_before_it_is_replaced() -> None:
    """Its present columns are other than declared, so the rebuild replaces it with all of them in one commit."""
    state = state_with("op", "id", "note", present=("op", "id", "gone"))
    rebuilt = build(PIPELINE, State(tables={"orders": state}), rebuild=["orders"])
    applied = build(PIPELINE, State(tables={"orders": state}))

    assert [step.name for step in rebuilt if isinstance(step, AlterTable)] == ["bronze.orders"]
    assert [step.name for step in applied if isinstance(step, AlterTable)] == [
        "bronze.orders",
        "silver.orders_changes",
        "marts.orders",
    ]


def test_json_says_of_each_change_what_it_is() -> None:
    values = as_values(build(PIPELINE, State(tables={"orders": state_with("op", "id", "note")})))

    assert values[0] == {
        "step": "AlterTable",
        "table": "orders",
        "name": "bronze.orders",
        "mart": "",
        "changes": [{"change": "AddColumn", "column": "note", "type": "string"}],
    }
