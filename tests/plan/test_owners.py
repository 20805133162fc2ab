"""A table is known by its bookmark: whose it is, whether it was moved, what was declared otherwise since."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from frazil.errors import FrazilError
from frazil.marts.layout import mart_layout
from frazil.plan.layout import BRONZE, SILVER
from frazil.plan.state import TableState, table_state
from frazil.silver.contract import LAWS, declared, declared_mart, settings
from frazil.sources.base import NewFile, SourceDelta
from frazil.sources.kinds import source_of
from frazil.spec import Column, Current, DmsFiles, History, Lake, Pipeline, Table
from frazil.spec.tables import LakeTable, OtherOwnerError, Role, belongs
from frazil.steps import Alteration, RemoveProperty, SetLiveView, SetProperty, SetSortOrder

MART = {"pipeline": "shop", "table": "orders", "role": "mart", "batch": 3}

SOURCE = DmsFiles(path=("landing",), header=True)
ORDERS = Table(
    name="orders",
    source=SOURCE,
    keys=("id",),
    sequence_by=("ts",),
    columns=(Column(name="id", type="int"), Column(name="ts", type="timestamp")),
    marts=(Current(deletes="soft"), History()),
)


def wanted(role: Role) -> LakeTable:
    return LakeTable(namespace="marts", name="m", role=role, made_of="orders")


@pytest.mark.parametrize(
    ("bookmark", "role", "whose"),
    [
        (MART, "mart", True),
        ({}, "mart", True),
        (MART | {"table": "customers"}, "mart", False),
        ({"batch": 3, "declared": "0"}, "mart", True),  # written before bookmarks named an owner
    ],
)
def test_a_mart_is_its_tables_own_or_can_be_rebuilt(bookmark: dict[str, Any], role: Role, *, whose: bool) -> None:
    assert belongs(wanted(role), bookmark, pipeline="shop") is whose


@pytest.mark.parametrize(
    ("bookmark", "role"),
    [
        (MART | {"pipeline": "web"}, "mart"),
        (MART | {"role": "silver"}, "mart"),
        (MART, "bronze"),
        (MART | {"role": "bronze", "table": "customers"}, "bronze"),
        (MART | {"role": "silver", "table": "customers"}, "silver"),
        (MART | {"role": "quarantine", "table": "customers"}, "quarantine"),
        ({"pipeline": "shop", "gold": "daily", "batch": 1}, "mart"),
        ({"pipeline": "shop", "table": "orders", "fields": {}, "batch": 1}, "silver"),
    ],
)
def test_tables_of_another_owner_are_refused(bookmark: dict[str, Any], role: Role) -> None:
    with pytest.raises(OtherOwnerError) as caught:
        belongs(wanted(role), bookmark, pipeline="shop")

    assert caught.value.exit_code == 2
    assert "marts.m belongs to pipeline" in caught.value.message


def standing(table: Table = ORDERS, **changed: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Draw the bookmarks of a table that was run as declared, some of them with other entries."""
    own = {"pipeline": "shop", "table": table.name, "batch": 1}
    current, history = table.marts
    found: dict[str, dict[str, Any]] = {
        BRONZE: own | {"role": "bronze", "fields": {"op": "string", "id": "string", "ts": "string"}},
        SILVER: own | {"role": "silver", "laws": LAWS, "declared": declared(table), "settings": settings(table)},
    } | {
        table.mart_name(mart): own
        | {
            "role": "mart",
            "declared": declared_mart(table, mart),
            "settings": settings(table, mart),
            "layout": mart_layout(mart),
        }
        for mart in (current, history)
    }
    found[BRONZE]["reading"] = source_of(table).reading()
    return {name: bookmark | changed.get(name, {}) for name, bookmark in found.items()}


def state_of(table: Table, bookmarks: dict[str, dict[str, Any]], taken: SourceDelta | None = None) -> TableState:
    pipeline = Pipeline(pipeline="shop", lake=Lake(warehouse="lake"), tables=(table,))
    return table_state(pipeline, table, bookmarks, taken or SourceDelta(known=1))


def with_marts(*marts: Current | History, **also: Any) -> Table:
    return ORDERS.model_copy(update={"marts": marts or ORDERS.marts, **also})


def test_tables_of_the_same_declaration_stay() -> None:
    state = state_of(ORDERS, standing())

    assert (state.rebuilds, state.alters) == ({}, {})


def test_a_mart_of_another_source_table_is_rebuilt_with_that_reason() -> None:
    state = state_of(ORDERS, standing(orders={"table": "customers"}))

    assert state.rebuilds == {"orders": "its rows are those of table 'customers'"}


@pytest.mark.parametrize(
    ("table", "rebuilds"),
    [
        (with_marts(keys=("id", "ts")), {SILVER: "keys changed", "orders": "keys changed", "orders_history": "…"}),
        (with_marts(Current(deletes="hard"), History()), {"orders": "deletes changed"}),
        (with_marts(Current(deletes="soft", partition_by=("id",)), History()), {"orders": "partition_by changed"}),
    ],
)
def test_a_rebuild_says_which_setting_changed(table: Table, rebuilds: dict[str, str]) -> None:
    state = state_of(table, standing())

    assert state.rebuilds.keys() == rebuilds.keys()
    assert all(state.rebuilds[name] == reason for name, reason in rebuilds.items() if reason != "…")


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({}, {"sort_by": ("id",)}, [SetSortOrder(columns=("id",))]),
        ({"sort_by": ("id",)}, {}, [SetSortOrder(columns=())]),
        ({}, {"properties": {"comment": "x"}}, [SetProperty(name="comment", value="x")]),
        ({"properties": {"comment": "x"}}, {}, [RemoveProperty(name="comment")]),
        (
            {"properties": {"commit.retry.num-retries": "1"}},
            {},
            [SetProperty(name="commit.retry.num-retries", value="10")],  # as a fresh lake has it
        ),
        ({"live_view": "old"}, {"live_view": "living"}, [SetLiveView(before="old", after="living")]),
        ({}, {"format_version": 3}, [SetProperty(name="format-version", value="3")]),
    ],
)
def test_a_layout_that_needs_no_rows_is_altered(
    before: dict[str, Any], after: dict[str, Any], changes: list[Alteration]
) -> None:
    made = standing(with_marts(Current(deletes="soft", **before), History()))

    state = state_of(with_marts(Current(deletes="soft", **after), History()), made)

    assert state.rebuilds == {}
    assert [*state.alters["orders"].changes] == changes
    assert state.alters["orders"].fits


def refused(table: Table, bookmarks: dict[str, dict[str, Any]], taken: SourceDelta | None = None) -> str:
    with pytest.raises(FrazilError) as caught:
        state_of(table, bookmarks, taken)
    return caught.value.code


def with_source(**changed: Any) -> Table:
    return ORDERS.model_copy(update={"source": SOURCE.model_copy(update=changed)})


NEW = SourceDelta(
    files=(
        NewFile(
            path="b/1.csv",
            uri="b/1.csv",
            name="1.csv",
            size_bytes=1,
            modified_ns=0,
            load=False,
            position="1",
            sha256="0",
        ),
    )
)


def test_what_a_fresh_lake_would_read_otherwise_is_refused() -> None:
    """CONVERGE: bronze keeps records as they were read, so how they are read may not change under it."""
    assert refused(with_source(csv_delimiter=";"), standing()) == "FZ504"
    assert refused(with_source(csv_null_value=r"\N"), standing()) == "FZ504"
    assert refused(with_source(path=("b",)), standing(), NEW) == "FZ504"
    assert refused(with_marts(sequence_by=()), standing(), SourceDelta(known=2, again=1)) == "FZ504"


def test_a_landing_folder_may_move_or_grow() -> None:
    assert state_of(with_source(path=("b",)), standing(), SourceDelta(known=1)).rebuilds == {}
    assert state_of(with_source(path=("landing", "b")), standing(), NEW).rebuilds == {}
    assert state_of(with_source(path=("b",)), standing(), SourceDelta()).rebuilds == {}


def test_files_without_header_may_get_more_fields_at_their_end_and_no_others() -> None:
    before = with_source(header=False, fields=("id", "ts"))

    assert state_of(with_source(header=False, fields=("id", "ts", "note")), standing(before)).rebuilds == {}
    assert refused(with_source(header=False, fields=("ts", "id")), standing(before)) == "FZ504"
    assert refused(with_source(header=False, fields=("id",)), standing(before)) == "FZ504"


def test_files_without_header_may_get_lists_of_fields_of_new_lengths() -> None:
    """A column that was dropped at the source is seen in files, when older ones are read and perhaps gone."""

    def lists(*others: tuple[str, ...], fields: tuple[str, ...] = ("id", "ts", "note")) -> Table:
        return with_source(header=False, fields=fields, other_fields=others)

    added = ("id", "ts", "note", "tag")
    assert state_of(lists(("id", "ts")), standing(lists())).rebuilds == {}
    assert state_of(lists(("id", "ts", "note"), ("id", "ts"), fields=added), standing(lists())).rebuilds == {}
    assert state_of(lists(("id", "ts"), ("id",)), standing(lists(("id", "ts")))).rebuilds == {}
    assert refused(lists(), standing(lists(("id", "ts")))) == "FZ504"
    assert refused(lists(("id", "note")), standing(lists(("id", "ts")))) == "FZ504"
    assert refused(lists(("id", "ts", "tag"), fields=added), standing(lists())) == "FZ504"


def test_a_column_that_no_file_has_is_refused_before_anything_is_written() -> None:
    columns = (*(ORDERS.columns or ()), Column(name="nowhere"))

    assert refused(with_marts(columns=columns), standing()) == "FZ502"


def test_a_table_format_does_not_go_back() -> None:
    newer = with_marts(Current(deletes="soft", format_version=3), History())

    assert refused(ORDERS, standing(newer)) == "FZ505"
    assert refused(with_marts(keys=("id", "ts")), standing(newer)) == "FZ505"
    assert refused(ORDERS, standing(newer, orders={"table": "customers"})) == "FZ505"
    assert refused(with_marts(Current(), History()), standing(newer)) == "FZ505"
    assert refused(with_marts(Current(deletes="soft", partition_by=("id",)), History()), standing(newer)) == "FZ505"


def test_a_wrong_delimiter_is_suggested_before_anything_is_written() -> None:
    file = replace(NEW.files[0], columns=(("op;id;ts", "string"),))

    with pytest.raises(FrazilError, match='csv_delimiter: ";"'):
        state_of(ORDERS, {name: {} for name in standing()}, SourceDelta(files=(file,)))
