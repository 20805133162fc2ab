"""A plan is a pure function of declaration and state: no file, no Spark, no clock."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from frazil.errors import SourceError
from frazil.gold import declared_gold
from frazil.plan.alterations import TableChange
from frazil.plan.build import build
from frazil.plan.explain import as_values, explain
from frazil.plan.layout import BRONZE, SILVER
from frazil.plan.plan import Plan, input_bytes
from frazil.plan.state import State, TableState, gold_state, table_state
from frazil.runner.record import fill_report, report_of
from frazil.silver.contract import LAWS, declared, declared_mart
from frazil.sources.base import NewFile, SourceDelta
from frazil.spec import Current, DmsFiles, Gold, History, Lake, Pipeline, Table
from frazil.spec.sql.select import selected
from frazil.steps import (
    AddColumn,
    AlterTable,
    Ingest,
    Normalize,
    RefreshGold,
    RemoveProperty,
    SetLiveView,
    SetProperty,
    SetSortOrder,
    UpdateMart,
    WidenColumn,
)

if TYPE_CHECKING:
    from frazil.steps import Step

HOSTS = Table(
    name="hosts",
    source=DmsFiles(path=("landing",)),
    keys=("id",),
    sequence_by=("ts",),
    marts=(Current(), History()),
)
LIVING = Gold(name="living", sql="select count(*) as n from {{ hosts }}")
PIPELINE = Pipeline(pipeline="airbnb", lake=Lake(warehouse="lake"), tables=(HOSTS,), gold=(LIVING,))


def new_file(name: str, same_as: str | None = None) -> NewFile:
    return NewFile(
        path=f"landing/{name}",
        uri=f"landing/{name}",
        name=name,
        size_bytes=1_500_000,
        modified_ns=0,
        load=False,
        position=f"1/{name}/landing",
        sha256="0" * 64,
        same_as=same_as,
    )


def standing(
    bronze: int,
    silver: int,
    current: int,
    history: int,
    taken: SourceDelta | None = None,
    *redeclared: str,
    gold: int = 0,
) -> State:
    """Say where the tables stand, each by its batch."""
    table = TableState(
        bronze=bronze,
        silver=silver,
        marts={"hosts": current, "hosts_history": history},
        taken=taken or SourceDelta(),
        rebuilds=dict.fromkeys(redeclared, "keys changed"),
    )
    return State(tables={"hosts": table}, gold={"living": {"hosts": gold}} if gold else {})


ONE = SourceDelta(files=(new_file("a.csv"),))


def drawn(state: State, *rebuild: str) -> list[str]:
    """Draw a plan in a word a step: ``ingest 3``, ``normalize 2-3``, ``hosts 1-3``, ``!`` for a rebuild."""
    words = []
    for step in build(PIPELINE, state, rebuild=rebuild):
        match step:
            case Ingest():
                words.append(f"ingest {step.batch}")
            case Normalize():
                words.append(f"normalize {step.after}-{step.upto}" + "!" * step.rebuild)
            case UpdateMart():
                words.append(f"{step.mart} {step.after}-{step.upto}" + "!" * step.rebuild)
            case RefreshGold():
                words.append(f"{step.name} {dict(step.inputs)['hosts']}")
    return words


@pytest.mark.parametrize(
    ("state", "steps"),
    [
        (standing(0, 0, 0, 0), []),
        (standing(3, 3, 3, 3, gold=3), []),
        (standing(0, 0, 0, 0, ONE), ["ingest 1", "normalize 0-1", "hosts 0-1", "hosts_history 0-1", "living 1"]),
        (
            standing(3, 3, 3, 3, ONE, gold=3),
            ["ingest 4", "normalize 3-4", "hosts 3-4", "hosts_history 3-4", "living 4"],
        ),
        # What a killed run left behind.
        (standing(4, 3, 3, 3, gold=3), ["normalize 3-4", "hosts 3-4", "hosts_history 3-4", "living 4"]),
        (standing(4, 4, 3, 3, gold=3), ["hosts 3-4", "hosts_history 3-4", "living 4"]),
        (standing(4, 4, 4, 3, gold=3), ["hosts_history 3-4", "living 4"]),
        (standing(4, 4, 4, 4, gold=3), ["living 4"]),
        (
            standing(4, 3, 3, 2, ONE, gold=3),
            ["ingest 5", "normalize 3-5", "hosts 3-5", "hosts_history 2-5", "living 5"],
        ),
    ],
)
def test_every_table_goes_on_from_where_it_stands_itself(state: State, steps: list[str]) -> None:
    """ONCE: a lake that is level needs no step, and one that a killed run left uneven is levelled."""
    assert drawn(state) == steps


def test_a_rebuild_takes_new_files_and_then_rebuilds_silver_and_marts() -> None:
    """CONVERGE."""
    assert drawn(standing(3, 3, 3, 3, ONE, gold=3), "hosts") == [
        "ingest 4",
        "normalize 0-4!",
        "hosts 0-4!",
        "hosts_history 0-4!",
        "living 4",
    ]
    assert drawn(standing(0, 0, 0, 0), "hosts") == []


def test_an_earlier_name_of_a_known_content_rebuilds_the_table() -> None:
    """CONVERGE: a tie falls as if the earlier name had been the first; also when the run after it was killed."""
    met = SourceDelta(duplicates=(new_file("0.csv", same_as="landing/a.csv"),), reorders=True)
    known = SourceDelta(reordered_in=4)

    assert drawn(standing(3, 3, 3, 3, met, gold=3))[:2] == ["ingest 4", "normalize 0-4!"]
    assert drawn(standing(4, 3, 3, 3, known, gold=3))[:2] == ["normalize 0-4!", "hosts 0-4!"]
    assert drawn(standing(4, 4, 4, 3, known, gold=4)) == ["hosts_history 0-4!"]
    assert drawn(standing(4, 4, 4, 4, known, gold=4)) == []


def test_only_tables_with_a_changed_declaration_are_rebuilt() -> None:
    assert drawn(standing(3, 3, 3, 3, None, "hosts_history", gold=3)) == ["hosts_history 0-3!"]
    assert drawn(standing(3, 3, 3, 3, None, "hosts", gold=3)) == ["hosts 0-3!", "living 3"]
    assert drawn(standing(3, 3, 3, 3, None, SILVER, gold=3))[0] == "normalize 0-3!"


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (SetLiveView(before=None, after="live"), []),
        (SetLiveView(before="old", after="live"), [SetLiveView(before="old", after=None)]),
    ],
)
def test_a_view_waits_for_the_table_that_is_replaced(change: SetLiveView, left: list[SetLiveView]) -> None:
    """The table as it is may lack the columns that its view needs."""
    stand = standing(2, 2, 2, 2, None, "hosts").tables["hosts"]
    alter = TableChange(
        name="marts.hosts", changes=(AddColumn(column="is_deleted", type="boolean"), change), fits=False
    )

    steps = build(PIPELINE, State(tables={"hosts": replace(stand, alters={"hosts": alter})}))

    assert [list(step.changes) for step in steps if isinstance(step, AlterTable)] == ([left] if left else [])


def test_only_selected_tables_have_steps() -> None:
    assert build(PIPELINE, standing(0, 0, 0, 0, ONE), tables=()) == ()


def test_the_state_of_a_table_is_read_off_its_bookmarks() -> None:
    mart, history = HOSTS.marts
    bookmarks: dict[str, dict[str, object]] = {
        BRONZE: {"batch": 3},
        SILVER: {"batch": 3, "declared": declared(HOSTS), "laws": LAWS},
        "hosts": {"batch": 2, "declared": declared_mart(HOSTS, mart)},
        "hosts_history": {"batch": 2, "declared": "something else"},
    }
    assert declared_mart(HOSTS, mart) != declared_mart(HOSTS, history)

    state = table_state(PIPELINE, HOSTS, bookmarks, ONE)

    assert (state.bronze, state.silver, dict(state.marts)) == (3, 3, {"hosts": 2, "hosts_history": 2})
    assert state.rebuilds == {"hosts_history": "the declaration changed"}
    assert state.taken is ONE


def test_a_mart_of_another_silver_is_rebuilt() -> None:
    """ONCE: also if a run died after rebuilding silver and before its marts."""
    bookmarks: dict[str, dict[str, object]] = {
        BRONZE: {"batch": 3},
        SILVER: {"batch": 3, "declared": declared(HOSTS), "laws": LAWS, "made_by": "second"},
        "hosts": {"batch": 3, "declared": declared_mart(HOSTS, HOSTS.marts[0]), "silver_made_by": "second"},
        "hosts_history": {"batch": 3, "declared": declared_mart(HOSTS, HOSTS.marts[1]), "silver_made_by": "first"},
    }

    state = table_state(PIPELINE, HOSTS, bookmarks, SourceDelta())
    steps = build(PIPELINE, State(tables={"hosts": state}))

    assert state.rebuilds == {"hosts_history": "its changes were made from bronze again"}
    [step] = [step for step in steps if isinstance(step, UpdateMart)]
    assert (step.mart, step.after, step.upto, step.rebuild) == ("hosts_history", 0, 3, True)


def test_a_changed_select_or_mart_resets_an_aggregate() -> None:
    """CONVERGE: gold is a function of the declaration too."""
    bookmark = {"inputs": {"hosts": 3}, "declared": declared_gold(PIPELINE, LIVING)}
    other_sql = PIPELINE.model_copy(update={"gold": (LIVING.model_copy(update={"sql": "select 1 from {{ hosts }}"}),)})
    other_mart = PIPELINE.model_copy(
        update={"tables": (HOSTS.model_copy(update={"marts": (Current(deletes="soft"),)}),)}
    )

    assert gold_state(PIPELINE, {"living": bookmark}) == {"living": {"hosts": 3}}
    assert gold_state(other_sql, {"living": bookmark}) == {"living": {}}
    assert gold_state(other_mart, {"living": bookmark}) == {"living": {}}
    assert gold_state(PIPELINE, {"living": {}}) == {"living": {}}


def test_a_plan_reads_as_text() -> None:
    duplicate = new_file("again.csv", same_as="landing/a.csv")
    files = tuple(new_file(f"{number}.csv") for number in range(6))
    steps: list[Step] = [
        Ingest(table="hosts", batch=2, files=files, duplicates=(duplicate,)),
        Normalize(table="hosts", after=1, upto=2),
        Normalize(table="hosts", after=0, upto=2, rebuild=True, reason="keys changed"),
        UpdateMart(table="hosts", mart="hosts", after=0, upto=2),
        UpdateMart(table="hosts", mart="hosts", after=1, upto=2, rows=50_000),
        UpdateMart(table="hosts", mart="hosts_history", after=0, upto=2, rebuild=True, reason="keys changed"),
        AlterTable(
            table="hosts",
            name="marts.hosts",
            mart="hosts",
            changes=(
                AddColumn(column="note", type="string"),
                WidenColumn(column="n", before="int", type="bigint"),
                SetSortOrder(columns=("id",)),
                SetProperty(name="format-version", value="3"),
                RemoveProperty(name="comment"),
                SetLiveView(before="living", after="hosts_live"),
            ),
        ),
        RefreshGold(name="living", inputs=(("hosts", 2),)),
    ]

    assert "\n".join(explain(step) for step in steps).splitlines() == [
        "hosts: ingest 6 files (9.0 MB) as batch 2",
        *(f"    landing/{number}.csv" for number in range(5)),
        "    and 1 more",
        "    landing/again.csv is the same as landing/a.csv: noted, not read",
        "hosts: normalize batch 2",
        "hosts: rebuild the typed changes from bronze, batches 1 to 2; keys changed",
        "hosts: apply batches 1 to 2 to hosts",
        "hosts: apply batch 2 to hosts, overwritten if more than 25,000 changes",
        "hosts: rebuild hosts_history from all changes; keys changed",
        (
            "hosts: alter marts.hosts: add column note string, widen column n from int to bigint, "
            "sort new files by id, set property format-version to '3', remove property comment, "
            "drop live view living and create live view hosts_live"
        ),
        "gold: refresh living from hosts",
    ]


def test_a_plan_is_json() -> None:
    values = json.loads(json.dumps(as_values(build(PIPELINE, standing(0, 0, 0, 0, ONE)))))

    kinds = [value["step"] for value in values]
    assert kinds == ["Ingest", "Normalize", "UpdateMart", "UpdateMart", "RefreshGold"]
    assert values[0]["files"][0]["path"] == "landing/a.csv"


@pytest.mark.parametrize(
    ("state", "size"),
    [
        (standing(2, 2, 2, 2, SourceDelta(files=(new_file("3.csv"), new_file("4.csv")))), 3_000_000),
        (standing(2, 2, 2, 2), 0),
        (standing(2, 1, 1, 1), None),  # an earlier run was killed after bronze
        (standing(2, 2, 2, 1, SourceDelta(files=(new_file("3.csv"),))), None),  # or before one of the marts
        (standing(2, 2, 2, 2, SourceDelta(files=(new_file("3.csv"),)), "hosts"), None),  # made anew
    ],
)
def test_a_plan_has_input_bytes_only_for_whole_inputs(state: State, size: int | None) -> None:
    assert input_bytes(build(PIPELINE, state)) == size


def test_a_table_whose_state_cannot_be_read_has_no_steps_and_its_aggregates_wait() -> None:
    others = HOSTS.model_copy(update={"name": "guests"})
    sums = (LIVING, Gold(name="both", sql="select count(*) as n from {{ hosts }} join {{ guests }} using (id)"))
    pipeline = PIPELINE.model_copy(update={"tables": (HOSTS, others), "gold": sums})
    found = standing(0, 0, 0, 0, ONE)
    state = State(tables=found.tables, failed={"guests": SourceError("no folder")})

    plan = Plan.of(pipeline, selected(pipeline, ()), state)
    report = report_of(pipeline, plan.selection)
    fill_report(report, plan)

    assert {getattr(step, "table", None) or step.name for step in plan.steps} == {"hosts", "living"}  # type: ignore[union-attr]
    assert [(table.table, table.outcome) for table in report.tables] == [("hosts", "not started"), ("guests", "failed")]
    assert {made.name: made.because for made in report.gold} == {"living": "", "both": "guests failed"}
    assert plan.gold_left == {"both": "guests failed"}
    assert plan.as_values()["exit_code"] == plan.exit_code == report.exit_code == 3
