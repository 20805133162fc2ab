"""IDENTITY: different records of one key in a full load mean that key columns are missing in the declaration."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.errors import ContractError
from frazil.older_spark import to_arrow
from frazil.runner.batch.bronze_records import bronze_records
from frazil.runner.batch.driver_batch import spark_frame
from frazil.silver.evolution import renamed_records
from frazil.sources.base import SNAPSHOT, is_snapshot
from frazil.sources.kinds import source_of
from frazil.spark.expressions import expressions_of
from frazil.spec.amount import counted
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.runner.batch.batch_stats import Ingested
    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.sources.base import LoadMeaning
    from frazil.steps import Normalize

_KEY, _LOAD, _HASH = "_cdc_key", "_cdc_load", "_cdc_hash"
_KEYS_LOOKED_AT: Final = 1_000
_RECORDS_LOOKED_AT: Final = 20_000
_COLUMNS_TRIED: Final = 30
_MOST_COLUMNS: Final = 2
"""Maximum number of columns that the error proposes as further keys."""


class RepeatedKeyError(ContractError):
    """A full load has different records of one key."""

    code = "FZ415"


@dataclass(frozen=True, slots=True)
class _Repeated:
    """Keys of a batch's full loads that have different records.

    Attributes:
        batch: number of the batch.
        keys: number of keys in the loads.
        repeated: number of keys with different records.
        example: one such key.
    """

    batch: int
    keys: int
    repeated: int
    example: str


def verify_load_keys(
    context: TableRun, step: Normalize, contract: Contract, ingested: Ingested | None, at_hand: pa.Table | None
) -> None:
    """Refuse full loads with different records of one key, beyond the share of keys that the table allows.

    Args:
        context: the table's part of the run.
        step: the batches.
        contract: the table's contract.
        ingested: the batch that was just appended to bronze; None without one.
        at_hand: its rows if they are in the driver's memory.

    Raises:
        RepeatedKeyError: too many keys have different records; the batch stays invisible past bronze.

    Cost: free for batches without a full load. Otherwise one Spark job over the keys of the loads, or none if their
        rows are in the driver's memory; more jobs only if keys repeat.
    """
    fields = {name.lower(): name for name, _ in contract.fields}
    load = source_of(context.table).meaning(fields, r.POSITION).load
    is_new = ingested is not None and not step.rebuild and step.after + 1 == step.upto == ingested.batch
    if is_new and load is None and ingested is not None and not ingested.has_loads:
        return
    if at_hand is not None and _names_each_once(at_hand, contract, load):
        return
    records = _loads(context, step, contract, at_hand, load)
    if at_hand is None and not _comes_again(records):
        return
    for one in _repeated(records):
        _judge(context, contract, one, records)


def _names_each_once(rows: pa.Table, contract: Contract, load: LoadMeaning | None) -> bool:
    """Return whether rows of bronze in memory provably have one record per key of a load."""
    fields = {name.lower(): name for name, _ in contract.fields}
    columns = {column.name: column for column in contract.columns}
    if load is None:
        is_read = pc.starts_with(rows[r.POSITION], SNAPSHOT)
    elif load.operation in rows.column_names:
        is_read = pc.is_in(rows[load.operation], pa.array(load.reads))
    else:
        return False
    is_load = pc.and_(pc.equal(rows[r.KIND], r.RECORD), is_read)
    if not pc.any(is_load).as_py():
        return True
    names = [fields.get(key.lower(), "") for key in contract.keys]
    if any(columns[key].expr is not None for key in contract.keys) or not {*names} <= {*rows.column_names}:
        return False
    keys = rows.filter(is_load).select(names)
    return bool(keys.group_by(names).aggregate([]).num_rows == keys.num_rows)


def _loads(
    context: TableRun, step: Normalize, contract: Contract, at_hand: pa.Table | None, load: LoadMeaning | None
) -> DataFrame:
    """Return the records of full loads with keys (a struct), load and hash; records with a NULL key are left out.

    The source names the load of a record; by default a load is the files of one folder in one batch. A second load
    repeats the same keys, which is not an error.
    """
    bronze = context.head(context.bronze).bookmark
    rows = bronze_records(context, step, bronze) if at_hand is None else spark_frame(context.spark, at_hand)
    if load is None:
        is_read, name = is_snapshot(r.POSITION), f"regexp_extract({r.FILE}, '^(.*)/', 1)"
    else:
        is_read, name = f"{quote(load.operation)} IN ({', '.join(map(literal, load.reads))})", load.name
    rows = rows.where(f"{r.KIND} = {literal(r.RECORD)} AND {is_read}")
    rows = renamed_records(rows, context.table, bronze)
    fields = {name.lower(): name for name, _ in contract.fields}
    made, keys = expressions_of(context.spark, contract).made, []
    # Fields that the source adds to all records of a place, such as the shard, do not distinguish them.
    found = [key for key in contract.keys if key in made or key.lower() in fields]
    for key in found:
        if key in made:
            rows = rows.withColumn(f"{_KEY}_{key}", made[key]["value"])
        field = f"{_KEY}_{key}" if key in made else fields[key.lower()]
        keys.append(f"{quote(field)} AS {quote(key)}")
    payload = [name for name, _ in contract.fields if not context.table.source.is_bookkeeping(name)]
    hashed = ", ".join(f"{quote(name)} IS NULL, {quote(name)}" for name in payload)
    rows = rows.selectExpr(
        *(quote(name) for name in payload),
        r.BATCH,
        f"named_struct('batch', {r.BATCH}, 'name', {name}) AS {_LOAD}",
        f"struct({', '.join(keys)}) AS {_KEY}",
        f"xxhash64({hashed}) AS {_HASH}",
    )
    known = [f"{_LOAD}.name IS NOT NULL", *(f"{quote(_KEY, key)} IS NOT NULL" for key in found)]
    return rows.where(" AND ".join(known))


def _comes_again(records: DataFrame) -> bool:
    """Return whether some key may have several records; a later step separates different keys with equal hashes."""
    hashes = records.selectExpr(f"xxhash64({_LOAD}, {_KEY}) AS {_KEY}").groupBy(_KEY).count()
    return not hashes.where("count > 1").isEmpty()


def _repeated(records: DataFrame) -> list[_Repeated]:
    """Return the batches whose loads have different records of one key."""
    by_key = records.groupBy(_LOAD, _KEY).agg(F.min(_HASH).alias("least"), F.max(_HASH).alias("most"))
    differs = "least <> most"
    counts = ("count(*) AS keys", f"count_if({differs}) AS repeated")
    example = f"min(CASE WHEN {differs} THEN to_json({_KEY}) END) AS example"
    found = by_key.groupBy(F.col(f"{_LOAD}.batch")).agg(*map(F.expr, (*counts, example))).where("repeated > 0")
    return [_Repeated(row["batch"], row["keys"], row["repeated"], row["example"]) for row in found.collect()]


def _judge(context: TableRun, contract: Contract, one: _Repeated, records: DataFrame) -> None:
    """Refuse a batch with too many repeated keys; warn about a few."""
    table = context.table
    limit = table.max_repeated_key_fraction
    keys = ", ".join(contract.keys)
    said = (
        f"{one.repeated:,} of {counted(one.keys, 'key')} of the full load in batch {one.batch} "
        f"{'has' if one.repeated == 1 else 'have'} several different records, such as {one.example}"
    )
    if one.repeated <= limit * one.keys:
        context.report.warnings.append(f"{said}: the last of each counts; is keys: [{keys}] complete?")
        return
    more = _more_columns(contract, _sample(records, one.batch))
    better = f"keys: [{keys}, {', '.join(more)}] names each record once" if more else "no other column or two do it"
    raise RepeatedKeyError(
        f"table {table.name!r}: {said}; keys: [{keys}] would drop all but the last of each. "
        "They are in bronze, nothing of the batch is visible past it",
        hint=f"{better}; correct the keys and run again. If the load is right, raise max_repeated_key_fraction",
    )


def _sample(records: DataFrame, batch: int) -> pa.Table:
    """Return records of some keys that have different records."""
    here = records.where(F.col(f"{_LOAD}.batch") == batch)
    differing = here.groupBy(_LOAD, _KEY).agg(F.min(_HASH).alias("least"), F.max(_HASH).alias("most"))
    some = differing.where("least <> most").select(_LOAD, _KEY).limit(_KEYS_LOOKED_AT)
    found = here.join(F.broadcast(some), [_LOAD, _KEY], "left_semi").limit(_RECORDS_LOOKED_AT)
    # A repeated record counts once.
    return to_arrow(found.dropDuplicates([_HASH]).withColumn(_KEY, F.to_json(_KEY)).drop(_LOAD, _HASH, r.BATCH))


def _more_columns(contract: Contract, sample: pa.Table) -> list[str]:
    """Return the fewest columns that distinguish the records of a key; order columns are not tried."""
    left_out = {name.lower() for name in (*contract.keys, *contract.sequence_by, _KEY)}
    names = [name for name in sample.column_names if name.lower() not in left_out and not sample[name].null_count]
    for size in range(1, _MOST_COLUMNS + 1):
        for some in combinations(names[:_COLUMNS_TRIED], size):
            if sample.group_by([_KEY, *some]).aggregate([]).num_rows == sample.num_rows:
                return [*some]
    return []
