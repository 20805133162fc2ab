"""HANDOVER of full load files: a second full load must agree with the table, because nothing orders it among changes.

The name of a full load file has no time. Full loads are ordered before all changes, which is right for the first one. A
second one is newer than some changes: the source repeated it after a gap. If the table has each of its rows, and no
others, the order does not matter. Otherwise the run stops.

Files of one load may arrive in several runs, also after changes. They have different keys. So a load is a second one if
it shares a key with other load files. A copy of a load has no records: it is known by its content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.errors import ContractError
from frazil.marts.fold import NEWEST, VALUES, fill, newest
from frazil.marts.fold_spec import columns_of, same, with_event_time
from frazil.marts.layout import fold_spec
from frazil.marts.query import query_frames
from frazil.runner.batch.bronze_records import columns_since, read_ledger
from frazil.silver.evolution import renamed_bookmark
from frazil.sources.base import SNAPSHOT, is_snapshot
from frazil.spec.amount import counted
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, Row

    from frazil.marts.fold_spec import FoldSpec
    from frazil.runner.batch.batch_stats import Ingested
    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.steps import Normalize

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
