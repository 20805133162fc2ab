"""Each row of docs/coming-from.md is run: its setting, on changes that would tell."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import frazil
from frazil import api
from frazil.runner.report import RunFailedError
from frazil.spark.session import spark_session
from frazil.spec import Pipeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text(encoding="utf-8")
ROWS = [tuple(cells) for cells in re.findall(r"^\| (.+?) \| `(\w+: .+?)` \|", PAGE, re.MULTILINE)]
TABLE = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0])["tables"][0]


def change(op: str, key: int | None, day: int, **values: Any) -> dict[str, Any]:
    return {"op": op, "id": key, "ts": f"2026-01-{day:02} 00:00:00", **values}


@dataclass(frozen=True, kw_only=True)
class Case:
    """Arriving records, and the expected rows.

    Attributes:
        runs: records before each run.
        rows: rows of the mart.
        asked: columns to compare.
        bad: rules that records in quarantine break.
        fails: error code of the run.
        warns: broken rules that only warn.
        tested: rules that ``frazil test`` finds broken at the end.
        more: settings of the table besides.
    """

    runs: Sequence[Sequence[dict[str, Any]]]
    rows: Sequence[tuple[Any, ...]] = ()
    asked: str = "id, status"
    bad: Sequence[str] = ()
    fails: str = ""
    warns: int = 0
    tested: Sequence[str] = ()
    more: dict[str, Any] = field(default_factory=dict)


NEW, PAID = change("I", 1, 1, status="new", total=1), change("U", 1, 2, status="paid", total=2)
NEGATIVE = change("I", 2, 1, status="new", total=-1)
HISTORY = "status, total, is_current"
VERSIONS = [[NEW, PAID | {"total": 1}, change("U", 1, 3, status="paid", total=3)]]
TWO_STATES = [("new", 1, False), ("paid", 3, True)]
GONE = [[NEW, change("D", 1, 2)]]
COLUMN = [[NEW], [change("I", 2, 3, status="new", total=2, country="CH")]]
ENVELOPE = {"op": "c", "ts_ms": 1, "source": {"table": "orders"}}

CASES = {
    "`KEYS (id)`": Case(runs=[[NEW, PAID, change("I", None, 1, status="x")]], rows=[(1, "paid")], bad=["null_key"]),
    "`SEQUENCE BY ts`": Case(runs=[[PAID], [NEW]], rows=[(1, "paid")]),
    "`SEQUENCE BY STRUCT(ts, total)`": Case(
        runs=[[change("U", 1, 1, status="second", total=2)], [NEW]], rows=[(1, "second")]
    ),
    "`APPLY AS DELETE WHEN op = 'D'`": Case(runs=[[NEW, change("D", 1, 3)], [PAID]]),
    "`APPLY AS TRUNCATE WHEN op = 'T'`": Case(
        runs=[[NEW, NEGATIVE], [{"op": "T", "ts": "2026-01-02 00:00:00"}, change("I", 3, 3, status="new")]],
        rows=[(3, "new")],
    ),
    "`IGNORE NULL UPDATES`": Case(
        runs=[[NEW], [PAID | {"status": None}]], rows=[(1, "new", 2)], asked="id, status, total"
    ),
    "`COLUMNS * EXCEPT (status)`": Case(runs=[[NEW]], rows=[(1, 1)], asked="* EXCLUDE (ts)"),
    "`STORED AS SCD TYPE 1`": Case(runs=[[NEW], [PAID]], rows=[(1, "paid")]),
    "`STORED AS SCD TYPE 2`": Case(
        runs=[[PAID], [NEW]], rows=[("new", False), ("paid", True)], asked="status, is_current"
    ),
    "`STORED AS BITEMPORAL`": Case(
        runs=[[NEW, change("U", 1, 3, status="paid", total=2)], [change("U", 1, 2, status="seen", total=2)]],
        rows=[("new", 2, True), ("new", 3, False), ("paid", None, True), ("seen", 3, True)],
        asked="status, day(valid_to), known_to IS NULL",
    ),
    "`TRACK HISTORY ON (status)`": Case(runs=VERSIONS, rows=TWO_STATES, asked=HISTORY),
    "`TRACK HISTORY ON * EXCEPT (ts, total)`": Case(runs=VERSIONS, rows=TWO_STATES, asked=HISTORY),
    "`AUTO CDC FROM SNAPSHOT`": Case(
        runs=[[{"id": 1, "status": "new"}, {"id": 2, "status": "new"}], [{"id": 2, "status": "paid"}]],
        rows=[(2, "paid")],
        more={"sequence_by": [], "columns": [{"name": "id", "type": "int"}, {"name": "status"}]},
    ),
    "`CONSTRAINT positive EXPECT (total >= 0)`": Case(
        runs=[[NEGATIVE]], rows=[(2, "new")], warns=1, tested=["positive"]
    ),
    "`… ON VIOLATION DROP ROW`": Case(runs=[[NEW, NEGATIVE]], rows=[(1, "new")], bad=["positive"]),
    "`… ON VIOLATION FAIL UPDATE`": Case(runs=[[NEW], [NEGATIVE]], rows=[(1, "new")], fails="FZ403"),
    "`incremental_strategy: merge`, `unique_key: id`": Case(runs=[[NEW, PAID]], rows=[(1, "paid")]),
    "`contract: {enforced: true}` with `data_type: int`": Case(
        runs=[[NEW, change("I", 2, 1, total="1.5")]], rows=[(1, 1)], asked="id, total", bad=["cast"]
    ),
    "`constraints: [{type: not_null}]`": Case(
        runs=[[NEW, NEGATIVE | {"status": None}]], rows=[(1, "new")], bad=["not_null"]
    ),
    "`accepted_values: {values: [new, paid]}`": Case(
        runs=[[NEW, NEGATIVE | {"status": "sent"}]], rows=[(1, "new")], bad=["accepted_values"]
    ),
    "`dbt_utils.expression_is_true`, `severity: warn`": Case(
        runs=[[NEGATIVE]], rows=[(2, "new")], warns=1, tested=["positive"]
    ),
    "`unique` of a column outside the key": Case(runs=[[NEW], [NEGATIVE]], rows=[(1, "new")], fails="FZ403"),
    "`relationships: {to: ref('customers'), field: id}` of a column `total`": Case(
        runs=[[NEW, PAID | {"id": 2}], [NEGATIVE | {"id": 3}]],
        rows=[(1, "new"), (2, "paid")],
        fails="FZ403",
        more={"marts": [{"kind": "current", "name": "customers"}]},
    ),
    "`dbt_expectations.expect_table_row_count_to_be_between`": Case(
        runs=[[NEW], [NEGATIVE, PAID | {"id": 3}]], rows=[(1, "new")], fails="FZ403"
    ),
    "`freshness: {warn_after: {count: 12, period: hour}}`, `loaded_at_field: ts`": Case(
        runs=[[NEW]], rows=[(1, "new")], tested=["fresh"]
    ),
    "`on_schema_change: ignore`": Case(runs=COLUMN, rows=[(1, "new", 1), (2, "new", 2)], asked="* EXCLUDE (ts)"),
    "`on_schema_change: append_new_columns`": Case(runs=COLUMN, rows=[(1, None), (2, "CH")], asked="id, country"),
    "`on_schema_change: fail`": Case(runs=COLUMN, rows=[(1, "new")], fails="FZ506"),
    "a snapshot with `strategy: timestamp`, `updated_at: ts`": Case(
        runs=[[NEW, PAID]], rows=[("new", False), ("paid", True)], asked="status, is_current"
    ),
    "a snapshot with `check_cols: [status]`": Case(runs=VERSIONS, rows=TWO_STATES, asked=HISTORY),
    "`hard_deletes: invalidate`": Case(runs=GONE, rows=[("new", False)], asked="status, is_current"),
    "`hard_deletes: new_record`": Case(
        runs=GONE, rows=[("new", False, False), ("new", True, True)], asked="status, is_deleted, is_current"
    ),
    "`is_deleted` by hand in a `MERGE`": Case(runs=GONE, rows=[(1, "new", True)], asked="id, status, is_deleted"),
    "envelopes as they are": Case(
        runs=[[ENVELOPE | {"before": None, "after": {name: NEW[name] for name in ("id", "ts", "status", "total")}}]],
        rows=[(1, "new")],
    ),
    "`ExtractNewRecordState`": Case(
        runs=[[NEW | {"__op": "c"}, NEGATIVE | {"__op": "c"}], [change("", 2, 2) | {"__deleted": "true", "__op": "d"}]],
        rows=[(1, "new")],
    ),
    "`unavailable.value.placeholder: gone`": Case(runs=[[NEW], [PAID | {"status": "gone"}]], rows=[(1, "new")]),
    "`ReplaceField`, `exclude: status`": Case(runs=[[NEW]], rows=[(1, 1)], asked="* EXCLUDE (ts)"),
    "`ByLogicalTableRouter`": Case(
        runs=[[NEW]],
        rows=[("eu", 1, "new"), ("us", 1, "new")],
        asked="shard, id, status",
        more={"keys": ["shard", "id"], "columns": [{"name": "shard"}, *TABLE["columns"]]},
    ),
}


def test_every_row_of_the_page_has_a_case() -> None:
    assert [row for row, _ in ROWS] == [*CASES]


def declared(number: int, setting: str, case: Case) -> dict[str, Any]:
    table = {**TABLE, **yaml.safe_load(setting), **case.more, "name": f"t{number}"}
    source = table["source"]
    shards = source.get("shards")
    if shards:
        table["source"] = source | {
            "shards": {name: shard | {"path": f"./landing/t{number}/{name}"} for name, shard in shards.items()}
        }
    else:
        table["source"] = source | {"path": f"./landing/t{number}"}
        if source["kind"] == "snapshot":
            table["source"] |= {"settle_seconds": 0, "max_delete_fraction": 1.0}
    return table


def land(folder: Path, number: int, run: int, case: Case) -> None:
    if run >= len(case.runs):
        return
    shards = ("eu", "us") if "shard" in case.asked else ("",)
    for shard in shards:
        path = folder / "landing" / f"t{number}" / shard / f"2026-01-{run + 1:02}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(record) + "\n" for record in case.runs[run]), encoding="utf-8")


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.laws)])
def test_every_row_says_what_it_does(every: int, spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    chosen = ROWS[::every]
    tables = [declared(number, setting, CASES[row]) for number, (row, setting) in enumerate(chosen)]
    pipeline = Pipeline.model_validate({"pipeline": "coming", "lake": {"warehouse": "./lake"}, "tables": tables}).at(
        tmp_path
    )
    failed: dict[str, str] = {}
    warned: dict[str, int] = {}
    for run in range(2):
        for number, (row, _) in enumerate(chosen):
            land(tmp_path, number, run, CASES[row])
        try:
            report = frazil.run(pipeline, spark=spark_session(pipeline))
        except RunFailedError as error:
            report = error.report
        failed |= {one.table: one.errors[0].code for one in report.tables if one.errors}
        for one in report.tables:
            warned[one.table] = warned.get(one.table, 0) + len(one.broken_rules)

    found = {}
    for number, (row, _) in enumerate(chosen):
        name = f"t{number}"
        mart = pipeline.tables[number].mart_name(pipeline.tables[number].marts[0])
        hidden = f"(SELECT * EXCLUDE (_cdc_position, _cdc_row) FROM marts.{mart})"
        rows = api.query(pipeline, f"SELECT {CASES[row].asked} FROM {hidden} ORDER BY ALL").rows
        bad = [rule.rule for rule in api.quarantine(pipeline, name).rules]
        broken = [one.rule for one in api.test(pipeline, select=[name]) if one.broken]
        found[row] = ([tuple(one) for one in rows], bad, failed.get(name, ""), warned[name], broken)
    cases = {row: CASES[row] for row, _ in chosen}
    want = {row: ([*case.rows], [*case.bad], case.fails, case.warns, [*case.tested]) for row, case in cases.items()}
    assert found == want
