"""Commands on an existing lake: cut, rollback, drop, corrected records."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Final

from frazil.audit.certificates import Certifying
from frazil.bronze import record as r
from frazil.bronze.pii import treatment_of, verify_key
from frazil.bronze.read import Batch, corrected_rows
from frazil.catalog.lock import TURN_SECONDS, waiting_lock
from frazil.catalog.trouble import translated
from frazil.errors import BusyError, ContractError, DeclarationError
from frazil.failpoints import failpoint
from frazil.iceberg.metadata import local_path
from frazil.iceberg.snapshot import RUN_BRANCH
from frazil.lake.commit import TableTransaction
from frazil.lake.refs import create_tag, drop_tag, head, is_missing, show_snapshot, tag
from frazil.runner.batch.driver_batch import spark_frame
from frazil.runner.batch.erased import erased_keys, without_erased
from frazil.runner.sessions import table_session
from frazil.sources.kinds import source_of
from frazil.spark.gateway import java_table
from frazil.spec import CATALOG
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from frazil.bronze.read import Correction
    from frazil.spec import Pipeline, Table

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
Path = tuple[str, ...]


class CutNameError(DeclarationError):
    """A cut cannot have this name."""

    code = "FZ185"


class CutExistsError(DeclarationError):
    """There is another cut of this name."""

    code = "FZ186"


def verify_cut_name(name: str) -> None:
    """Refuse a name that could be mistaken for a point in time or a branch, or that engines do not accept.

    Raises:
        CutNameError: the name is not a letter followed by letters, digits, ``_``, ``.``, ``-``; or it is reserved.
    """
    if not _NAME.fullmatch(name) or name == "main" or name.startswith(RUN_BRANCH):
        raise CutNameError(
            f"'{name}' cannot be the name of a cut",
            hint="a name begins with a letter, and has letters, digits, '_', '.' and '-': month-end-2026-01",
        )


def cut(
    pipeline: Pipeline,
    spark: SparkSession,
    name: str,
    heads: Callable[[], Mapping[Path, int]],
    *,
    wait_seconds: float = TURN_SECONDS,
) -> None:
    """Tag tables at their newest snapshots while no run is active.

    After a kill, the same call finishes the cut if no table has a newer snapshot.

    Args:
        pipeline: the declaration.
        spark: a session with its lake.
        name: name of the cut.
        heads: returns the tables and their newest snapshots, or raises; called once the pipeline is locked.
        wait_seconds: how long to wait for a run to end.

    Raises:
        CutNameError: the name is not allowed.
        CutExistsError: a table has a tag of this name at another snapshot.
        BusyError: a run holds the pipeline for longer than ``wait_seconds``.
    """
    verify_cut_name(name)
    with waiting_lock(pipeline, wait_seconds), translated(pipeline):
        wanted = heads()
        tagged = {path: tag(spark, path, name) for path in wanted}
        other = [path for path, had in tagged.items() if had not in (None, wanted[path])]
        if other:
            raise CutExistsError(
                f"there is a cut '{name}' already, and {'.'.join(other[0][1:])} has changed since",
                hint=f"choose another name; or remove it first: frazil cut --drop {name}",
            )
        for path, snapshot in wanted.items():
            if tagged[path] is None:
                create_tag(spark, path, name, snapshot)
                failpoint("cut.after_tag")


def drop_cut(pipeline: Pipeline, spark: SparkSession, name: str, tables: Iterable[Path]) -> None:
    """Remove the tag of a cut from tables; their snapshots can then expire.

    Args:
        pipeline: the declaration.
        spark: a session with its lake.
        name: name of the cut.
        tables: paths of the tables.

    Raises:
        BusyError: another run holds the pipeline for more than a minute.
    """
    with waiting_lock(pipeline), translated(pipeline):
        for path in tables:
            drop_tag(spark, path, name)


def rollback(
    pipeline: Pipeline,
    spark: SparkSession,
    moves: Sequence[tuple[Path, int, int]],
    stale: Iterable[Path] = (),
) -> None:
    """Roll tables back, one commit each.

    Pass aggregates before the marts they read: then a kill at any point leaves no aggregate that only looks up to date.
    The next run brings all tables up to date.

    Args:
        pipeline: the declaration; its lake is locked meanwhile.
        spark: a session with the lake.
        moves: path, current snapshot and target snapshot of each table.
        stale: aggregates that the next run must recompute.

    Raises:
        BusyError: another run holds the pipeline for more than a minute, or a table has a newer snapshot.
    """
    with waiting_lock(pipeline), translated(pipeline):
        certifying = Certifying.of(pipeline, "rollback")
        for path in stale:
            _forget_inputs(spark, path)
        for path, now, _ in moves:
            if head(spark, quote(*path), rebuilt=True).snapshot_id != now:
                raise BusyError(f"{'.'.join(path[1:])} has moved meanwhile; no table was rolled back", hint="try again")
        for path, _, to in moves:
            failpoint("rollback.before_commit")
            show_snapshot(spark, path, to)
            failpoint("rollback.after_commit")
        if certifying is not None:
            certifying.write_or_warn()


def _forget_inputs(spark: SparkSession, path: Path) -> None:
    """Clear an aggregate's inputs so that the next run recomputes it; its rows stay until then."""
    base = head(spark, quote(*path), rebuilt=True)
    with TableTransaction(spark, path, base, {**base.bookmark, "inputs": {}}) as transaction:
        transaction.append(spark.table(quote(*path)).limit(0))
        transaction.publish()


def drop(
    pipeline: Pipeline,
    spark: SparkSession,
    names: Iterable[tuple[str, str]],
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Drop tables and delete their files; tables that do not exist are skipped.

    Args:
        pipeline: the declaration; its lake is locked meanwhile.
        spark: a session with the lake.
        names: namespace and name of each table.
        tell: called with each table's name when its turn comes.

    Returns:
        The tables that were dropped, with their namespaces.

    Raises:
        BusyError: another run holds the pipeline for more than a minute.
    """
    dropped = []
    with waiting_lock(pipeline):
        for namespace, name in names:
            tell(f"{namespace}.{name}")
            if _drop(spark, (CATALOG, namespace, name)):
                dropped.append(f"{namespace}.{name}")
    return dropped


def _drop(spark: SparkSession, path: tuple[str, ...]) -> bool:
    name = quote(*path)
    try:
        table = java_table(spark, name)
    except Exception as error:
        if is_missing(error):
            return False
        raise
    folder = local_path(table.location())
    spark.sql(f"DROP TABLE IF EXISTS {name} PURGE")
    if folder is not None:
        # Killed runs leave files without a table; leftover metadata would look like a lost table.
        shutil.rmtree(folder, ignore_errors=True)
    return True


class ErasedKeyError(ContractError):
    """A corrected record has a key that was erased."""

    code = "FZ406"

    def __init__(self, table: str) -> None:
        super().__init__(
            f"table {table!r}: a corrected record has a key that was erased; no correction was taken",
            hint="leave the record out; or let the key come again: frazil erase --unblock",
        )


def correct(pipeline: Pipeline, table: Table, corrections: Sequence[Correction], spark: SparkSession) -> int:
    """Append corrections to bronze as a separate batch; the next run uses them instead of the original records.

    Args:
        pipeline: the declaration.
        table: one of its tables; its silver must be up to date with bronze.
        corrections: of records in its quarantine.
        spark: a session with the lake.

    Returns:
        The number of the batch.

    Raises:
        BusyError: another run holds the pipeline for more than a minute, or wrote bronze meanwhile.
        ErasedKeyError: a key was erased.
    """
    with table_session(pipeline, table, spark) as context:
        base = context.head(context.bronze)
        columns, number = tuple(base.bookmark["fields"]), base.batch + 1
        treatment = treatment_of(pipeline, table)
        verify_key(table, base.bookmark, treatment)
        rows = corrected_rows(
            corrections, Batch(source=source_of(table), columns=columns, number=number, arrived_at=context.now)
        )
        rows = rows if treatment is None else treatment.treated(rows, again=True)
        bookmark = {
            **base.bookmark,
            "batch": number,
            "lists": base.bookmark.get("lists", True) or bool(len(rows) - rows[r.KNOWN].null_count),
            "corrections": [*base.bookmark.get("corrections", ()), number],
        }
        erased = erased_keys(context)
        if erased is not None:
            emptied = without_erased(context, spark_frame(context.spark, rows), bookmark, erased)
            if emptied.where(f"{r.KIND} = {literal(r.ERASED)}").count():
                raise ErasedKeyError(table.name)
        with context.transaction(context.bronze, bookmark) as batch:
            batch.note(strategy="replay", corrections=len(corrections))
            if batch.takes_rows:
                batch.row_delta(rows)
            else:
                batch.append(spark_frame(context.spark, rows))
            failpoint("replay.before_publish")
            batch.publish()
        failpoint("replay.after_publish")
    return number
