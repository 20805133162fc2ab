"""The registry of source kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from frazil.errors import FrazilError
from frazil.sources.audit_log.capture import log_captures, log_rows
from frazil.sources.audit_log.source import AuditLogSource
from frazil.sources.capture import BeginsOnce, VerifiesLanding
from frazil.sources.debezium.source import DebeziumSource
from frazil.sources.debezium.topic import topic_captures
from frazil.sources.dms.source import DmsSource
from frazil.sources.handover.capture import compared_table, handover_captures, handover_rows
from frazil.sources.handover.source import HandoverSource
from frazil.sources.postgres.capture import postgres_captures, postgres_rows
from frazil.sources.postgres.source import PostgresSource
from frazil.sources.sharded import ShardCapture, ShardedSource, sharded_rows
from frazil.sources.snapshot.capture import dumped_rows, snapshot_captures
from frazil.sources.snapshot.source import SnapshotSource
from frazil.spec.check.composed import changes_table, shard_tables
from frazil.spec.load.parse import KindError
from frazil.spec.model.pipeline import add_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from contextlib import AbstractContextManager

    from frazil.sources.base import Source
    from frazil.sources.capture import Capture
    from frazil.sources.comparison import SourceRows
    from frazil.spec import Pipeline, Table
    from frazil.spec.model.source import SourceSpec


def _sharded(table: Table) -> Source:
    return ShardedSource(table, source_of)


def _handover(table: Table) -> Source:
    return HandoverSource(table, source_of)


KINDS: Final[dict[str, Callable[[Table], Source]]] = {
    "audit_log": AuditLogSource,
    "debezium": DebeziumSource,
    "dms": DmsSource,
    "handover": _handover,
    "postgres": PostgresSource,
    "sharded": _sharded,
    "snapshot": SnapshotSource,
}
"""``kind`` of a declaration -> class or function that builds its source."""


Captures: TypeAlias = "Callable[[Pipeline, Sequence[Table]], Sequence[Capture]]"
"""Returns the captures of some tables of one kind; opens no connection."""

CAPTURES: Final[dict[str, Captures]] = {
    "audit_log": log_captures,
    "debezium": topic_captures,
    "handover": handover_captures,
    "postgres": postgres_captures,
    "snapshot": snapshot_captures,
}
"""``kind`` of a declaration -> its captures; kinds that only read files have no entry."""


RowsAtSource: TypeAlias = "Callable[[Pipeline, Table], AbstractContextManager[SourceRows]]"
"""Opens the current rows of a table at its source."""

ROWS: Final[dict[str, RowsAtSource]] = {
    "audit_log": log_rows,
    "handover": handover_rows,
    "postgres": postgres_rows,
    "snapshot": dumped_rows,
}
"""``kind`` of a declaration -> its rows at the source; kinds with changes only have no entry."""


def rows_at_source(table: Table) -> RowsAtSource | None:
    """Return the function that opens a table's rows at its source; None if the source has no rows to read."""
    if shards := shard_tables(table):
        return _rows_of_shards if all(map(rows_at_source, shards.values())) else None
    has_table = compared_table(table) if table.source.kind == "handover" else table.source.addresses
    return ROWS.get(table.source.kind) if has_table else None


def _rows_of_shards(pipeline: Pipeline, table: Table) -> AbstractContextManager[SourceRows]:
    return sharded_rows(pipeline, table, lambda _, one: ROWS[one.source.kind](pipeline, one))


def captures_of(pipeline: Pipeline, names: Collection[str]) -> list[Capture]:
    """Return the captures that bring the landing files of some tables up to date."""
    found: list[Capture] = []
    shards = [(name, one) for table in pipeline.tables for name, one in shard_tables(table).items()]
    # The changes of a handover may share a log or a topic, too.
    alone = [*pipeline.tables, *filter(None, map(changes_table, pipeline.tables))]
    for kind, captures in CAPTURES.items():
        # Shards may share a slot or a log with each other and with tables that have none.
        tables = [table for table in alone if table.source.kind == kind]
        parts = [(name, one) for name, one in shards if one.source.kind == kind]
        shards_of: dict[str, list[str]] = {}
        for name, one in parts:
            for capture in captures(pipeline, [one]):
                shards_of.setdefault(capture.name, []).append(name)
        for capture in captures(pipeline, [*tables, *(one for _, one in parts)]):
            if {*capture.tables} & {*names}:
                of = shards_of.get(capture.name)
                found.append(capture if of is None else ShardCapture(capture, tuple(of)))
    return found


def source_of(table: Table) -> Source:
    """Return the source of a table."""
    return KINDS[table.source.kind](table)


def landing_problem(
    pipeline: Pipeline, table: Table, taken: Collection[str], landed: Collection[str]
) -> FrazilError | None:
    """Return why the landing files of a table are not those that the lake goes on from; None where they are.

    Args:
        pipeline: the declaration.
        table: one of its tables.
        taken: paths of the files that bronze has of it.
        landed: paths of the files that are at its source.

    Cost: the names in the landing folder; no server is asked.
    """
    source, known, folder = source_of(table), {*taken}, pipeline.folder
    try:
        for capture in captures_of(pipeline, [table.name]):
            if not isinstance(capture, BeginsOnce) or capture.begins(folder) is None:
                continue
            if (error := capture.lost(folder, {table.name: taken})) is not None:
                return error
        if isinstance(source, VerifiesLanding):
            source.verify_landing(folder, known, [path for path in landed if path not in known])
    except FrazilError as error:
        return error
    return None


def add_source(
    spec: type[SourceSpec],
    source: Callable[[Table], Source],
    captures: Captures | None = None,
    rows: RowsAtSource | None = None,
) -> None:
    """Add a kind of source. Another distribution does so in the function that its entry point names.

    Args:
        spec: class of its declaration; the default of the field ``kind`` is the name.
        source: class or function that builds what reads the files of a table.
        captures: function that returns its captures; None if the kind only reads files.
        rows: function that opens a table's rows at its source; None if the source has only changes.

    Raises:
        KindError: another kind has the name.
    """
    name = spec.model_fields["kind"].default
    if name in KINDS:
        raise KindError(f"two kinds of sources are called {name!r}", hint="uninstall one of the two distributions")
    KINDS[name] = source
    if captures is not None:
        CAPTURES[name] = captures
    if rows is not None:
        ROWS[name] = rows
    add_kind(spec)
