"""Let marts and aggregates show older snapshots, which carry their own bookmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.audit.certify import Certifying
from frazil.catalog.lock import waiting_lock
from frazil.catalog.trouble import translated
from frazil.errors import BusyError
from frazil.failpoints import failpoint
from frazil.lake.commit import TableTransaction
from frazil.lake.heads import head
from frazil.lake.refs import show_snapshot
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline

Path = tuple[str, ...]


def rollback(
    pipeline: Pipeline,
    spark: SparkSession,
    moves: Sequence[tuple[Path, int, int]],
    stale: Iterable[Path] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Move tables back, one commit each.

    An order of aggregates before the marts that they read leaves no aggregate that looks level and is not, wherever
    this is killed. Whatever has moved then, the next run brings all tables level.

    Args:
        pipeline: the declaration; its lake is locked meanwhile.
        spark: a session with the lake.
        moves: path, the snapshot that the table shows now, and the one that it will show.
        stale: aggregates that the next run has to compute again.
        tell: called with what could not be done and changes nothing.

    Raises:
        BusyError: a run holds the pipeline for a minute, or a table has moved.
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
            certifying.write_or_tell(tell)


def _forget_inputs(spark: SparkSession, path: Path) -> None:
    """Let an aggregate count as computed from nothing; its rows stay until a run replaces them."""
    base = head(spark, quote(*path), rebuilt=True)
    with TableTransaction(spark, path, base, {**base.bookmark, "inputs": {}}) as transaction:
        transaction.append(spark.table(quote(*path)).limit(0))
        transaction.publish()
