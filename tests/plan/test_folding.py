"""When changes are folded, what a baseline cannot serve, and which tables can have one."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.spec.declared import DAY, HISTORY, ID, NAME, SOFT, found, pipeline, table

from frazil.marts.baseline import served_of
from frazil.plan.build import build
from frazil.plan.explain import explain
from frazil.plan.layout import BRONZE, QUARANTINE, SILVER
from frazil.plan.plan import input_bytes
from frazil.plan.state import BaselineError, State, TableState, check_baseline, fold_due, table_state, with_fold
from frazil.silver import contract
from frazil.silver.baseline import Baseline, Served, baseline_of, came_too_late, kept_baseline
from frazil.silver.contract import LAWS, Contract, declared, declared_mart, settle
from frazil.sources.base import SourceDelta
from frazil.steps import FoldChanges, UpdateMart

if TYPE_CHECKING:
    from frazil.spec import Pipeline, Table

NINETY = {"changes_days": 90}
TODAY = dt.date(2026, 11, 25)
BEFORE = "2026-08-27 00:00:00"
TYPES = {"id": "int", "ts": "timestamp", "name": "string", "_cdc_class": "string"}
DEBEZIUM: dict[str, Any] = {"kind": "debezium", "path": "landing", "table": "public.hosts"}


def declare(**settings: Any) -> tuple[Pipeline, Table]:
    declaration = pipeline(table(**{"retention": NINETY, **settings}))
    return declaration, declaration.tables[0]


def contract_of(one: Table) -> Contract:
    return settle(one, dict.fromkeys(("id", "ts", "name", "day"), "string"))


def stand(one: Table, batch: int = 4, baseline: Baseline | None = None, **others: int) -> dict[str, dict[str, Any]]:
    """Return the bookmarks of a table at a batch."""
    marts = {one.mart_name(mart): {"declared": declared_mart(one, mart)} for mart in one.marts}
    fields = dict.fromkeys(("id", "ts", "name"), "string")
    marks: dict[str, dict[str, Any]] = {BRONZE: {"fields": fields}, QUARANTINE: {}, **marts}
    marks[SILVER] = {"laws": LAWS, "declared": declared(one), "settings": contract.settings(one)}
    if baseline is not None:
        marks[SILVER] |= baseline.in_bookmark()
        marks[BRONZE]["baseline"] = baseline.before
    return {name: {**mark, "batch": others.get(name, batch)} for name, mark in marks.items()}


def baseline(one: Table, before: str = BEFORE) -> Baseline:
    return Baseline(before=before, batch=3, served=served_of(one.marts, contract_of(one)))


def test_a_horizon_that_moved_by_a_tenth_of_the_retention_causes_a_fold() -> None:
    _, one = declare()

    assert fold_due(one, stand(one), TODAY) == FoldChanges(table="hosts", before=BEFORE, days=90)
    for days, is_due in ((0, False), (8, False), (9, True)):
        before = f"{dt.date(2026, 8, 27) - dt.timedelta(days=days)} 00:00:00"
        assert (fold_due(one, stand(one, baseline=baseline(one, before)), TODAY) is not None) is is_due


def test_tables_behind_bronze_or_without_retention_are_not_folded() -> None:
    _, one = declare()
    _, keeps_all = declare(retention=None)

    assert fold_due(keeps_all, stand(keeps_all), TODAY) is None
    assert fold_due(one, stand(one, 0), TODAY) is None
    assert fold_due(one, stand(one), None) is None
    assert fold_due(one, stand(one, hosts=3), TODAY) is None


def test_a_fold_that_was_killed_is_ended_first_whatever_is_declared() -> None:
    declaration, one = declare(retention=None)
    marks = stand(one, baseline=baseline(one), hosts=3)
    marks[BRONZE]["baseline"] = "2026-01-01 00:00:00"

    stands = with_fold(table_state(declaration, one, marks, SourceDelta()), one, marks, TODAY)
    first, *rest = build(declaration, State(tables={"hosts": stands}))

    assert first == FoldChanges(table="hosts", before=BEFORE)
    assert (
        explain(first) == "hosts: fold the changes before 2026-08-27 into the baseline; to end what a killed run began"
    )
    assert [type(step) for step in rest] == [UpdateMart]
    assert input_bytes([first]) is None


def test_a_run_begins_with_the_fold_unless_an_aggregate_has_yet_to_see_changes() -> None:
    declaration, one = declare()
    gold = {"name": "living", "sql": "select count(*) as n from {{ hosts }}"}
    declaration = declaration.model_copy(update={"gold": pipeline(table(), gold=[gold]).gold})
    stands = with_fold(table_state(declaration, one, stand(one), SourceDelta()), one, stand(one), TODAY)

    def steps(batch: int, stands: TableState = stands) -> list[str]:
        found = build(declaration, State(tables={"hosts": stands}, gold={"living": {"hosts": batch}}))
        return [explain(step) for step in found]

    assert steps(4) == ["hosts: fold the changes before 2026-08-27 into the baseline; older than 90 days"]
    assert steps(3) == ["gold: refresh living from hosts"]
    assert steps(4, replace(stands, fold=None)) == []


def test_a_declaration_that_needs_folded_changes_is_refused() -> None:
    _, before = declare()
    marks = stand(before, baseline=baseline(before))

    declaration, wider = declare(columns=[{"name": "id", "type": "bigint"}, *table()["columns"][1:]])
    columns = {SILVER: TYPES, BRONZE: {}, QUARANTINE: {}, "hosts": {}}
    held = table_state(declaration, wider, marks, SourceDelta(), rows={QUARANTINE: 1}, columns=columns)
    assert held.rebuilds[SILVER] == "columns changed"  # served: of wider types the baseline's rows are the same
    for settings in ({"keys": ["name"]}, {"columns": [ID, table()["columns"][1]]}, {"effective_at": "ts"}):
        declaration, one = declare(**settings)
        with pytest.raises(BaselineError, match="changes before 2026-08-27 are kept only as a baseline") as refused:
            check(one, marks, {SILVER: "columns changed"}, columns=TYPES)
        assert refused.value.exit_code == 6


def check(one: Table, marks: dict[str, dict[str, Any]], rebuilds: dict[str, str], columns: dict[str, str]) -> None:
    marts = {one.mart_name(mart): marks.get(one.mart_name(mart), {}) for mart in one.marts}
    check_baseline(one, contract_of(one), marks | marts, rebuilds, columns)


def test_a_new_mart_is_served_where_it_needs_no_more_than_was_kept() -> None:
    _, hard = declare()
    _, history = declare(marts=[HISTORY])
    _, both = declare(marts=[{"kind": "current", "name": "a"}, {"kind": "history", "track_history_columns": ["name"]}])
    _, soft = declare(marts=[SOFT])

    check(hard, stand(history, baseline=baseline(history)), {}, TYPES)
    check(both, stand(history, baseline=baseline(history)), {}, TYPES)
    check(hard, stand(hard, baseline=baseline(hard)), {"hosts": "asked for"}, TYPES)
    with pytest.raises(BaselineError, match="mart 'hosts_history' is new"):
        check(history, stand(hard, baseline=baseline(hard)), {}, TYPES)
    _, known = declare(marts=[HISTORY | {"bitemporal": True}])
    with pytest.raises(BaselineError, match="'hosts_history' is bitemporal, and needs to know what came when"):
        check(known, stand(history, baseline=baseline(history)), {"hosts_history": "bitemporal changed"}, TYPES)
    with pytest.raises(BaselineError, match="deletes changed"):
        check(soft, stand(hard, baseline=baseline(hard)), {"hosts": "deletes changed"}, TYPES)
    with pytest.raises(BaselineError, match="its typed changes are gone, but changes before its horizon"):
        check(hard, {SILVER: {}, BRONZE: {"baseline": BEFORE}}, {}, {})


def test_a_bookmark_keeps_the_baseline_and_gives_it_back() -> None:
    _, one = declare(marts=[HISTORY, SOFT])
    whole = replace(baseline(one), position="1/a/", row=7)

    assert baseline_of(whole.in_bookmark()) == whole
    assert whole.served == Served(deleted=True, tracked=(("name",),))
    assert kept_baseline({**whole.in_bookmark(), "batch": 3}) == whole.in_bookmark()
    assert (kept_baseline({}), baseline_of({})) == ({}, None)
    assert came_too_late(contract_of(one), baseline(one)) == (
        "(`ts` < CAST('2026-08-27 00:00:00' AS timestamp) AND NOT "
        "(_cdc_class = 'delete' AND coalesce(NOT array_contains(_cdc_known, 'ts'), false)))"
    )
    assert "_cdc_class = 'truncate' AND _cdc_batch > 3 AND struct(_cdc_position" in came_too_late(
        contract_of(one), whole
    )


DUMPS = {"kind": "snapshot", "path": "landing"}


def sharded(**shard: str) -> dict[str, Any]:
    return {"kind": "sharded", "shards": {"eu": {"kind": "dms", **shard}}}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, ""),
        ({"sequence_by": ["day"], "columns": [ID, DAY]}, ""),
        ({"marts": [HISTORY], "effective_at": "ts"}, ""),
        ({"sequence_by": []}, "tables.0.retention: the retention of table 'hosts' needs a time that orders changes: "),
        ({"sequence_by": ["id"]}, "'id', the first of sequence_by, is not declared as one"),
        ({"columns": None, "sequence_by": ["ts"]}, "'ts', the first of sequence_by, is not declared as one"),
        ({"columns": [ID, table()["columns"][1], NAME, DAY], "marts": [HISTORY], "effective_at": "day"}, "from 'day'"),
        ({"source": DEBEZIUM}, "records of kind 'debezium' need not carry 'ts'"),
        ({"source": DEBEZIUM, "sequence_by": []}, ""),
        ({"source": DEBEZIUM, "sequence_by": [], "marts": [HISTORY]}, ""),
        ({"source": DEBEZIUM, "sequence_by": [], "marts": [HISTORY], "effective_at": "ts"}, "times from 'ts', and the"),
        ({"source": DUMPS, "sequence_by": []}, ""),
        ({"source": DUMPS}, "records of kind 'snapshot' need not carry 'ts'"),
        ({"source": sharded(path="landing/eu")}, ""),
        ({"source": sharded(path="landing/eu"), "sequence_by": []}, "needs a time that orders changes"),
        (
            {"source": sharded(kind="audit_log", path="landing/eu", table="public.hosts")},
            "changes of kind 'sharded' cannot be folded into a baseline",
        ),
        (
            {"source": sharded(kind="snapshot", path="landing/eu"), "sequence_by": []},
            "changes of kind 'sharded' cannot be folded into a baseline",
        ),
    ],
)
def test_a_retention_needs_a_time_that_orders_the_changes(settings: dict[str, Any], problem: str) -> None:
    told = "\n".join(line for line in found(declare(**settings)[0]).splitlines() if "retention" in line)

    assert (problem in told) if problem else not told
