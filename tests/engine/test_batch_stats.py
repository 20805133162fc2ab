"""Statistics of a batch are the same whether Spark measures it or Arrow."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from tests.silver.test_arrow_types import drawn

from frazil.engine.batch_stats import Measures, batch_stats, measure, measure_newest_sequence, newest_sequence
from frazil.engine.driver_batch import spark_frame, spark_types
from frazil.silver.arrow_types import proven
from frazil.silver.contract import Contract
from frazil.spec import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KINDS = ("int", "bigint", "date", "string", "timestamp", "timestamp_ntz", "decimal(10,2)", "decimal(38,0)", "double")
FAR = {"bigint": [2**62, -(2**62), 2**63 - 1, -(2**63)], "int": [2**31 - 1, -(2**31)]}


def contract_of(key: str, sequence: str | None) -> Contract:
    kinds = {"k": key, "s": sequence or "int", "t": "string", "u": "string"}
    return Contract(
        columns=tuple(Column(name=name, type=kind) for name, kind in kinds.items()),
        keys=("k",),
        sequence_by=("s",) if sequence else (),
        event_time=None,
        fields=(),
    )


def rows_of(contract: Contract, count: int, seed: int) -> pa.Table:
    """Return rows with values of all types, and some NULLs that stand in no key and no sequence."""
    lot = random.Random(seed)
    columns = {}
    for column in contract.columns:
        values, is_proven = proven(pa.array(drawn(column.type, 50)), column.type)
        some = [*values.filter(is_proven).to_pylist(), *FAR.get(column.type, [])]
        picked = lot.choices(some, k=count)
        columns[column.name] = [None if column.name in "tu" and lot.random() < 0.3 else one for one in picked]
    schema = to_arrow_schema(spark_types({column.name: column.type for column in contract.columns}))
    return pa.table(columns, schema)


@pytest.mark.parametrize("sequence", [*KINDS, None])
def test_both_measure_alike(spark: SparkSession, sequence: str | None) -> None:
    told = []
    for number, key in enumerate(KINDS):
        contract = contract_of(key, sequence)
        for count in (0, 1, 3):
            rows = rows_of(contract, count, number * 10 + count)
            frame = spark_frame(spark, rows, spark_types({one.name: one.type for one in contract.columns}))
            mine, theirs = Measures.of_rows(rows, contract), measure(frame, contract)
            assert newest_sequence(rows, contract) == measure_newest_sequence(frame, contract)
            told.append((mine is not None) == ((sequence or key) != "double"))
            if mine is not None:
                assert batch_stats(mine, contract, before=5) == batch_stats(theirs, contract, before=5), (key, rows)

    assert all(told)


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_a_year_that_python_does_not_know_is_left_to_spark(kind: str) -> None:
    contract = contract_of("int", kind)
    far = pa.array([3_000_000], pa.int32()) if kind == "date" else pa.array([3_000_000 * 86_400_000_000], pa.int64())
    rows = rows_of(contract, 1, 0).set_column(1, "s", far.cast(rows_of(contract, 0, 0).schema.field("s").type))

    assert Measures.of_rows(rows, contract) is None
