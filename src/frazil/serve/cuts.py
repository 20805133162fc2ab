"""Cuts over all marts and aggregates: the existing ones, the snapshots for a new one, and the plan of a rollback."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 - a field's type
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from frazil.duck import connect, scan
from frazil.errors import BusyError
from frazil.gold import tables_of
from frazil.iceberg.metadata import metadata_of
from frazil.iceberg.snapshot import known_snapshots
from frazil.iceberg.time_travel import (
    NotYetThereError,
    Point,
    PointError,
    batch_of,
    cut_names,
    read_point,
    snapshot_at,
    tags_of,
)
from frazil.serve.state import state
from frazil.serve.tables import read_snapshot, tables, verify_manifests
from frazil.silver.baseline import baseline_of
from frazil.sources.capture import LandsTogether
from frazil.sources.kinds import captures_of
from frazil.sources.sharded import ShardCapture
from frazil.spec import CATALOG
from frazil.spec.amount import counted
from frazil.spec.sql.select import selected, source_table
from frazil.spec.tables import gold_table, lake_tables, source_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from frazil.catalog.catalogs import Located
    from frazil.plan.state import State, TableState
    from frazil.silver.baseline import Baseline
    from frazil.sources.capture import Capture
    from frazil.spec import Pipeline, Table
    from frazil.spec.tables import LakeTable

_AGAIN = "frazil run, then frazil cut again"


class NotLevelError(BusyError):
    """The tables are not at one point of their sources."""

    code = "FZ602"

    def __init__(self, why: str) -> None:
        super().__init__(f"the tables are not at one point: {why}", hint=_AGAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A consistent point over marts and aggregates.

    Attributes:
        name: name of the cut, and of the tag in each of its tables.
        tables: table with its namespace -> snapshot.
        newest: commit time of the newest of these snapshots.
        missing: existing marts and aggregates that are not in the cut.
    """

    name: str
    tables: Mapping[str, int]
    newest: datetime | None
    missing: tuple[str, ...]


def cuts(pipeline: Pipeline) -> list[Cut]:
    """Return the cuts of a pipeline by name, including tags of other tools.

    Raises:
        NoLakeError: no table of the lake exists.
    """
    located = tables(pipeline, of_others=True)
    there = {made.full_name: located[made.key] for made in _cuttable(pipeline) if made.key in located}
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for table, location in there.items():
        for name, snapshot in tags_of(metadata_of(location)).items():
            found[name][table] = snapshot
    return [
        Cut(
            name=name,
            tables=of,
            newest=max(filter(None, (read_snapshot(there[table], one).committed_at for table, one in of.items()))),
            missing=tuple(table for table in there if table not in of),
        )
        for name, of in sorted(found.items())
    ]


def find_cut(pipeline: Pipeline, name: str) -> Cut:
    """Return a cut by its name.

    Raises:
        PointError: the cut does not exist.
    """
    found = {cut.name: cut for cut in cuts(pipeline)}
    if name not in found:
        near = get_close_matches(name, found, n=1)
        raise PointError(
            f"cut '{name}' does not exist",
            hint=f"did you mean '{near[0]}'?" if near else "frazil cut --list lists the cuts",
        )
    return found[name]


def level_heads(pipeline: Pipeline) -> dict[tuple[str, ...], int]:
    """Return the newest snapshots of all marts and aggregates, if they are at one point of their sources.

    No run may be in progress: the files of each table must be fixed before the sources are listed.

    Returns:
        Path -> snapshot, for tables with a snapshot.

    Raises:
        NotLevelError: one table has data that another has not.
        NoLakeError: no table of the lake exists.
        FrazilError: the state of a table cannot be read.
    """
    located = tables(pipeline, of_others=True)
    stand = state(pipeline, selected(pipeline, ()))
    for error in stand.failed.values():
        raise error
    if tables(pipeline, of_others=True) != located:
        # A warehouse in an object store has no lock against runs on other machines.
        raise NotLevelError("a run committed meanwhile")
    for name, one in stand.tables.items():
        _verify_batches(name, one)
    _verify_gold(pipeline, stand)
    _verify_shared(pipeline, located)
    for capture in captures_of(pipeline, stand.tables):
        _verify_capture(pipeline, capture, stand)
    heads = {made.path: read_snapshot(located.get(made.key)).snapshot_id for made in _cuttable(pipeline)}
    found: dict[tuple[str, ...], int] = {path: one for path, one in heads.items() if one is not None}
    if not found:
        raise NotLevelError("no mart or aggregate was written yet")
    return found


def _cuttable(pipeline: Pipeline) -> list[LakeTable]:
    return [made for made in lake_tables(pipeline) if made.role in ("mart", "gold")]


def _verify_batches(name: str, stand: TableState) -> None:
    """Refuse marts that are behind bronze, because a run failed, was killed, or has not updated them yet."""
    for what, batch in {"silver": stand.silver, **stand.marts}.items():
        if batch != stand.bronze:
            raise NotLevelError(f"{what} of {name} is at batch {batch} of {stand.bronze}")


def _verify_gold(pipeline: Pipeline, stand: State) -> None:
    reached = {mart: batch for one in stand.tables.values() for mart, batch in one.marts.items()}
    for gold in pipeline.gold:
        for mart, batch in stand.gold.get(gold.name, {}).items():
            if reached.get(mart) != batch:
                raise NotLevelError(f"{gold_table(pipeline, gold).full_name} is at batch {batch} of {mart}")


def _verify_shared(pipeline: Pipeline, located: Located) -> None:
    """Refuse tables of the same files if one has taken a file that another has not."""
    groups: dict[tuple[object, ...], list[tuple[str, str]]] = defaultdict(list)
    for table in pipeline.tables:
        bronze = located.get(source_tables(pipeline, table).bronze.key)
        if bronze is not None:
            groups[table.source.kind, *sorted(table.source.locations.items())].append((table.name, bronze))
    shared = [group for group in groups.values() if len(group) > 1]
    if not shared:
        return
    with connect(located) as duck:
        for group in shared:
            for _, bronze in group:
                verify_manifests(bronze)
            pairs = [pair for other in group[1:] for pair in ((group[0], other), (other, group[0]))]
            for (ahead, has), (behind, lacks) in pairs:
                row = duck.execute(
                    f"SELECT _cdc_file FROM {scan(has)} WHERE _cdc_kind = 'file' AND _cdc_ledger.sha256 NOT IN "
                    f"(SELECT _cdc_ledger.sha256 FROM {scan(lacks)} WHERE _cdc_kind = 'file') LIMIT 1"
                ).fetchone()
                if row is not None:
                    raise NotLevelError(f"{ahead} has taken {row[0]}, and {behind} has not")


def _verify_capture(pipeline: Pipeline, capture: Capture, stand: State) -> None:
    """Refuse tables that are captured together while landing files wait or do not reach one position yet."""
    inner = capture.inner if isinstance(capture, ShardCapture) else capture
    names = [name for name in dict.fromkeys(inner.tables) if name in stand.tables]
    if len(names) < 2 and not isinstance(capture, ShardCapture):  # noqa: PLR2004 - one alone
        return
    if not isinstance(inner, LandsTogether):
        return
    for name in names:
        waiting = [*stand.tables[name].taken.files, *stand.tables[name].taken.deferred]
        if waiting:
            raise NotLevelError(f"{counted(len(waiting), 'landing file')} of {name} {_wait(waiting)}")
    if not inner.is_whole(pipeline.folder):
        raise NotLevelError(f"the landing files of {inner.name} do not reach one position yet")


def _wait(waiting: Iterable[object]) -> str:
    return "waits" if len([*waiting]) == 1 else "wait"


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
    return int(point.text) in known_snapshots(metadata)


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
