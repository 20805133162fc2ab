"""KEY-CHANGE: the delete that belongs to a change of key applies only to the row that left the key.

If keys shift in one statement, as in ``id = id + 1``, a row reaches a key before the earlier row has left it. The
delete of the second change is then void: the key still has a row, the one that arrived. The places of the changes of a
key show which deletes are void. They are removed before silver is written.

Each key is followed through its changes: an arriving change of key adds a row, and a leaving one removes the row that
was there first. After any other upsert the key has one row; after any other delete it is empty.

Records in quarantine count too if their keys can be read: they show where rows are, but not their values. Silver does
not hold a row that arrived by such a record, so the delete of the row before it is not void.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.marts.layout import columns_of, same
from frazil.marts.query import query_frames
from frazil.older_spark import to_arrow
from frazil.runner.batch.bronze_records import bronze_records
from frazil.runner.batch.driver_batch import spark_frame
from frazil.silver.changes import PROBLEM, TEXT, change_rows
from frazil.silver.evolution import renamed_bookmark, renamed_records
from frazil.silver.old_keys import AWAY, LEAVES, LEFT, MOVED, OWN, key_text
from frazil.sources.eras import ERAS, crosses_eras, without_era
from frazil.sources.kinds import source_of
from frazil.spark.expressions import expressions_of
from frazil.spark.gateway import hold, release
from frazil.spec.sql.names import literal, quote
from frazil.steps import Normalize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.spec import Table

    Emptied = tuple[str, int, str | None]

DEPARTED: Final = "departed"
"""Key of silver's bookmark: greatest position of a void delete."""
EVENT: Final = "_cdc_event"
CAME_POSITION, CAME_ROW, KEY = "_cdc_came_position", "_cdc_came_row", "_cdc_key"
_COME: Final = "_cdc_has_come"
_CAME, _STOOD, _GONE, _LEFT, _LEFT_OWN = map(literal, ("came", "stood", "gone", "left", "left own"))
_CAME_BAD, _STOOD_BAD = map(literal, ("came bad", "stood bad"))
"""By records in quarantine. Of what several records say the sound one counts, which sorts before."""
_VOID: Final = f"array<struct<{r.POSITION}: string, {r.ROW}: bigint, came: struct<p: string, r: bigint>>>"


def void_departures(
    context: TableRun, contract: Contract, rows: DataFrame, held: DataFrame | None, truncates: Sequence[Emptied]
) -> pa.Table:
    """Return the void deletes: those of changes of key whose old key still has a row.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        rows: from :func:`frazil.silver.changes.change_rows`, with truncates expanded to deletes.
        held: changes that silver keeps beside ``rows``; None without any.
        truncates: position, row and shard of each truncate; it also ends rows of records in quarantine.

    Returns:
        One row for each void delete: its key, position and row, the common value of its records (NULL if each change
        is one record), the key as text, and the place of the change that arrived at the key. If only positions order
        records, rows are 0.

    Cost: a scan of the keys and places of silver, a sort of the changes of these keys, and a read of the batches of
    bronze that last wrote one of the keys.
    """
    row = "0L" if context.table.source.orders_records else r.ROW
    new = _events(rows, contract, row)
    leaving = hold(new.where(f"kind IN ({_LEFT}, {_LEFT_OWN})").select(*map(quote, contract.keys)).distinct())
    events = _of_keys(new, leaving, contract)
    if held is not None:
        known = _held_events(context, contract, _of_keys(held, leaving, contract), row)
        if (bad := _quarantined(context, contract)) is not None:
            seen = _of_keys(_events(bad, contract, row), leaving, contract)
            known = _departed(context, contract, known, seen, row).unionByName(seen)
        events = events.unionByName(known)
    if truncates:
        events = events.unionByName(_emptied(context, contract, events, truncates))
    if (event_of := event_sql(context.table, contract)) is not None:
        events = _once(events, contract, event_of)
    void = to_arrow(_void(context, contract, events))
    release(leaving)
    return void


def _void(context: TableRun, contract: Contract, events: DataFrame) -> DataFrame:
    """Follow keys through their events; return the void deletes."""
    of_void = event_sql(context.table, contract, "void.") or "CAST(NULL AS string)"
    event = f"struct({r.POSITION} AS p, {r.ROW} AS r, kind)"
    followed = f"""aggregate(sort_array(collect_set({event})),
        named_struct('n', 0, 'came', CAST(NULL AS struct<p: string, r: bigint>), 'void', CAST(array() AS {_VOID})),
        (k, e) -> CASE
            WHEN e.kind = {_CAME} THEN
                named_struct('n', least(k.n + 1, 2), 'came', struct(e.p, e.r), 'void', k.void)
            WHEN e.kind = {_CAME_BAD} THEN
                named_struct('n', least(k.n + 1, 2), 'came', CAST(NULL AS struct<p: string, r: bigint>), 'void', k.void)
            WHEN e.kind = {_LEFT} AND k.n = 2 AND k.came IS NOT NULL THEN
                named_struct('n', 1, 'came', k.came, 'void', concat(k.void, array(
                    named_struct({literal(r.POSITION)}, e.p, {literal(r.ROW)}, e.r, 'came', k.came))))
            WHEN e.kind = {_LEFT} THEN named_struct('n', greatest(k.n - 1, 0), 'came', k.came, 'void', k.void)
            ELSE named_struct('n', CASE WHEN e.kind IN ({_STOOD}, {_STOOD_BAD}) THEN 1 ELSE 0 END,
                'came', k.came, 'void', k.void)
        END).void"""
    return query_frames(
        f"""SELECT {columns_of(contract.keys)}, {key_text(contract.keys)} AS {KEY},
            void.{r.POSITION}, void.{r.ROW}, {of_void} AS {EVENT},
            void.came.p AS {CAME_POSITION}, void.came.r AS {CAME_ROW}
        FROM (
            SELECT {columns_of(contract.keys)}, explode({followed}) AS void
            FROM frazil_events GROUP BY {columns_of(contract.keys)}
        )""",
        frazil_events=events,
    )


def torn_departures(context: TableRun, contract: Contract, rows: DataFrame, held: DataFrame | None) -> pa.Table | None:
    """Return the deletes of changes of key that have a record of their own in another era; None without any.

    Eras are counted for each partition, and only the record of its own is in the one of its key. So only that one says
    when the row left.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        rows: from :func:`frazil.silver.changes.change_rows`.
        held: changes of silver that stay beside them; None for none.

    Returns:
        The key as text and the position of each, the position of the record of its own, and whether silver has it.

    Cost: nothing where no partition has moved; else a join of the deletes.
    """
    event = event_sql(context.table, contract)
    if event is None or not crosses_eras(context.head(context.bronze).bookmark.get(ERAS, {})):
        return None
    deletes = rows.where(f"{r.CLASS} = {literal(r.DELETE)} AND {PROBLEM} IS NULL")
    names = (f"{key_text(contract.keys)} AS {KEY}", r.POSITION, f"{event} AS {EVENT}", f"{without_era(event)} AS place")
    of_create = deletes.where(f"{MOVED} IN ({literal(LEFT)}, {literal(AWAY)})").selectExpr(*names, "false AS is_held")
    own = deletes.where(f"{MOVED} = {literal(OWN)}").selectExpr(*names, "false AS is_held")
    if held is not None:
        gone = held.where(f"{r.CLASS} = {literal(r.DELETE)}").selectExpr(*names, "true AS is_held")
        of_create, own = of_create.unionByName(gone), own.unionByName(gone)
    found = query_frames(
        f"""SELECT DISTINCT c.{KEY}, c.{r.POSITION}, o.{r.POSITION} AS {CAME_POSITION}, c.is_held
        FROM frazil_created AS c JOIN frazil_own AS o
        ON o.{KEY} = c.{KEY} AND o.place = c.place AND o.{EVENT} <> c.{EVENT} AND NOT (o.is_held AND c.is_held)""",
        frazil_created=of_create,
        frazil_own=own,
    )
    return to_arrow(found)


def repeated_departures(
    context: TableRun, contract: Contract, rows: DataFrame, held: DataFrame | None
) -> pa.Table | None:
    """Return the deletes that repeat, in a record of their own, what the record with the new key says.

    The record with the new key has the sequence of the change. A delete beside it lacks the sequence, or has the one of
    the old row: it would end the row a second time, at another place in the order.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        rows: from :func:`frazil.silver.changes.change_rows`, without those of :func:`torn_departures`.
        held: changes of silver that stay beside them; None for none.

    Returns:
        The key as text and the common value of the records of each change, and whether silver has such a delete. None
        where places alone order the changes, or each change is one record.

    Cost: a join of the deletes of the batch with those of silver.
    """
    event = event_sql(context.table, contract)
    if event is None or not contract.sequence_by:
        return None
    deletes = rows.where(f"{r.CLASS} = {literal(r.DELETE)} AND {PROBLEM} IS NULL")
    names = (f"{key_text(contract.keys)} AS {KEY}", f"{event} AS {EVENT}")
    is_left = f"coalesce({MOVED} = {literal(LEFT)}, false)"
    of_create = deletes.where(is_left).selectExpr(*names, "false AS is_held")
    own = deletes.where(f"NOT {is_left}").selectExpr(*names, "false AS is_held")
    if held is not None:
        upserts = held.where(f"{r.CLASS} = {literal(r.UPSERT)}").select(r.FILE, r.ROW)
        gone = held.where(f"{r.CLASS} = {literal(r.DELETE)}")
        beside, alone = (gone.join(upserts, [r.FILE, r.ROW], how) for how in ("left_semi", "left_anti"))
        of_create = of_create.unionByName(beside.selectExpr(*names, "true AS is_held"))
        own = own.unionByName(alone.selectExpr(*names, "true AS is_held"))
    found = query_frames(
        f"""SELECT DISTINCT o.{KEY}, o.{EVENT}, o.is_held FROM frazil_own AS o JOIN frazil_created AS c
        ON c.{KEY} = o.{KEY} AND c.{EVENT} = o.{EVENT} AND NOT (o.is_held AND c.is_held)""",
        frazil_own=own,
        frazil_created=of_create,
    )
    return to_arrow(found)


def without_repeated(context: TableRun, contract: Contract, rows: DataFrame, repeated: pa.Table) -> DataFrame:
    """Leave the deletes of :func:`repeated_departures` out of change rows."""
    event = event_sql(context.table, contract, "n.")
    return query_frames(
        f"""SELECT n.* FROM frazil_new AS n LEFT ANTI JOIN frazil_repeated AS v
        ON n.{r.CLASS} = {literal(r.DELETE)} AND n.{PROBLEM} IS NULL AND NOT coalesce({MOVED} = {literal(LEFT)}, false)
        AND {event} = v.{EVENT} AND {key_text(contract.keys)} = v.{KEY}""",
        frazil_new=rows,
        frazil_repeated=F.broadcast(spark_frame(context.spark, repeated)),
    )


def without_departures(context: TableRun, contract: Contract, rows: DataFrame, void: pa.Table) -> DataFrame:
    """Remove void deletes from change rows.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        rows: change rows.
        void: from :func:`void_departures`.
    """
    if not void.num_rows:
        return rows
    row = "" if context.table.source.orders_records else f" AND n.{r.ROW} = v.{r.ROW}"
    of_row = f"n.{MOVED} = {literal(LEFT)} AND n.{r.POSITION} = v.{r.POSITION}{row}"
    if (event := event_sql(context.table, contract, "n.")) is not None:
        of_row = f"n.{r.CLASS} = {literal(r.DELETE)} AND {event} = v.{EVENT}"
    return query_frames(
        f"""SELECT n.* FROM frazil_new AS n LEFT ANTI JOIN frazil_void AS v
        ON {same(contract.keys, "n", "v")} AND {of_row}""",
        frazil_new=rows,
        frazil_void=F.broadcast(spark_frame(context.spark, void)),
    )


def without_torn(context: TableRun, contract: Contract, rows: DataFrame, torn: pa.Table) -> DataFrame:
    """Leave the deletes of :func:`torn_departures` out of change rows."""
    return query_frames(
        f"""SELECT n.* FROM frazil_new AS n LEFT ANTI JOIN frazil_torn AS t
        ON n.{MOVED} IN ({literal(LEFT)}, {literal(AWAY)}) AND n.{r.POSITION} = t.{r.POSITION}
        AND {key_text(contract.keys)} = t.{KEY}""",
        frazil_new=rows,
        frazil_torn=F.broadcast(spark_frame(context.spark, torn)),
    )


def holds_departures(context: TableRun, contract: Contract, held: DataFrame | None, void: pa.Table) -> bool:
    """Return whether silver has a void delete, because it arrived before the other record of its change.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        held: changes of silver.
        void: from :func:`void_departures`.
    """
    event = event_sql(context.table, contract, "h.")
    if held is None or event is None or not void.num_rows:
        return False
    found = query_frames(
        f"""SELECT 1 FROM frazil_held AS h JOIN frazil_void AS v ON {same(contract.keys, "h", "v")}
        AND h.{r.CLASS} = {literal(r.DELETE)} AND {event} = v.{EVENT} LIMIT 1""",
        frazil_held=held,
        frazil_void=F.broadcast(spark_frame(context.spark, void)),
    )
    return found.first() is not None


def event_sql(table: Table, contract: Contract, prefix: str = "") -> str | None:
    """Return SQL for the common value of the records of one change; None if each change is one record.

    Args:
        table: the declaration.
        contract: the table's contract.
        prefix: alias before the columns, such as ``t.``.
    """
    fields = {name.lower(): name for name, _ in contract.fields}
    event = source_of(table).meaning(fields, f"{prefix}{r.POSITION}").event
    return None if event is None else event.place


def without_moves_deletes(table: Table, contract: Contract, among: DataFrame, moves: DataFrame) -> DataFrame:
    """Remove the delete records of changes of key that another record repeats as a move.

    Such a delete comes before the move and ends no row: the row continues under its new key.

    Args:
        table: the declaration.
        contract: the table's contract.
        among: change rows to filter.
        moves: change rows that have the moves.
    """
    if (event := event_sql(table, contract)) is None:
        return among
    return query_frames(
        f"""SELECT c.* FROM frazil_among AS c
        LEFT ANTI JOIN (SELECT DISTINCT {event} AS event, {MOVED} AS old FROM frazil_moves) AS m
        ON c.{r.CLASS} = {literal(r.DELETE)} AND {event} = m.event
        AND {key_text(contract.keys)} = m.old""",
        frazil_among=among,
        frazil_moves=moves,
    )


def _events(rows: DataFrame, contract: Contract, row: str) -> DataFrame:
    """Return what change rows say of the rows under their keys; ``row`` is SQL of what orders those of one position."""
    is_bad, is_upsert = f"{PROBLEM} IS NOT NULL", f"{r.CLASS} = {literal(r.UPSERT)}"
    has_key = " AND ".join(f"{quote(key)} IS NOT NULL" for key in contract.keys)
    return rows.where(f"NOT {is_bad} OR ({is_upsert} AND {has_key})").selectExpr(
        *map(quote, contract.keys),
        r.POSITION,
        f"{row} AS {r.ROW}",
        f"""CASE WHEN {MOVED} = {literal(OWN)} THEN {_LEFT_OWN} WHEN {LEAVES} THEN {_LEFT}
            WHEN {is_bad} AND {MOVED} IS NOT NULL THEN {_CAME_BAD}
            WHEN {MOVED} IS NOT NULL THEN {_CAME} WHEN {is_bad} THEN {_STOOD_BAD}
            WHEN {is_upsert} THEN {_STOOD} ELSE {_GONE} END AS kind""",
    )


def _emptied(context: TableRun, contract: Contract, events: DataFrame, truncates: Sequence[Emptied]) -> DataFrame:
    """Return that keys with events of records in quarantine have no row since each truncate."""
    shard = context.table.source.shard_column
    positions, rows, shards = zip(*truncates, strict=True)
    numbers = [0] * len(rows) if context.table.source.orders_records else rows
    columns = [pa.array(positions), pa.array(numbers, pa.int64()), pa.array(shards, pa.string())]
    of_shard = "true" if shard is None else f"CAST({quote('b', shard)} AS string) = t.shard"
    return query_frames(
        f"""SELECT DISTINCT {columns_of(contract.keys, "b")}, t.{r.POSITION}, t.{r.ROW}, {_GONE} AS kind
        FROM frazil_bad AS b JOIN frazil_truncates AS t ON {of_shard}""",
        frazil_bad=events.where(f"kind IN ({_CAME_BAD}, {_STOOD_BAD})"),
        frazil_truncates=F.broadcast(spark_frame(context.spark, pa.table(columns, names=[r.POSITION, r.ROW, "shard"]))),
    )


def _once(events: DataFrame, contract: Contract, event: str) -> DataFrame:
    """Return one event for several records of the same change: a change of key may have a delete and a repetition."""
    keys, of_left = columns_of(contract.keys), f"min(CASE WHEN kind = {_LEFT} THEN {r.POSITION} END)"
    return query_frames(
        f"""SELECT {keys}, coalesce({of_left}, min({r.POSITION})) AS {r.POSITION}, 0L AS {r.ROW},
            CASE WHEN bool_or(kind IN ({_LEFT}, {_LEFT_OWN})) THEN {_LEFT} ELSE min(kind) END AS kind
        FROM frazil_events GROUP BY {keys}, {event}""",
        frazil_events=events,
    )


def _of_keys(changes: DataFrame, keys: DataFrame, contract: Contract) -> DataFrame:
    return query_frames(
        f"SELECT c.* FROM frazil_changes AS c LEFT SEMI JOIN frazil_keys AS k ON {same(contract.keys, 'c', 'k')}",
        frazil_changes=changes,
        frazil_keys=keys,
    )


def _held_events(context: TableRun, contract: Contract, held: DataFrame, row: str) -> DataFrame:
    """Return the changes of silver as events.

    The record in bronze shows whether the last upsert of a key came with a change of key. After earlier changes the key
    has one row. Bronze also shows whether the earlier row has left since, because silver has no void deletes.
    """
    keys, is_upsert = columns_of(contract.keys), f"{r.CLASS} = {literal(r.UPSERT)}"
    last = f"max(struct({r.POSITION}, {r.ROW}, {r.FILE}, {r.BATCH})) AS last"
    places = to_arrow(
        query_frames(
            f"""SELECT DISTINCT last.{r.FILE}, last.{r.ROW}, last.{r.BATCH}, last.{r.POSITION}
            FROM (SELECT {last} FROM frazil_held WHERE {is_upsert} GROUP BY {keys})""",
            frazil_held=held,
        )
    )
    if places.num_rows:
        come = changes_of_key(context, contract, places).select(r.FILE, r.ROW).distinct().withColumn(_COME, F.lit(True))
        held = held.join(come, [r.FILE, r.ROW], "left")
    else:
        held = held.withColumn(_COME, F.lit(False))
    kind = f"CASE WHEN NOT {is_upsert} THEN {_GONE} WHEN {_COME} THEN {_CAME} ELSE {_STOOD} END AS kind"
    events = held.selectExpr(*map(quote, contract.keys), r.POSITION, f"{row} AS {r.ROW}", kind)
    departed = context.head(context.changes).bookmark.get(DEPARTED, "")
    batches = [one[r.BATCH] for one in places.to_pylist() if one[r.POSITION] <= departed]
    return events if not batches else events.unionByName(_left_since(context, contract, events, row, min(batches)))


def _departed(context: TableRun, contract: Contract, events: DataFrame, bad: DataFrame, row: str) -> DataFrame:
    """Mark the deletes of changes of key among events of silver, where a row came by a bad record before.

    Such a delete is for the row that was there before; the row in quarantine has not left.
    """
    came = bad.where(f"kind = {_CAME_BAD}")
    if came.first() is None:
        return events
    keys, upto = columns_of(contract.keys), context.head(context.changes).batch
    left = changes_of_key(context, contract, deletes=True).where(
        f"{r.BATCH} <= {int(upto)} AND {r.CLASS} = {literal(r.DELETE)}"
    )
    left = _of_keys(left.selectExpr(*map(quote, contract.keys), r.POSITION, f"{row} AS {r.ROW}"), came, contract)
    return query_frames(
        f"""SELECT {columns_of(contract.keys, "e")}, e.{r.POSITION}, e.{r.ROW},
            CASE WHEN e.kind = {_GONE} AND l.{r.ROW} IS NOT NULL THEN {_LEFT} ELSE e.kind END AS kind
        FROM frazil_events AS e LEFT JOIN (SELECT DISTINCT {keys}, {r.POSITION}, {r.ROW} FROM frazil_left) AS l
        ON {same(contract.keys, "e", "l")} AND e.{r.POSITION} = l.{r.POSITION} AND e.{r.ROW} = l.{r.ROW}""",
        frazil_events=events,
        frazil_left=left,
    )


def _left_since(context: TableRun, contract: Contract, events: DataFrame, row: str, batch: int) -> DataFrame:
    """Return all departures after the last change of key that arrived at their key, from a batch on."""
    upto = context.head(context.changes).batch
    left = changes_of_key(context, contract, deletes=True).where(
        f"{r.BATCH} BETWEEN {int(batch)} AND {int(upto)} AND {r.CLASS} = {literal(r.DELETE)}"
    )
    left = left.selectExpr(*map(quote, contract.keys), r.POSITION, f"{row} AS {r.ROW}", f"{_LEFT} AS kind")
    return query_frames(
        f"""SELECT l.* FROM frazil_left AS l LEFT SEMI JOIN frazil_events AS e ON {same(contract.keys, "l", "e")}
        AND e.kind = {_CAME} AND struct(l.{r.POSITION}, l.{r.ROW}) > struct(e.{r.POSITION}, e.{r.ROW})""",
        frazil_left=left,
        frazil_events=events,
    )


def _quarantined(context: TableRun, contract: Contract) -> DataFrame | None:
    """Return the change rows of the records that earlier batches left in quarantine; None without any."""
    if context.head(context.quarantine).snapshot_id is None:
        return None
    upto = int(context.head(context.changes).batch)
    places = context.spark.table(quote(*context.quarantine)).where(f"{r.BATCH} <= {upto}")
    places = places.select(r.FILE, r.ROW, r.BATCH).distinct()
    return None if places.first() is None else _records_at(context, contract, places)


def changes_of_key(
    context: TableRun, contract: Contract, places: pa.Table | None = None, *, deletes: bool = False
) -> DataFrame:
    """Return the changes of key among the records of bronze.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        places: file, row and batch of the records to read; None for all.
        deletes: include the deletes of the changes of key, also of those in quarantine.
    """
    at = None if places is None else spark_frame(context.spark, places.select([r.FILE, r.ROW, r.BATCH]))
    typed = _records_at(context, contract, at)
    is_move = f"{PROBLEM} IS NULL AND {MOVED} IS NOT NULL" + ("" if deletes else f" AND NOT {LEAVES}")
    return typed.where(is_move).drop(PROBLEM, TEXT, MOVED)


def _records_at(context: TableRun, contract: Contract, places: DataFrame | None) -> DataFrame:
    """Return the change rows of records of bronze; ``places`` are file, row and batch of them, None for all."""
    base: dict[str, Any] = dict(context.head(context.bronze).bookmark)
    known = renamed_bookmark(context.table, base)
    whole = Normalize(table=context.table.name, after=0, upto=context.head(context.bronze).batch, rebuild=True)
    records = bronze_records(context, whole, known)
    if places is not None:
        numbers = ", ".join(str(one[0]) for one in places.select(r.BATCH).distinct().sort(r.BATCH).collect())
        at = F.broadcast(places.select(r.FILE, r.ROW))
        records = records.where(f"{r.BATCH} IN ({numbers})").join(at, [r.FILE, r.ROW], "left_semi")
    return change_rows(
        renamed_records(records, context.table, base),
        contract,
        source_of(context.table),
        expressions_of(context.spark, contract),
        since=known.get("since", {}),
        truncates=context.table.source.truncates,
    )
