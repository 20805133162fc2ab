"""Tag snapshots of marts and aggregates, and roll back to older ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from frazil.audit.certify import Certifying
from frazil.catalog.lock import TURN_SECONDS, waiting_lock
from frazil.catalog.trouble import translated
from frazil.errors import BusyError, DeclarationError
from frazil.failpoints import failpoint
from frazil.iceberg.snapshot import RUN_BRANCH
from frazil.lake.commit import TableTransaction
from frazil.lake.refs import create_tag, drop_tag, head, show_snapshot, tag
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline

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
