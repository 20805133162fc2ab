"""Plan a run in its own session, or verify an earlier plan and complete it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frazil.catalog.trouble import as_frazil_error
from frazil.catalog.warehouse import torn_tables, verify_catalog
from frazil.errors import BusyError, FrazilError
from frazil.iceberg.snapshot import day_of_horizon, today
from frazil.lake.refs import head
from frazil.lake.tables import drop_damaged, open_catalog
from frazil.plan.layout import BRONZE, QUARANTINE, SILVER
from frazil.plan.plan import Plan
from frazil.plan.state import (
    State,
    TableState,
    gold_problems,
    gold_state,
    moved_marts,
    table_state,
    with_altered,
    with_fold,
)
from frazil.runner.batch.bronze_records import read_ledger
from frazil.runner.limits.rules import check_rules
from frazil.runner.sessions import side_by_side
from frazil.sources.base import SourceDelta
from frazil.sources.kinds import source_of
from frazil.spark.expressions import check_expressions
from frazil.spec import CATALOG
from frazil.spec.sql.names import quote
from frazil.spec.tables import gold_table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import SparkSession

    from frazil.catalog.warehouse import TornTables
    from frazil.runner.table_run import TableRun
    from frazil.spec import Gold, Pipeline
    from frazil.spec.sql.select import Selection


class OutdatedPlanError(BusyError):
    """The lake or the declaration has changed since a plan was made."""

    code = "FZ601"

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} since the plan was made; nothing was written",
            hint="run again: a new plan starts from the current tables",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Plans one run.

    Attributes:
        pipeline: the declaration.
        selection: tables and aggregates of the run.
        sessions: one session for each table that is read in parallel.
        contexts: contexts of the selected tables and of tables that a selected aggregate reads.
        rebuild: silver and marts are computed from all of bronze.
        uncaptured: table -> error of its capture.
    """

    pipeline: Pipeline
    selection: Selection
    sessions: Sequence[SparkSession]
    contexts: Mapping[str, TableRun]
    rebuild: bool
    uncaptured: Mapping[str, FrazilError]

    def plan(self, made: Plan | None) -> Plan:
        """Return the plan: exactly ``made``, except for tables that could not be read when it was made.

        A table with an invalid new expression, or one that can no longer be read, becomes a failure of the plan.

        Args:
            made: an earlier plan to verify; None plans from the current state.

        Raises:
            OutdatedPlanError: a table has a newer snapshot than ``made`` says; nothing was written.

        Cost: with ``made`` it loads each table once; it does not list sources or hash files.
        """
        # Sequentially: two sessions would collide while they create the catalog.
        for session in self.sessions:
            open_catalog(session, quote(CATALOG, self.pipeline.lake.namespaces.bronze))
        known = made.state if made is not None else State()
        if made is not None:
            self._verify(known)
        unread, torn = {*self.contexts} if made is None else made.unread, torn_tables(self.pipeline)

        def read(context: TableRun) -> TableState | FrazilError:
            name = context.table.name
            if name in self.uncaptured:
                return self.uncaptured[name]
            try:
                if name in known.failed and name not in unread:
                    return known.failed[name]
                if damage := self._damage(context, torn):
                    return damage
                return self._confirmed(context, known, torn) if name in known.tables else self._read(context, torn)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this table's
                return as_frazil_error(error, self.pipeline)

        found = dict(zip(self.contexts, side_by_side(read, self.contexts.values(), self.sessions), strict=True))
        tables = {name: one for name, one in found.items() if isinstance(one, TableState)}
        failed = {name: one for name, one in found.items() if isinstance(one, FrazilError)}
        aggregates = {f"gold.{one.name}": gold_table(self.pipeline, one).key for one in self.pipeline.gold}
        failed |= {name: torn[key] for name, key in aggregates.items() if key in torn and not self.rebuild}
        gold = read_gold(self.sessions[0], self.pipeline, failed) if made is None or unread else known.gold
        failed |= gold_problems(self.pipeline, tables, gold)
        state = State(tables=tables, failed=failed, gold=gold)
        return Plan.of(self.pipeline, self.selection, state, rebuild=self.rebuild)

    def _damage(self, context: TableRun, torn: TornTables) -> FrazilError | None:
        """Return why a table cannot be read; tables that a rebuild replaces may be unreadable."""
        made = context.tables
        needed = (made.bronze,) if self.rebuild else (made.bronze, *made.computed)
        return next((torn[one.key] for one in needed if one.key in torn), None)

    def _verify(self, known: State) -> None:
        """Raise before the first step if a table has a newer snapshot than the plan says."""

        def moved(context: TableRun) -> str | None:
            try:
                return self._moved(context, known)
            except Exception:  # noqa: BLE001 - it is this table's failure, and comes again where that is looked for
                return None

        for name in filter(None, side_by_side(moved, self.contexts.values(), self.sessions)):
            raise OutdatedPlanError(f"{name} was written")

    def _moved(self, context: TableRun, known: State) -> str | None:
        """Return the full name of a table whose newest snapshot differs from the plan; None if all match."""
        table = context.table
        paths = {table.mart_name(mart): context.mart_path(mart) for mart in table.marts}
        paths |= {BRONZE: context.bronze, SILVER: context.changes, QUARANTINE: context.quarantine}
        stood = known.tables.get(table.name, TableState()).snapshots
        for name, snapshot in stood.items():
            at = context.head(paths[name], rebuilt=self.rebuild and name != BRONZE)
            if at.snapshot_id != snapshot:
                return ".".join(paths[name][1:])
        return None

    def _confirmed(self, context: TableRun, known: State, torn: TornTables) -> TableState:
        state = known.tables[context.table.name]
        self._moved(context, known)  # raises what keeps a table from being read
        if self._is_selected(context):
            if self.rebuild and drop_damaged(context.spark, self.pipeline, [context.table.name], torn):
                context.heads.clear()
            check_new_expressions(context, state)
        return state

    def _read(self, context: TableRun, torn: TornTables) -> TableState:
        is_selected = self._is_selected(context)
        if self.rebuild and is_selected:
            drop_damaged(context.spark, self.pipeline, [context.table.name], torn)
        state = read_state(context, rebuild=self.rebuild, with_source=is_selected)
        if is_selected:
            check_new_expressions(context, state)
        return state

    def _is_selected(self, context: TableRun) -> bool:
        return context.table.name in self.selection.tables


def read_state(context: TableRun, *, rebuild: bool, with_source: bool = True) -> TableState:
    """Read the state of the tables of one source table, and list new files at the source.

    Args:
        context: the table's part of the run.
        rebuild: silver and marts are computed from all of bronze, so their bookmarks are not verified.
        with_source: list the source; if False, the state has no new files.

    Raises:
        HistoryChangedError: the warehouse has tables that the catalog lacks, a bookmark is lost, or a known file has
            changed content.
        SourceError: a landing folder is missing.
        FrazilError: the declaration does not fit the tables, see :func:`frazil.plan.state.table_state`.
    """
    table = context.table
    bronze = context.head(context.bronze)
    if bronze.location is not None or bronze.snapshot_id is None:
        verify_catalog(context.pipeline, table, bronze.location)
    marts = {table.mart_name(mart): context.head(context.mart_path(mart), rebuilt=rebuild) for mart in table.marts}
    stands = {
        BRONZE: context.head(context.bronze),
        SILVER: context.head(context.changes, rebuilt=rebuild),
        QUARANTINE: context.head(context.quarantine, rebuilt=rebuild),
        **marts,
    }
    bookmarks = {name: at.bookmark for name, at in stands.items()}
    moved_marts(context.pipeline, table, bookmarks)
    taken = source_of(table).find_new(context.pipeline.folder, read_ledger(context)) if with_source else SourceDelta()
    rows = {name: at.records for name, at in (*marts.items(), (QUARANTINE, stands[QUARANTINE]))}
    columns = {name: at.columns for name, at in stands.items()}
    altered = {name: at.altered for name, at in stands.items()}
    found = table_state(context.pipeline, table, bookmarks, taken, rows=rows, columns=columns)
    found = with_altered(found, table, bookmarks, columns, altered)
    day = day_of_horizon(today(), stands[SILVER]) if with_source else None
    return with_fold(found, table, bookmarks, day)


def check_new_expressions(context: TableRun, state: TableState) -> None:
    """Check a table's expressions with Spark, unless they were checked before with these fields.

    Raises:
        SqlError: Spark refuses an expression; nothing was written.
    """
    table = context.table
    if SILVER in state.rebuilds or state.silver == 0 or state.fields.keys() - state.seen_fields:
        check_expressions(context.spark, table, dict(state.contract.fields) if state.contract else {})
    if state.contract is not None:
        # Rules that only warn or stop a run can change without a rebuild.
        check_rules(context.spark, state.contract, table.name)


def read_gold(spark: SparkSession, pipeline: Pipeline, failed: Collection[str]) -> dict[str, Mapping[str, int]]:
    """Read the batch of every mart that an aggregate was computed from.

    An unreadable aggregate counts as never computed: its refresh then reports the error, and others continue.

    Args:
        spark: a session with the lake.
        pipeline: the declaration.
        failed: names of failures; aggregates listed as ``gold.<name>`` are not read.

    Returns:
        Aggregate -> mart -> batch.
    """

    def bookmark(gold: Gold) -> Mapping[str, Any]:
        if f"gold.{gold.name}" in failed:
            return {}
        try:
            return head(spark, quote(*gold_table(pipeline, gold).path)).own_bookmark
        except Exception:  # noqa: BLE001 - whatever it is, it is this aggregate's
            return {}

    return gold_state(pipeline, {gold.name: bookmark(gold) for gold in pipeline.gold})
