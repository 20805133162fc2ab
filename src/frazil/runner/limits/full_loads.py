"""Full loads that cannot be right: keys named twice, second loads that disagree, snapshots without an end.

IDENTITY: different records of one key in a full load mean that key columns are missing in the declaration.

HANDOVER: a second full load must agree with the table, because nothing orders it among changes. The name of a full load
file has no time. Full loads are ordered before all changes, which is right for the first one. A second one is newer
than some changes: the source repeated it after a gap. If the table has each of its rows, and no others, the order does
not matter. Otherwise the run stops. Files of one load may arrive in several runs, also after changes. They have
different keys. So a load is a second one if it shares a key with other load files. A copy of a load has no records: it
is known by its content.

LOUD: rows that a new snapshot lacks stay in the table if no record marks its end, so the run warns.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.errors import ContractError
from frazil.marts.fold import NEWEST, VALUES, fill, newest
from frazil.marts.layout import columns_of, fold_spec, same, with_event_time
from frazil.marts.query import query_frames
from frazil.older_spark import to_arrow
from frazil.runner.batch.bronze_records import bronze_records, columns_since, read_ledger
from frazil.runner.batch.driver_batch import spark_frame
from frazil.silver.evolution import renamed_bookmark, renamed_records
from frazil.sources.base import SNAPSHOT, is_snapshot
from frazil.sources.kinds import source_of
from frazil.spark.expressions import expressions_of
from frazil.spec.amount import counted
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, Row

    from frazil.marts.layout import FoldSpec
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


_FOLDER: Final = "frazil_folder"
_FOLDER_OF: Final = f"regexp_extract({r.FILE}, '^(.*)/', 1)"


class SecondLoadError(ContractError):
    """A second full load differs from the table, and nothing says which is newer."""

    code = "FZ417"


def verify_second_loads(
    context: TableRun,
    step: Normalize,
    contract: Contract,
    ingested: Ingested | None,
    changes: Callable[[], DataFrame],
) -> None:
    """Refuse second full loads that differ from the table.

    Args:
        context: the table's part of the run.
        step: the batches.
        contract: the table's contract.
        ingested: the batch that was just appended to bronze; None without one.
        changes: function that returns all good changes up to the step's last batch, in the shape of silver.

    Raises:
        SecondLoadError: the table would lack rows of a second load, have other values, or have more rows; the batch
            stays invisible past bronze.

    Cost: free for batches without a full load, and for the first one if it is in one folder. Otherwise a job over the
        keys of all full loads. For a second load, a fold of the whole table.
    """
    if not context.table.source.compares_loads:
        return
    accepted = context.head(context.changes).batch
    if ingested is not None and accepted + 1 == step.upto == ingested.batch and not ingested.has_loads:
        return
    loads = [path for path, place in read_ledger(context).places.items() if place.startswith(SNAPSHOT)]
    if not accepted and len({path.rpartition("/")[0] for path in loads}) <= 1:
        return
    members = _members(context, accepted, step.upto)
    if members.isEmpty():
        return
    whole = changes()
    for folder in _second_loads(contract, whole, members):
        _verify(context, contract, folder, whole, members)


def _members(context: TableRun, accepted: int, upto: int) -> DataFrame:
    """Return folder and file of new full load files with records. For a copy it is the file that has the records."""
    ledger = context.spark.table(quote(*context.bronze)).where(
        f"{r.KIND} = {literal(r.LEDGER_ROW)} AND {r.LEDGER}.load AND {r.BATCH} > {accepted} AND {r.BATCH} <= {upto}"
    )
    files = ledger.selectExpr(
        f"{_FOLDER_OF} AS {_FOLDER}", f"coalesce({r.LEDGER}.same_as, {r.FILE}) AS {r.FILE}", f"{r.LEDGER}.same_as"
    )
    own = files.where("same_as IS NULL").select(_FOLDER).distinct()
    return files.join(own, _FOLDER, "left_semi").drop("same_as").distinct()


def _second_loads(contract: Contract, whole: DataFrame, members: DataFrame) -> list[str]:
    """Return the folders of new full loads that share a key with other full load files."""
    found = query_frames(
        f"""
        SELECT DISTINCT one.{_FOLDER} FROM (
            SELECT {columns_of(contract.keys, "w")}, m.{_FOLDER}
            FROM frazil_whole AS w JOIN frazil_members AS m ON w.{r.FILE} = m.{r.FILE}
            WHERE {is_snapshot(f"w.{r.POSITION}")}
        ) AS one JOIN frazil_whole AS other ON {same(contract.keys, "one", "other")}
        LEFT ANTI JOIN frazil_members AS m ON other.{r.FILE} = m.{r.FILE} AND one.{_FOLDER} = m.{_FOLDER}
        WHERE {is_snapshot(f"other.{r.POSITION}")}""",
        frazil_whole=whole,
        frazil_members=members,
    )
    return sorted(row[0] for row in found.collect())


def _verify(context: TableRun, contract: Contract, folder: str, whole: DataFrame, members: DataFrame) -> None:
    """Refuse a second full load that differs from the table."""
    bronze = renamed_bookmark(context.table, context.head(context.bronze).bookmark)
    spec = fold_spec(contract, None, since=columns_since(contract, bronze), partial=True)
    files = members.where(F.col(_FOLDER) == folder).select(r.FILE)
    load = with_event_time(whole.where(is_snapshot(r.POSITION)).join(files, r.FILE, "left_semi"), spec)
    table = newest(fill(with_event_time(whole, spec), spec), spec)
    differs = f"l.{VALUES} IS NOT NULL AND t.{VALUES} IS NOT NULL AND {_differs(spec)}"
    key = ", ".join(f"coalesce({quote('l', name)}, {quote('t', name)}) AS {quote(name)}" for name in spec.keys)
    found = query_frames(
        f"""
        SELECT
            count_if(t.{VALUES} IS NULL) AS gone, count_if({differs}) AS other, count_if(l.{VALUES} IS NULL) AS more,
            min(CASE WHEN t.{VALUES} IS NULL OR l.{VALUES} IS NULL OR {differs} THEN to_json(struct({key})) END) AS key
        FROM frazil_load AS l FULL JOIN frazil_table AS t ON {same(spec.keys, "l", "t")}""",
        frazil_load=newest(load, spec, f"max_by({r.KNOWN}, _cdc_order) AS {r.KNOWN}"),
        frazil_table=table.where(f"{NEWEST}.{r.CLASS} = {literal(r.UPSERT)}"),
    ).collect()[0]
    if found["key"] is not None:
        raise _error(context.table.name, folder, found)


def _differs(spec: FoldSpec) -> str:
    """Return SQL for a row with other values in the load ``l`` than in the table ``t``; times do not count.

    A row of the table with a greater sequence is newer by the declared order, so it may differ.
    """
    left_out = {*spec.keys, *spec.sequence_by, *spec.event_times}
    differs = [
        f"(NOT l.{VALUES}.{name} <=> t.{VALUES}.{name} AND coalesce(array_contains(l.{r.KNOWN}, {text}), true))"
        for name, text in ((quote(name), literal(name)) for name in spec.columns if name not in left_out)
    ]
    load, table = (
        f"struct({', '.join(f'{side}.{VALUES}.{quote(name)}' for name in spec.sequence_by)})" for side in ("l", "t")
    )
    is_newer = f"coalesce({table} > {load}, false)" if spec.sequence_by else "false"
    return f"({' OR '.join(differs) or 'false'}) AND NOT {is_newer}"


def _error(name: str, folder: str, found: Row) -> SecondLoadError:
    told = {"gone": "that the table does not have", "other": "with other values", "more": "too few"}
    said = ", ".join(f"{counted(found[which], 'row')} {how}" for which, how in told.items() if found[which])
    return SecondLoadError(
        f"table {name!r}: two full loads have the same keys. The one in {folder} has {said}, such as "
        f"{found['key']}. Its files have no time, so changes from before it would win. It is in bronze, nothing of the "
        "batch is visible past it",
        hint="if files of the load are still to come, run again when they are there. "
        + ("A record of the load that cannot be read counts as missing. " if found["more"] else "")
        + "To begin again from the load, "
        f"take all files from before it away: frazil drop --select {name}, then frazil run. To keep the history, "
        "declare full loads as dumps: kind: handover. If changes may win, and rows that the load lacks may stay: "
        "snapshots: partial in the source",
    )


CODE: Final = "FZ418"
_DIGITS_OF_TIME: Final = 20


def unended_snapshots(context: TableRun, contract: Contract, step: Normalize, at_hand: pa.Table | None) -> list[str]:
    """Return warnings about reads of a snapshot after other changes.

    One is about reads of a snapshot whose end no record marks: rows that it lacks stay. The other is about reads that
    only a time orders: they come before all changes, so the values of older changes stay.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        step: the batches.
        at_hand: the records if they are in the driver's memory; None reads bronze.

    Returns:
        The warnings, or none.

    Cost: free for sources whose records mark the end, in a rebuild, and for records in memory without a read. Otherwise
        a Spark job over the records, and for reads of either kind one over the positions of silver.
    """
    fields = {name.lower(): name for name, _ in contract.fields}
    load = source_of(context.table).meaning(fields, r.POSITION).load
    silver = context.head(context.changes)
    if load is None or load.ends or step.rebuild or silver.snapshot_id is None:
        return []
    if at_hand is None:
        rows = bronze_records(context, step, context.head(context.bronze).bookmark)
    elif (
        load.operation in at_hand.column_names
        and pc.any(pc.is_in(at_hand[load.operation], pa.array(load.reads))).as_py()
    ):
        rows = spark_frame(context.spark, at_hand)
    else:
        return []
    is_read = f"{quote(load.operation)} IN ({', '.join(map(literal, load.reads))})"
    newest, time = rows.where(is_read).agg(F.max(F.expr(load.name)), F.max(F.expr(load.time))).collect()[0]
    changes = context.spark.table(quote(*context.changes))
    said = []
    if newest is not None and not changes.where(f"{r.POSITION} < {literal(newest)}").isEmpty():
        said.append(
            f"{CODE}: reads of a snapshot came after other changes, and no record marks its end: rows that it lacks "
            "stay. Flat rows need __snapshot (add.fields), older connectors an upgrade; or say snapshots: partial in "
            "the source"
        )
    if time is not None and not changes.where(_is_older(load, time)).isEmpty():
        said.append(
            f"{CODE}: reads of a snapshot came after older changes, and only times order them: reads come before all "
            "changes, so values of the older changes stay. Flat rows need the position in the log (add.fields); else "
            "begin again from the snapshot, or say snapshots: partial in the source"
        )
    return said


def _is_older(load: LoadMeaning, time: str) -> str:
    """Return the SQL condition for changes of the same server that are older than a read."""
    server = time[:-_DIGITS_OF_TIME]
    return f"startswith({r.POSITION}, {literal(server)}) AND {r.POSITION} < {literal(time)} AND NOT ({load.is_read})"
