"""The conformance suite of :class:`frazil.runner.apply.mart_batch.ApplyBackend`: the same cases through every backend.

The cases are drawn in :mod:`tests.marts.apply_cases`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.counting import Counts, Picture, counted
from tests.marts.apply_cases import SETS, changes_of

from frazil.lake.row_lookup import AT_FILE, AT_POS
from frazil.marts.layout import fold_spec, mart_columns, with_event_time
from frazil.runner.apply.arrow import arrow_delta
from frazil.runner.apply.mart_batch import BatchChanges, MartBatch, MartTarget, PositionDelta
from frazil.runner.apply.spark import spark_delta
from frazil.runner.batch.batch_stats import batch_stats, measure, measure_newest
from frazil.runner.batch.driver_batch import DriverBatch, spark_frame, spark_types
from frazil.runner.sessions import SETTINGS
from frazil.runner.steps.marts import kept_rows
from frazil.runner.table_run import SMALL_RUN, FrameCache
from frazil.silver.changes import rows_of_batches
from frazil.silver.contract import Contract
from frazil.spec import Column, Current, History
from frazil.steps import NeedsSpark
from frazil.testing import oracle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from tests.marts.apply_cases import CaseSet

    from frazil.runner.apply.mart_batch import ApplyBackend, MartDelta

    Row = dict[str, Any]

KEYS, SEQUENCE = ("case", "id"), ("ts",)
TYPES = {"case": "int", "id": "int", "ts": "timestamp", "value": "string"}
CONTRACT = Contract(
    columns=tuple(Column(name=name, type=kind) for name, kind in TYPES.items()),
    keys=KEYS,
    sequence_by=SEQUENCE,
    event_time="ts",
    fields=(),
)
MARTS: dict[str, Current | History] = {
    "hard": Current(deletes="hard"),
    "soft": Current(deletes="soft"),
    "close": History(deletes="close"),
    "mark": History(deletes="mark"),
}
BACKENDS: dict[str, ApplyBackend] = {"spark": spark_delta, "arrow": arrow_delta, "arrow, finds rows": arrow_delta}
ARROW = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
SILVER = (
    TYPES
    | {"_cdc_class": "string", "_cdc_position": "string", "_cdc_row": "bigint", "_cdc_batch": "bigint"}
    | {"_cdc_source_time": "timestamp"}
)


def expected(mart: str, rows: Sequence[Row]) -> list[Row]:
    """Ask the oracle what a mart holds after some changes."""
    columns = list(TYPES)
    changes = [
        oracle.Change(
            key=(row["case"], row["id"]),
            sequence=(row["ts"],),
            position=row["_cdc_position"],
            row=row["_cdc_row"],
            deleted=row["_cdc_class"] == "delete",
            values={name: row[name] for name in row["_cdc_known"] or columns},
            event_time=row["ts"],
            source_time=row["_cdc_source_time"],
        )
        for row in rows
    ]
    match mart:
        case "hard":
            return oracle.current(changes, columns)
        case "soft":
            return oracle.soft(changes, columns)
        case "close" | "mark":
            return oracle.history(changes, columns, ("value",), "close" if mart == "close" else "mark")
        case _:
            raise AssertionError(mart)


def table_of(rows: Sequence[Row], types: dict[str, str]) -> pa.Table:
    """Rows as an Arrow table of some columns."""
    return pa.Table.from_pylist(list(rows), pa.schema({name: ARROW[kind] for name, kind in types.items()}))


def batch_of(
    spark: SparkSession, mart: str, cases: CaseSet, rows: Sequence[Row], before: Sequence[Row], *, finds: bool
) -> MartBatch:
    """Set up silver and the mart as they are before the batch is applied; ``finds``: without Spark."""
    known = pa.array([row["_cdc_known"] for row in rows], pa.list_(pa.string()))
    silver = table_of(rows, SILVER).append_column("_cdc_known", known)
    frame = spark_frame(spark, silver)
    frame.createOrReplaceTempView("backend_silver")
    new = silver.filter(pa.compute.equal(silver["_cdc_batch"], 2))

    def find_deletes(keys: pa.Table, also: Sequence[str], bounds: Mapping[str, pa.Scalar]) -> pa.Table | NeedsSpark:
        if not finds:
            return NeedsSpark("large")
        deletes = silver.filter(pa.compute.equal(silver["_cdc_class"], "delete"))
        if bounds:
            reach = [
                pa.compute.fill_null(pa.compute.greater_equal(deletes[name], bounds[name]), False) for name in bounds
            ]
            deletes = deletes.filter(reduce(pa.compute.or_, reach))
        found = deletes.drop_columns("_cdc_known").join(keys, keys=[*KEYS], join_type="left semi")
        return found.select([*dict.fromkeys([*KEYS, *also, "_cdc_class"])])

    def find_all(keys: pa.Table, also: Sequence[str]) -> pa.Table | NeedsSpark:
        if not finds:
            return NeedsSpark("large")
        every = silver.drop_columns("_cdc_known").join(keys, keys=[*KEYS], join_type="left semi")
        return every.select([*dict.fromkeys([*KEYS, *also])])

    changes = BatchChanges(
        spark=spark,
        silver="backend_silver",
        bronze="backend_bronze",
        files=2,
        after=1,
        upto=2,
        driver_batch=DriverBatch(new, frame.schema) if cases.in_driver else None,
        find_deletes=find_deletes,
        find_all=find_all,
        cache=FrameCache(),
        is_shared=True,
    )
    declared = MARTS[mart]
    spec = fold_spec(CONTRACT, declared, since={}, partial=cases.partial)
    columns = mart_columns(declared, CONTRACT)
    held = table_of(before, columns).append_column(AT_POS, pa.array(range(len(before)), pa.int64()))
    target = with_event_time(spark_frame(spark, held), spec, f"'here' AS {AT_FILE}")

    def find(values: pa.Table, also: Sequence[str], flag: str | None = None) -> pa.Table | NeedsSpark:
        if not finds:
            return NeedsSpark("large")
        among = held if flag is None else held.filter(held[flag])
        found = among.join(values, keys=[*KEYS], join_type="left semi")
        return found.select([*KEYS, *also, AT_POS]).append_column(AT_FILE, pa.repeat("here", found.num_rows))

    newest = measure_newest(rows_of_batches(frame, 0, 1), CONTRACT)
    return MartBatch(
        target=MartTarget(
            name=mart,
            mart=declared,
            spec=spec,
            read=lambda: target,
            rows=len(before),
            find=find,
        ),
        changes=changes,
        stats=batch_stats(measure(changes.new(spec), CONTRACT), CONTRACT, before=newest),
        policy=cases.policy,
    )


def applied(batch: MartBatch, delta: MartDelta, before: Sequence[Row]) -> list[Row]:
    """Rows of the mart once a delta is written."""
    columns = [*mart_columns(batch.mart, CONTRACT)]
    if isinstance(delta, PositionDelta):
        gone = [*zip(*(delta.positions[name].to_pylist() for name in ("file_path", "pos")), strict=True)]
        # Of a key that is recomputed a history loses every version.
        assert len(gone) == len({*gone})
        assert len(gone) == delta.counts.replaced or delta.counts.recompute
        new: list[Row] = delta.rows.select(columns).to_pylist()
        return new + [row for number, row in enumerate(before) if ("here", number) not in gone]
    rows: list[Row] = kept_rows(batch, delta).unionByName(delta.rows).select(*columns).toArrow().to_pylist()
    return rows


def frozen(rows: Sequence[Row]) -> Counter[tuple[tuple[str, Any], ...]]:
    return Counter(tuple(sorted(row.items())) for row in rows)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session with the settings that small batches are applied with."""
    session = spark.newSession()
    for name, value in (SETTINGS | SMALL_RUN).items():
        session.conf.set(name, value)
    return session


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mart", MARTS)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.laws] * ("large" in name)) for name in SETS])
def test_a_delta_makes_of_a_mart_what_the_oracle_says(
    name: str, mart: str, backend: str, session: SparkSession
) -> None:
    """ORDER, LATE, NO-RESURRECTION, UNSEEN, DELETES, HISTORY, MISSING-IS-NOT-NULL; rows and counts."""
    cases = SETS[name]
    rows = [*changes_of(cases.cases)]
    old = [row for row in rows if row["_cdc_batch"] == 1]
    before, after = expected(mart, old), expected(mart, rows)
    batch = batch_of(session, mart, cases, rows, before, finds="finds" in backend)

    delta = BACKENDS[backend](batch)

    if isinstance(delta, NeedsSpark):
        # Arrow leaves to Spark what must be recomputed where it does not find it, or changes lack columns.
        assert backend == "arrow" or (backend == "arrow, finds rows" and cases.partial)
        assert cases.recomputes
        assert mart != "hard" or cases.partial
        return
    assert frozen(applied(batch, delta, before)) == frozen(after)
    counts = delta.counts
    shown = counted(Picture([*old], {mart: [*before]}), Picture([*rows], {mart: [*after]}), KEYS, SEQUENCE)
    assert Counts(counts.inserted, counts.updated, counts.deleted, counts.late) == shown[mart]


@pytest.mark.parametrize("mart", MARTS)
@pytest.mark.parametrize("name", ["in time", "incomplete", "overlapping", "overlapping, large", "late"])
def test_where_the_driver_finds_all_spark_is_asked_nothing(name: str, mart: str, session: SparkSession) -> None:
    """Not for rows of the mart, not for tombstones, and not for all changes of keys that are recomputed."""
    rows = [*changes_of(SETS[name].cases)]
    before = expected(mart, [row for row in rows if row["_cdc_batch"] == 1])
    batch = batch_of(session, mart, SETS[name], rows, before, finds=True)
    in_memory = batch.changes.in_memory(batch.spec)
    changes = replace(batch.changes, driver_batch=DriverBatch(in_memory, spark_types({})), silver="nobody")

    def refuse() -> DataFrame:
        raise AssertionError

    delta = arrow_delta(replace(batch, target=replace(batch.target, read=refuse), changes=changes))

    assert not isinstance(delta, NeedsSpark)
    assert frozen(applied(batch, delta, before)) == frozen(expected(mart, rows))
