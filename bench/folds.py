"""The folds of small batches in Arrow, beside the same in DuckDB's SQL: ``python -m bench.folds``.

Both get the changes of a batch in memory, in the shape of silver, and must return equal rows. The connection of DuckDB
is open and warm. It prints CPU milliseconds for a fold. A batch of one change shows what DuckDB needs for its plan.
"""

from __future__ import annotations

import datetime as dt
import time
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.marts.arrow.fold import INCOMPLETE, event_times, grouped_keys, newest_arrow
from frazil.marts.arrow.history import next_versions_arrow
from frazil.marts.layout import EVENT_TIME, FoldSpec

if TYPE_CHECKING:
    from collections.abc import Callable

VALUES: Final = tuple(f"value{number}" for number in range(12))
SPEC: Final = FoldSpec(
    keys=("id",), sequence_by=("ts",), columns=("id", "ts", *VALUES), event_times=("ts",), tracked=VALUES
)
SIZES: Final = (1, 100, 1_000, 10_000, 50_000)
SECONDS: Final = 2.0
_TIME: Final = pa.timestamp("us", tz="UTC")
_ORDER: Final = f"row(ts, {r.POSITION}, {r.ROW}, {r.CLASS})"
_COLUMNS: Final = ", ".join(SPEC.columns)
_TOLD: Final = "CAST(ts AS TIMESTAMPTZ)"

NEWEST: Final = f"""
    SELECT id, {", ".join(f"v.{name} AS {name}" for name in SPEC.columns if name != "id")},
        m.event_time AS {EVENT_TIME}, m.source_time AS {r.SOURCE_TIME}, m.place AS {r.POSITION}, m.number AS {r.ROW},
        least_ts AS _cdc_begins, incomplete AS {INCOMPLETE}, m.class = 'upsert' AS _cdc_is_live,
        v IS NULL AS _cdc_delete_only
    FROM (
        SELECT id, min(ts) AS least_ts,
            arg_max(struct_pack({", ".join(f"{name} := {name}" for name in SPEC.columns)}), {_ORDER})
                FILTER ({r.CLASS} = 'upsert') AS v,
            arg_max(struct_pack(event_time := {_TOLD}, source_time := {r.SOURCE_TIME}, place := {r.POSITION},
                number := {r.ROW}, class := {r.CLASS}), {_ORDER}) AS m,
            bool_or({r.CLASS} = 'upsert' AND ({r.KNOWN} IS NOT NULL OR {r.BATCH} < 0)) AS incomplete
        FROM changes GROUP BY id)"""

_ALIKE: Final = " AND ".join(f"{name} IS NOT DISTINCT FROM p.{name}" for name in SPEC.tracked)
VERSIONS: Final = f"""
    WITH whole AS (
        SELECT {_COLUMNS}, {r.POSITION}, {r.ROW}, CASE WHEN is_deleted THEN 'delete' ELSE 'upsert' END AS class,
            valid_from AS event_time, CAST(NULL AS TIMESTAMPTZ) AS source_time, true AS is_held FROM held
        UNION ALL
        SELECT {_COLUMNS}, {r.POSITION}, {r.ROW}, {r.CLASS}, {EVENT_TIME}, {r.SOURCE_TIME}, false FROM changes),
    known AS (
        SELECT *, last_value(CASE WHEN class = 'upsert' OR is_held THEN struct_pack(t := {_TOLD}) END IGNORE NULLS)
                OVER in_order AS told, row_number() OVER in_order AS number
        FROM whole WINDOW in_order AS (PARTITION BY id
            ORDER BY NOT is_held, ts, {r.POSITION}, {r.ROW}, class ROWS UNBOUNDED PRECEDING)),
    timed AS (
        SELECT *, max(CASE WHEN class = 'upsert' OR is_held THEN event_time
                WHEN told.t IS NULL OR event_time > told.t THEN coalesce(event_time, source_time)
                ELSE greatest(source_time, told.t) END)
            OVER (PARTITION BY id ORDER BY number ROWS UNBOUNDED PRECEDING) AS since
        FROM known),
    stands AS (
        SELECT *, row_number() OVER of_key AS spot
        FROM timed WINDOW of_key AS (PARTITION BY id ORDER BY number)
        QUALIFY (lead(since) OVER of_key IS DISTINCT FROM since) OR (lead(class) OVER of_key IS DISTINCT FROM class)),
    begun AS (
        SELECT *, lag(stands) OVER of_key AS p, lead(since) OVER of_key AS after_it,
            lead(class) OVER of_key AS next_class
        FROM stands WINDOW of_key AS (PARTITION BY id ORDER BY spot)),
    numbered AS (
        SELECT *, sum(CASE WHEN p IS NULL OR class <> p.class
                OR (class = 'upsert' AND NOT ({_ALIKE})) THEN 1 ELSE 0 END)
            OVER (PARTITION BY id ORDER BY spot ROWS UNBOUNDED PRECEDING) AS version
        FROM begun)
    SELECT {", ".join(f"v.{name} AS {name}" for name in SPEC.columns)}, valid_from,
        CASE WHEN v.next_class IS NOT NULL THEN v.after_it END AS valid_to, v.next_class IS NULL AS is_current,
        coalesce(v.next_class = 'delete', false) AS is_deleted, v.{r.POSITION} AS {r.POSITION}, v.{r.ROW} AS {r.ROW}
    FROM (SELECT arg_max(numbered, spot) AS v, arg_min(since, spot) AS valid_from FROM numbered GROUP BY id, version)
    WHERE v.class = 'upsert'"""


def changes_of(size: int, seed: int = 1) -> pa.Table:
    """Return the changes of a batch: three of four keys have one, the others some; one of ten is a delete."""
    lot, start = Random(seed), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    rows = []
    for number in range(size):
        is_delete = lot.random() < 0.1
        at = start + dt.timedelta(seconds=number)
        row = {"id": lot.randrange(size), "ts": at, r.BATCH: 2, r.POSITION: "1/2026", r.ROW: number + 1}
        row |= {r.CLASS: r.DELETE if is_delete else r.UPSERT, r.SOURCE_TIME: at, r.KNOWN: None}
        rows.append(row | {name: None if is_delete else f"{lot.randrange(9)}" for name in VALUES})
    kinds = {"id": pa.int64(), "ts": _TIME, **dict.fromkeys(VALUES, pa.string()), r.BATCH: pa.int64()}
    kinds |= {r.POSITION: pa.string(), r.ROW: pa.int64(), r.CLASS: pa.string(), r.SOURCE_TIME: _TIME}
    table = pa.Table.from_pylist(rows, pa.schema({**kinds, r.KNOWN: pa.list_(pa.string())}))
    return table.append_column(EVENT_TIME, event_times(table, SPEC))


def held_of(changes: pa.Table) -> pa.Table:
    """Return an open version of every second key, older than the changes."""
    keys = pc.unique(changes["id"].combine_chunks())
    keys, number = keys.take(pa.array(range(0, len(keys), 2))), (len(keys) + 1) // 2
    start = pa.scalar(dt.datetime(2025, 1, 1, tzinfo=dt.UTC), _TIME)
    columns = {"id": keys, "ts": pa.repeat(start, number)} | {name: pa.repeat("0", number) for name in VALUES}
    own = {r.POSITION: pa.repeat("0/1", number), r.ROW: pa.array(range(number), pa.int64())}
    return pa.table(columns | own | {"valid_from": pa.repeat(start, number), "is_deleted": pa.repeat(False, number)})


def by_arrow(changes: pa.Table, held: pa.Table) -> pa.Table:
    """Build versions as a run does."""
    keys = pc.unique(grouped_keys(changes, SPEC)["id"].combine_chunks())
    numbers, held_keys = (pc.index_in(one["id"].combine_chunks(), value_set=keys) for one in (changes, held))
    made = next_versions_arrow(changes, numbers, held, held_keys, SPEC, deletes="close")
    assert isinstance(made, pa.Table)
    return made


def milliseconds(work: Callable[[], object]) -> float:
    """Return the CPU time of one call, the mean of some seconds' calls after two others."""
    for _ in range(2):
        work()
    calls, begun = 0, time.process_time()
    while time.process_time() - begun < SECONDS:
        work()
        calls += 1
    return (time.process_time() - begun) / calls * 1000


def _alike(one: pa.Table, other: pa.Table) -> bool:
    rows, others = (
        sorted(map(repr, some.select(one.column_names).cast(one.schema).to_pylist())) for some in (one, other)
    )
    return rows == others


def _row(duck: duckdb.DuckDBPyConnection, size: int) -> str:
    changes = changes_of(size)
    held = held_of(changes)
    duck.register("changes", changes)
    duck.register("held", held)
    told = f"{size:8,}"
    for ours, sql in ((partial(newest_arrow, changes, SPEC), NEWEST), (partial(by_arrow, changes, held), VERSIONS)):
        theirs = partial(_by_duckdb, duck, sql)
        assert _alike(ours(), theirs()), "Arrow and DuckDB differ"
        one, other = milliseconds(ours), milliseconds(theirs)
        told += f"{one:9.1f}ms{other:8.1f}ms{other / one:7.1f}x"
    return told


def _by_duckdb(duck: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    return duck.sql(sql).to_arrow_table()


def main() -> None:
    """Print a row for each size of batch."""
    print(f"{'changes':>8}{'fold':>20}{'history':>28}\n{'':8}" + f"{'Arrow':>11}{'DuckDB':>10}{'ratio':>8}" * 2)
    with duckdb.connect() as duck:
        duck.execute("SET TimeZone = 'UTC'")
        for size in SIZES:
            print(_row(duck, size))


if __name__ == "__main__":
    main()
