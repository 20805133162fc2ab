"""Plan of a rollback: target snapshots of a source table's marts, and of aggregates over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frazil.gold import tables_of
from frazil.iceberg.time_travel import NotYetThereError, Point, PointError, batch_of, cut_names, read_point, snapshot_at
from frazil.serve.tables.as_of import metadata_of
from frazil.serve.tables.manifests import verify_manifests
from frazil.serve.tables.tables import read_snapshot, tables
from frazil.silver.baseline import baseline_of
from frazil.spec import CATALOG
from frazil.spec.sql.select import source_table
from frazil.spec.tables import gold_table, source_tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frazil.catalog.catalogs import Located
    from frazil.silver.baseline import Baseline
    from frazil.spec import Pipeline, Table
    from frazil.spec.tables import LakeTable


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackMove:
    """A table to roll back.

    Attributes:
        table: name with the namespace.
        path: catalog, namespace and name.
        snapshot: current snapshot.
        batch: batch of the current snapshot.
        to_snapshot: snapshot after the rollback.
        to_batch: batch after the rollback.
    """

    table: str
    path: tuple[str, str, str]
    snapshot: int
    batch: int
    to_snapshot: int
    to_batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """Plan of a rollback.

    Attributes:
        table: the source table.
        to: the point.
        moves: tables to roll back: aggregates first, then marts.
        stays: marts that did not exist at the point; they are not changed.
        stale: paths of aggregates that have no snapshot of the point; the next run computes them.
    """

    table: str
    to: str
    moves: tuple[RollbackMove, ...]
    stays: tuple[str, ...]
    stale: tuple[tuple[str, str, str], ...]


class FoldedPointError(PointError):
    """The point of a rollback is before the baseline."""

    code = "FZ187"

    def __init__(self, move: RollbackMove, baseline: Baseline) -> None:
        super().__init__(
            f"{move.table} cannot go back to batch {move.to_batch}: changes up to batch {baseline.batch} are folded "
            "into the baseline, and the next run could not apply them again",
            hint=f"go back to batch {baseline.batch} or later; to see the mart as it was: frazil query --as-of",
        )


def rollback_of(pipeline: Pipeline, word: str, to: str) -> Rollback:
    """Return the plan of a rollback; change nothing.

    Args:
        pipeline: the declaration.
        word: a source table, or one of its marts, which means its source table.
        to: a point for :func:`frazil.iceberg.time_travel.read_point`. A snapshot of one mart means its batch for the
            others.

    Raises:
        UnknownSelectionError: the source table does not exist.
        PointError: the text is not a point, or a mart has no snapshot of that point.
        FoldedPointError: changes after the point are folded into the baseline.
        NoLakeError: no table of the lake exists.
        DamagedTableError: a file of a table is missing or damaged.
    """
    table, located = source_table(pipeline, word), tables(pipeline)
    marts = [made for made in source_tables(pipeline, table).marts if made.key in located]
    known = {made.full_name: metadata_of(located[made.key]) for made in marts}
    point = read_point(to, cut_names(known.values()))
    moves, stays, refused = [], [], []
    for made in marts:
        try:
            moves.append(_move(made, known[made.full_name], _point_of(point, made.full_name, known)))
        except PointError as error:
            if not isinstance(error, NotYetThereError) and point.kind != "cut":
                raise
            refused.append(error)
            stays.append(made.full_name)
    if refused and not moves:
        raise refused[0]
    gold, stale = _gold_moves(pipeline, table, located, point, known)
    moves = [*gold, *moves]
    for move in moves:
        verify_manifests(located[move.path[1], move.path[2]], move.to_snapshot)
    _refuse_folded(pipeline, table, located, moves)
    moves = [move for move in moves if move.snapshot != move.to_snapshot]
    return Rollback(
        table=table.name, to=f"{point}", moves=tuple(moves), stays=tuple(stays), stale=tuple(stale) if moves else ()
    )


def _refuse_folded(pipeline: Pipeline, table: Table, located: Located, moves: Sequence[RollbackMove]) -> None:
    """Refuse a point before the baseline: the changes after it can no longer be applied one by one."""
    made = source_tables(pipeline, table)
    baseline = baseline_of(read_snapshot(located.get(made.changes.key)).bookmark)
    marts = {mart.full_name for mart in made.marts}
    for move in moves:
        if baseline is not None and move.table in marts and move.to_batch < baseline.batch:
            raise FoldedPointError(move, baseline)


def _gold_moves(
    pipeline: Pipeline, table: Table, located: Located, point: Point, known: Mapping[str, Mapping[str, Any]]
) -> tuple[list[RollbackMove], list[tuple[str, str, str]]]:
    """Return the moves of the aggregates over a table, and the paths of aggregates that cannot be rolled back."""
    moves, stale = [], []
    for made, reads in _gold_over(pipeline, table):
        if made.key not in located:
            continue
        own = _point_of(point, made.full_name, known)
        if own.kind == "batch" and reads != {table.name}:
            stale.append(made.path)  # batch numbers of several tables do not compare
            continue
        try:
            moves.append(_move(made, metadata_of(located[made.key]), own))
        except PointError:
            stale.append(made.path)
    return moves, stale


def _gold_over(pipeline: Pipeline, table: Table) -> list[tuple[LakeTable, set[str]]]:
    """Return the aggregates that read a source table, each with the source tables that it reads."""
    found = [(gold_table(pipeline, gold), {*tables_of(pipeline, gold)}) for gold in pipeline.gold]
    return [(made, reads) for made, reads in found if table.name in reads]


def _point_of(point: Point, table: str, known: Mapping[str, Mapping[str, Any]]) -> Point:
    """Return the point for one table; a snapshot of another table means its batch."""
    if point.kind != "snapshot" or _has(known.get(table, {}), point):
        return point
    for metadata in known.values():
        if _has(metadata, point):
            return Point("batch", f"{batch_of(metadata, int(point.text))}")
    return point


def _has(metadata: Mapping[str, Any], point: Point) -> bool:
    return any(snapshot["snapshot-id"] == int(point.text) for snapshot in metadata.get("snapshots", ()))


def _move(made: LakeTable, metadata: Mapping[str, Any], point: Point) -> RollbackMove:
    to = snapshot_at(made.full_name, metadata, point)
    now = int(metadata["refs"]["main"]["snapshot-id"])
    if batch_of(metadata, to) == 0:
        raise PointError(f"{made.full_name}: snapshot {to} is not a run's batch", hint="name a batch, a cut or a time")
    return RollbackMove(
        table=made.full_name,
        path=(CATALOG, *made.key),
        snapshot=now,
        batch=batch_of(metadata, now),
        to_snapshot=to,
        to_batch=batch_of(metadata, to),
    )
