"""EVOLVE: the declaration decides about new, missing and retyped fields, in runs and rebuilds alike."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.failing import run_fails_with
from tests.hostile.situation import command

import frazil
from frazil import api
from frazil.failpoints import FailpointReached
from frazil.runner.report import RunFailedError
from frazil.spark.session import spark_session
from frazil.steps import AlterTable, RenameColumn

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.runner.report import TableReport

pytestmark = pytest.mark.spark

DECLARATION = """
pipeline: shop
lake: {{warehouse: ./{lake}}}
tables:
  - name: orders
    source: {{kind: dms, path: ./landing, {form}}}
    keys: [id]
    sequence_by: [ts]
    {columns}
    evolution: {{{evolution}}}
    {more}
    marts: [{{kind: current}}, {{kind: history}}]
"""


@dataclass
class Orders:
    """A pipeline of one table over CSV files with headers, or over Parquet files."""

    folder: Path
    form: str = "header: true"
    lake: str = "lake"
    files: int = 0

    def declare(
        self, evolution: str = "", columns: str = 'columns: [{name: ts, type: timestamp}, "*"]', more: str = ""
    ) -> None:
        text = DECLARATION.format(lake=self.lake, form=self.form, evolution=evolution, columns=columns, more=more)
        (self.folder / "frazil.yml").write_text(text, encoding="utf-8")

    def _path(self) -> Path:
        self.files += 1
        (self.folder / "landing").mkdir(exist_ok=True)
        return self.folder / "landing" / f"2026010{self.files}-000000000"

    def land(self, header: str, *rows: str) -> None:
        path = self._path().with_suffix(".csv")
        records = (f"U,{row},2026-01-0{self.files} 00:00:00" for row in rows)
        path.write_text("\n".join((f"Op,{header},ts", *records, "")), encoding="utf-8")

    def land_typed(self, kind: pa.DataType, *rows: tuple[int, Any]) -> None:
        ids, values = zip(*rows, strict=True)
        seconds = pa.array([self.files * 1_000_000] * len(rows), pa.timestamp("us", "UTC"))
        arrays = [pa.array(["U"] * len(rows)), pa.array(ids, pa.int32()), pa.array(values, kind), seconds]
        pq.write_table(pa.table(arrays, ["Op", "id", "n", "ts"]), self._path().with_suffix(".parquet"))

    def run(self) -> TableReport:
        pipeline = frazil.load(self.folder)
        return frazil.run(pipeline, spark=spark_session(pipeline)).tables[0]

    def refused(self) -> str:
        """Return what a run fails with; that is said by its plan, and nothing is written."""
        before = api.query(self.folder, "SELECT count(*) FROM bronze.orders").rows
        planned = [(one.code, one.exit_code) for one in api.plan(self.folder).state.failed.values()]
        with pytest.raises(RunFailedError) as failed:
            self.run()
        assert (planned, failed.value.exit_code) == ([("FZ506", 6)], 6)
        assert api.query(self.folder, "SELECT count(*) FROM bronze.orders").rows == before
        return str(failed.value)

    def rows(self) -> list[dict[str, Any]]:
        found = api.query(self.folder, "SELECT * FROM marts.orders ORDER BY id")
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]

    def values(self) -> list[tuple[Any, ...]]:
        return [
            tuple(value for name, value in row.items() if not name.startswith(("ts", "_cdc_"))) for row in self.rows()
        ]

    def quarantine(self) -> list[tuple[Any, ...]]:
        asked = "SELECT rule, reason FROM silver.orders_quarantine ORDER BY ALL"
        return [tuple(row) for row in api.query(self.folder, asked).rows]

    def everything(self) -> list[Any]:
        """Return the expected rows of a lake with another history; later columns are last."""
        found = api.query(self.folder, "SELECT * EXCLUDE (valid_from, valid_to) FROM marts.orders_history")
        history = [sorted(zip(found.columns, map(repr, row), strict=True)) for row in found.rows]
        return [self.rows(), sorted(history), self.quarantine()]

    def is_sound(self) -> bool:
        """Whether a rebuild from bronze holds the same, and the proofs hold."""
        before, pipeline = self.everything(), frazil.load(self.folder)
        api.rebuild(self.folder, spark=spark_session(pipeline))
        return self.everything() == before and all(finding.ok is not False for finding in api.check(self.folder))


@pytest.fixture
def orders(tmp_path: Path, spark: SparkSession) -> Orders:
    del spark  # only there so that Java runs
    return Orders(tmp_path)


@pytest.mark.long
def test_new_fields_of_an_open_contract_go_where_the_declaration_says(orders: Orders) -> None:
    orders.declare("on_new_column: keep")
    orders.land("id,a", "1,one", "2,two")
    orders.run()
    orders.land("id,a,b", "1,uno,x")
    [warning] = orders.run().warnings
    assert (orders.values(), "'b'. Bronze keeps it" in warning) == ([("1", "uno"), ("2", "two")], True)

    # What was left out before stays left out, and blocks nothing.
    orders.declare("on_new_column: quarantine")
    orders.land("id,a,b,c", "1,eins,y,new", "2,zwei,z,")
    assert orders.run().quarantined == 1
    assert orders.values() == [("1", "uno"), ("2", "zwei")]
    assert orders.quarantine() == [("new_column", "c is a new field: new")]
    assert orders.is_sound()

    orders.declare("on_new_column: fail")
    orders.land("id,a,b,c,d", "3,drei,,,later")
    text = orders.refused()
    assert "1 new field: 'd' in landing/20260104-000000000.csv" in text

    # Taken at last, the tables are those of a lake that took everything at once.
    orders.declare("on_new_column: evolve")
    assert orders.run().quarantined == 0
    taken = [("1", "eins", "y", "new", None), ("2", "zwei", "z", None, None), ("3", "drei", None, None, "later")]
    assert orders.values() == taken
    at_last = orders.everything()
    orders.lake = "another"
    orders.declare()
    orders.run()
    assert orders.everything() == at_last

    # And they stay when the next ones are left out.
    orders.lake = "lake"
    orders.declare("on_new_column: keep")
    assert api.plan(orders.folder).steps == ()
    orders.land("id,a,e", "3,three,no")
    orders.run()
    assert orders.values() == [*taken[:2], ("3", "three", None, None, "later")]
    assert orders.is_sound()


@pytest.mark.laws
def test_a_list_of_columns_takes_new_fields_only_with_evolve(orders: Orders) -> None:
    columns = "columns: [{name: id, type: int}, {name: ts, type: timestamp}, {name: a}]"
    orders.declare("on_new_column: evolve", columns)
    orders.land("id,a,never", "1,one,x")
    orders.run()
    orders.land("id,a,never,b", "2,two,x,y")
    orders.run()

    assert orders.values() == [(1, "one", None), (2, "two", "y")]
    assert orders.is_sound()
    orders.declare("on_new_column: fail", columns)
    assert api.plan(orders.folder).steps == ()


@pytest.mark.laws
def test_a_missing_field_stops_the_run_or_its_records_wait(orders: Orders) -> None:
    orders.declare("on_missing_column: fail")
    orders.land("id,a,b", "1,one,x")
    orders.run()
    orders.land("id,b", "1,y")
    assert "no field 'a' in landing/20260102-000000000.csv" in orders.refused()

    orders.declare("on_missing_column: quarantine")
    assert orders.run().quarantined == 1
    assert orders.quarantine() == [("missing_column", "a: the record has no such field")]
    orders.land("id,a,b,c", "2,two,z,new")
    orders.run()
    assert orders.values() == [("1", "one", "x", None), ("2", "two", "z", "new")]
    assert orders.is_sound()

    orders.declare()
    orders.run()
    assert orders.values() == [("1", "one", "y", None), ("2", "two", "z", "new")]
    assert orders.quarantine() == []


@pytest.mark.laws
def test_another_type_widens_the_column_stops_the_run_or_is_left(orders: Orders) -> None:
    large = 2**40
    orders.form = "format: parquet"
    orders.declare("on_type_change: keep")
    orders.land_typed(pa.int32(), (1, 1))
    orders.run()
    orders.land_typed(pa.int64(), (1, large), (2, 2))
    assert (orders.run().quarantined, orders.values()) == (1, [(1, 1), (2, 2)])

    orders.declare("on_type_change: fail")
    orders.land_typed(pa.string(), (1, "three"))
    assert "n is string and was int in landing/20260103-000000000.parquet" in orders.refused()

    orders.declare("on_type_change: evolve")
    reasons = {step.reason for step in api.plan(orders.folder).steps if hasattr(step, "reason")}
    assert reasons == {"n is a string now"}
    orders.run()
    assert (orders.values(), orders.quarantine()) == ([(1, "three"), (2, "2")], [])
    orders.land_typed(pa.int32(), (2, 5))
    orders.run()
    assert orders.values() == [(1, "three"), (2, "5")]
    assert orders.is_sound()


@pytest.mark.long
def test_evolve_takes_records_that_wait_for_another_type_without_a_new_file(orders: Orders) -> None:
    finer = pa.decimal128(14, 3)
    orders.form = "format: parquet"
    orders.declare()
    orders.land_typed(pa.decimal128(12, 2), (1, Decimal("12.33")), (2, Decimal("1.00")))
    orders.run()
    orders.land_typed(finer, (1, Decimal("7.100")))
    assert orders.run().warnings == []

    # No record waits for it: a rebuild would change no number.
    orders.declare("on_type_change: evolve")
    assert api.plan(orders.folder).steps == ()

    orders.declare()
    orders.land_typed(finer, (1, Decimal("1.125")), (3, Decimal("3.000")))
    [told] = orders.run().warnings
    assert "n has the type decimal(14,3) at the source and is decimal(12,2) here" in told
    assert api.plan(orders.folder).warnings == {"orders": [told]}
    assert api.quarantine(orders.folder).retyped == {"orders": (told,)}
    assert api.status(orders.folder).tables[0].retyped == (told,)
    assert api.plan(orders.folder).steps == ()
    says = "1 record in quarantine, and the declaration lets none of them through"
    assert says in command("replay", f"{orders.folder}", "--yes").text

    orders.declare("on_type_change: evolve")
    reasons = {step.reason for step in api.plan(orders.folder).steps if hasattr(step, "reason")}
    assert reasons == {"n is a decimal(14,3) now"}
    orders.run()
    taken = [(1, Decimal("1.125")), (2, Decimal("1.000")), (3, Decimal("3.000"))]
    assert (orders.values(), orders.quarantine()) == (taken, [])
    assert api.quarantine(orders.folder).retyped == {}

    # And it stays.
    orders.declare("on_type_change: fail")
    assert api.plan(orders.folder).steps == ()
    orders.land_typed(finer, (2, Decimal("2.125")))
    assert orders.run().warnings == []
    assert orders.values() == [taken[0], (2, Decimal("2.125")), taken[2]]
    assert orders.is_sound()


@pytest.mark.long
def test_a_wider_type_that_was_kept_out_comes_once_the_policy_widens(orders: Orders) -> None:
    orders.form = "format: parquet"
    orders.declare("on_type_change: keep")
    orders.land_typed(pa.int32(), (1, 1))
    orders.run()
    orders.land_typed(pa.int64(), (1, 2**40))
    assert orders.run().quarantined == 1

    orders.declare()
    orders.land_typed(pa.int64(), (2, 2))
    orders.run()

    assert (orders.values(), orders.quarantine()) == ([(1, 2**40), (2, 2)], [])


def field_ids(folder: Path, table: str) -> dict[str, int]:
    """Read a table's columns and their ids off its newest metadata."""
    space, _, name = table.partition(".")
    newest = max((folder / "lake" / space / name / "metadata").glob("*.metadata.json"))
    metadata = json.loads(newest.read_text(encoding="utf-8"))
    schema = next(one for one in metadata["schemas"] if one["schema-id"] == metadata["current-schema-id"])
    return {field["name"]: field["id"] for field in schema["fields"]}


TABLES = ("silver.orders_changes", "marts.orders", "marts.orders_history")


@pytest.mark.parametrize("lands", [False, pytest.param(True, marks=pytest.mark.laws)])
def test_a_renamed_field_renames_the_column_and_writes_no_row(orders: Orders, *, lands: bool) -> None:
    orders.declare()
    orders.land("id,customer,n", "1,ada,1", "2,bob,2")
    orders.run()
    before = {table: field_ids(orders.folder, table) for table in TABLES}
    files = sorted(orders.folder.glob("lake/marts/*/data/**/*.parquet"))

    orders.declare(more="renames: {customer: Client}")
    if lands:
        orders.land("id,Client,n", "1,eve,3", "3,zoe,4")
    steps = [step.changes[0] for step in api.plan(orders.folder).steps if isinstance(step, AlterTable)]
    assert steps[-3:] == [RenameColumn(column="customer", name="Client")] * 3
    assert not any(getattr(step, "rebuild", False) for step in api.plan(orders.folder).steps)
    orders.run()

    if lands:
        assert orders.values() == [("1", "eve", "3"), ("2", "bob", "2"), ("3", "zoe", "4")]
    else:
        assert sorted(orders.folder.glob("lake/marts/*/data/**/*.parquet")) == files
        assert orders.values() == [("1", "ada", "1"), ("2", "bob", "2")]
    for table in TABLES:
        ids = field_ids(orders.folder, table)
        assert "customer" not in ids
        assert ids["Client"] == before[table]["customer"]
    assert api.plan(orders.folder).steps == ()

    # An old file that comes late has the old name, and loses nothing.
    orders.land("id,customer,n", "4,old,5")
    orders.run()
    assert orders.values()[-1] == ("4", "old", "5")
    assert orders.is_sound()


@pytest.mark.laws
def test_a_renamed_field_is_no_reason_to_forget_what_else_was_declared(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a run dies after renaming the column and before rebuilding silver, the next run rebuilds silver."""
    columns = "columns: [{{name: id}}, {{name: ts, type: timestamp}}, {{name: {}}}, {{name: n, expr: '{}'}}]"
    orders.declare(columns=columns.format("customer", "n"))
    orders.land("id,customer,n", "1,ada,1")
    orders.run()

    orders.declare(columns=columns.format("Client", "concat(n, n)"), more="renames: {customer: Client}")
    monkeypatch.setenv("FRAZIL_FAILPOINT", "silver.before_write:raise")
    with run_fails_with(FailpointReached):
        orders.run()
    monkeypatch.delenv("FRAZIL_FAILPOINT")
    orders.run()

    assert orders.values() == [("1", "ada", "11")]


@pytest.mark.laws
def test_fields_that_were_two_columns_become_one(orders: Orders) -> None:
    orders.declare()
    orders.land("id,customer,n", "1,ada,1", "2,bob,2")
    orders.run()
    orders.land("id,client,n", "1,eve,3", "3,zoe,4")
    orders.run()
    assert len(orders.rows()[0]) - len(orders.values()[0]) == len({"ts", "_cdc_position", "_cdc_row"})
    orders.land("id,partner,n", "2,kim,")
    orders.run()

    orders.declare(more="renames: {customer: client, client: partner}")
    reasons = {step.reason for step in api.plan(orders.folder).steps if hasattr(step, "reason")}
    assert reasons == {"renames changed"}
    orders.run()

    assert [(row["id"], row["partner"], row["n"]) for row in orders.rows()] == [
        ("1", "eve", "3"),
        ("2", "kim", None),
        ("3", "zoe", "4"),
    ]
    assert {"customer", "client"}.isdisjoint(orders.rows()[0])
    assert orders.is_sound()


def test_an_expression_over_the_former_name_fails_in_validation(orders: Orders) -> None:
    columns = "columns: [{name: id, type: int}, {name: ts, type: timestamp}, {name: loud, expr: upper(customer)}%s]"
    orders.declare(columns=columns % ", {name: customer}")
    orders.land("id,customer", "1,ada")
    orders.run()

    orders.declare(columns=columns % ", {name: client}", more="renames: {customer: client}")

    [error] = api.plan(orders.folder).state.failed.values()
    assert "reads 'customer', which is not a field" in str(error)
