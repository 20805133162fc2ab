"""Statistics of a batch are the same whether Spark measures it or Arrow."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from tests.silver.test_arrow_types import drawn

from frazil.runner.batch.batch_stats import Measures, Newest, batch_stats, measure, measure_newest, newest_of
from frazil.runner.batch.driver_batch import spark_frame, spark_types
from frazil.silver.arrow import proven
from frazil.silver.contract import Contract
from frazil.spec import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KINDS = ("int", "bigint", "date", "string", "timestamp", "timestamp_ntz", "decimal(10,2)", "decimal(38,0)", "double")
ALIKE = ("bigint", "date", "timestamp_ntz", "decimal(10,2)")
"""Kinds that are measured like another one."""
FAR = {"bigint": [2**62, -(2**62), 2**63 - 1, -(2**63)], "int": [2**31 - 1, -(2**31)]}


def contract_of(key: str, sequence: str | None, event_time: str | None = None) -> Contract:
    kinds = {"k": key, "s": sequence or "int", "t": "string", "u": "string"}
    kinds |= {"e": event_time} if event_time else {}
    return Contract(
        columns=tuple(Column(name=name, type=kind) for name, kind in kinds.items()),
        keys=("k",),
        sequence_by=("s",) if sequence else (),
        event_time="e" if event_time else None,
        fields=(),
    )


def rows_of(contract: Contract, count: int, seed: int) -> pa.Table:
    """Return rows with values of all types, and some NULLs outside key and sequence."""
    lot = random.Random(seed)
    columns = {}
    for column in contract.columns:
        values, is_proven = proven(pa.array(drawn(column.type, 50)), column.type)
        some = [*values.filter(is_proven).to_pylist(), *FAR.get(column.type, [])]
        picked = lot.choices(some, k=count)
        columns[column.name] = [None if column.name in "tu" and lot.random() < 0.3 else one for one in picked]
        if column.name == "e" and seed % 3 == 0:
            columns["e"] = [None if lot.random() < 0.3 else one for one in picked]
    columns["_cdc_position"] = [f"1/{lot.choice(['a', 'B', 'é', '10'])}/" for _ in range(count)]
    columns["_cdc_source_time"] = [None] * count
    return pa.table(columns, to_arrow_schema(spark_types(types_of(contract))))


def types_of(contract: Contract) -> dict[str, str]:
    return {column.name: column.type for column in contract.columns} | {
        "_cdc_position": "string",
        "_cdc_source_time": "timestamp",
    }


@pytest.mark.parametrize(
    "sequence", [None, *(pytest.param(kind, marks=pytest.mark.laws if kind in ALIKE else ()) for kind in KINDS)]
)
def test_both_measure_alike(spark: SparkSession, sequence: str | None) -> None:
    told = []
    before = Newest(order=5 if sequence else "1/B/", time=0)
    for number, key in enumerate(KINDS):
        contract = contract_of(key, sequence, [None, "date", "timestamp", "timestamp_ntz"][number % 4])
        for count in (0, 1, 3):
            rows = rows_of(contract, count, number * 10 + count)
            frame = spark_frame(spark, rows, spark_types(types_of(contract)))
            mine, theirs = Measures.of_rows(rows, contract), measure(frame, contract)
            assert newest_of(rows, contract) == measure_newest(frame, contract)
            told.append((mine is not None) == ((sequence or key) != "double"))
            if mine is not None:
                assert batch_stats(mine, contract, before=before) == batch_stats(theirs, contract, before=before), key

    assert all(told)


def test_positions_order_a_batch_without_a_sequence() -> None:
    contract = contract_of("int", None, "timestamp")
    rows = rows_of(contract, 3, 1)
    places, times = (["1/b/", "1/c/", "1/b/"], [20, 10, None])
    rows = rows.set_column(rows.schema.get_field_index("_cdc_position"), "_cdc_position", pa.array(places))
    at = rows.schema.get_field_index("e")

    def stats(before: Newest, times: list[int | None]) -> tuple[bool, bool, Newest]:
        timed = rows.set_column(at, "e", pa.array(times, pa.int64()).cast(rows.schema.field("e").type))
        measures = Measures.of_rows(timed, contract)
        assert measures is not None
        found = batch_stats(measures, contract, before=before)
        return found.all_newer, found.all_after, found.newest

    assert stats(Newest(order="1/a/", time=9), [20, 10, 30]) == (True, True, Newest(order="1/c/", time=30))
    assert stats(Newest(order="1/b/", time=10), [20, 10, 30]) == (False, False, Newest(order="1/c/", time=30))
    assert stats(Newest(order="2/", time=9), times) == (False, False, Newest(order="2/", time=20))
    # What is not known of the batches before is known of none.
    assert stats(Newest(), [20, 10, 30]) == (False, False, Newest())


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_a_year_that_python_does_not_know_is_left_to_spark(kind: str) -> None:
    contract = contract_of("int", kind)
    far = pa.array([3_000_000], pa.int32()) if kind == "date" else pa.array([3_000_000 * 86_400_000_000], pa.int64())
    rows = rows_of(contract, 1, 0).set_column(1, "s", far.cast(rows_of(contract, 0, 0).schema.field("s").type))

    assert Measures.of_rows(rows, contract) is None
