"""One turn of a capture; :mod:`frazil.sources.postgres.capture` says in which order things are done, and why."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import sql

from frazil.failpoints import failpoint
from frazil.sources.capture import Lag, Landed, Waiting
from frazil.sources.postgres.database.rules import PLUGIN, Rules
from frazil.sources.postgres.database.server import Server, exported_snapshot
from frazil.sources.postgres.errors import ServerError
from frazil.sources.postgres.landed.files import RangeFiles, TableRange
from frazil.sources.postgres.landed.landing import LOAD, NO_TIMELINE, RELOAD, CaptureState, Landing, lsn_of, server_lsn
from frazil.sources.postgres.landed.load import ExportedSnapshot, RewrittenError, load_table, write_truncate
from frazil.sources.postgres.landed.pgoutput import Decoder, changed_tables
from frazil.spec.model.kinds.postgres import BEHIND

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from frazil.errors import FrazilError
    from frazil.sources.postgres.database.known import Known
    from frazil.sources.postgres.database.server import ServerTable
    from frazil.spec import Table

MOST_LOADS: Final = 5
"""Number of attempts to load a table that is emptied or rewritten during each load."""


class Turn:
    """One turn of a capture."""

    def __init__(
        self, declared: Sequence[Table], url: str, landing: Landing, where: str, progress: Callable[[str], None]
    ) -> None:
        source = declared[0].source
        self._url, self._landing, self._where, self._progress = url, landing, where, progress
        self._slot, self._publication = source.slot, source.publication
        self._declared = declared
        self._files = self._records = 0

    def land(self, range_bytes: int) -> Landed:
        """Land the changes that the server has now, in ranges of ``range_bytes`` of the WAL."""
        with Server(self._url) as self._server:
            if not self._server.lock(self._slot):
                return Landed(busy="another process of Frazil")
            try:
                return self._land(range_bytes)
            except psycopg.errors.ObjectInUse as error:
                return Landed(busy=f"{error}".strip().splitlines()[0])

    def _land(self, range_bytes: int) -> Landed:
        state, broken = self._look()
        _obey(broken)
        tables = self._published(state)
        failpoint("capture.after_publication")
        state = self._with_slot(state)
        state = self._with_rows(state, tables)
        moment = time.time()
        target = self._server.flushed()
        budget = range_bytes
        while state.until is not None or state.position < target:
            end = state.until or min(target, state.position + budget)
            before = self._records
            state = self._range(state, end)
            # The range may lie within one transaction, which comes at its commit: try a longer range.
            budget = range_bytes if self._records > before else 2 * budget
            self._progress(f"{self._records:,} changes, {max(0, target - state.position):,} bytes to go")
        self._landing.is_level_at(moment)
        found = distance(self._server.flushed() - state.position, moment, files=self._files, records=self._records)
        return replace(found, failed=self._rules.failed)

    def _look(self) -> tuple[CaptureState | None, list[FrazilError]]:
        """Return the state, and the problems of the server."""
        state = self._landing.state()
        self._rules = Rules(self._server, self._declared, self._landing, self._where)
        broken = [*self._rules.server(state)]
        if state is not None and self._rules.is_behind:
            # The server will soon have written as much WAL again, which hides the restore.
            self._landing.keep(replace(state, timeline=NO_TIMELINE))
        return state, broken

    def _published(self, state: CaptureState | None) -> dict[tuple[str, str], ServerTable]:
        """Return the declared tables as published; tables missing in the publication are added to it."""
        _obey(self._rules.published(state))
        self._rules.verify_keys()
        if state is None and not self._rules.tables:
            _obey(self._rules.stopped.values())
        if missing := self._rules.unpublished:
            places = sql.SQL(", ").join(table.itself for table in missing)
            command = _ADD if self._rules.has_publication else _CREATE
            self._server.tell(command.format(sql.Identifier(self._publication), places))
        for table in missing:
            self._rules.look_again(table)
        return self._rules.tables

    def _with_slot(self, state: CaptureState | None) -> CaptureState:
        """Return the state; the slot is created at the first capture."""
        _obey(self._rules.slot(state))
        if self._rules.found_slot is None:
            position = make_slot(self._server, self._slot)
            failpoint("capture.after_slot")
        else:
            *_, text = self._rules.found_slot
            position = lsn_of(text)
        if state is None:
            state = self._new_state(position)
            self._landing.keep(state)
        elif position < state.position:
            self._advance(state.position)
        return replace(state, timeline=self._rules.timeline)

    def _new_state(self, position: int, era: int = 0) -> CaptureState:
        return CaptureState(
            system=self._rules.system,
            database=self._server.session.info.dbname,
            timeline=self._rules.timeline,
            position=position,
            era=era,
        )

    def _with_rows(self, state: CaptureState, tables: dict[tuple[str, str], ServerTable]) -> CaptureState:
        """Land the initial rows of tables without them."""
        loaded = {place: self._landing.loaded_at(*place) for place in tables}
        for place in tables:
            self._landing.clear(*place)
        known: dict[str, Known] = {table.full_name: self._rules.now[place] for place, table in tables.items()}
        self._load_all([table for place, table in tables.items() if loaded[place] is None], state, LOAD)
        self._refill(tables, state)
        # Stopped tables keep their known definition until the user has decided.
        stopped = {".".join(place) for place in self._rules.stopped}
        missed = {".".join(place) for place in self._rules.missed}
        names = {*known, *((stopped - missed) & {*state.tables})}
        known |= {name: one for name, one in state.known.items() if name in stopped}
        state = replace(state, tables=tuple(sorted(names)), known=known, stopped=tuple(sorted(stopped)))
        if state != self._landing.state():
            self._landing.keep(state)
        return state

    def _refill(self, tables: dict[tuple[str, str], ServerTable], state: CaptureState) -> None:
        """Land rows again if values or partitions changed in a way that PostgreSQL does not send."""
        again = []
        for place, changed in self._rules.changed.items():
            if changed.refilled is not None and place in tables:
                self._progress(f"{tables[place].full_name}: {changed.refilled}: all rows are read again")
                again.append(tables[place])
            elif changed.attached and place in tables:
                again += self._leaves(tables[place], changed.attached)
        # Each part of a table needs a folder of its own.
        while again:
            now = {table.place: table for table in again}
            self._load_all([*now.values()], state, RELOAD)
            again = [table for table in again if table not in now.values()]

    def _leaves(self, table: ServerTable, partitions: Collection[int]) -> list[ServerTable]:
        """Return the partitions with rows, as tables with the columns of the parent."""
        found = []
        for oid, schema, name, pages in self._server.rows(_LEAVES, [*partitions]):
            if pages:
                self._progress(f"{table.full_name}: partition {schema}.{name} was attached: its rows are read")
                found.append(replace(table, oid=oid, schema=schema, name=name, is_partitioned=False, pages=pages))
        return found

    def _load_all(self, missing: list[ServerTable], state: CaptureState, prefix: str) -> None:
        for _ in range(MOST_LOADS):
            if not missing:
                return
            missing = self._load(missing, state, prefix)
        raise ServerError(
            f"{self._where}: {missing[0].full_name} was emptied or rewritten during each of {MOST_LOADS} loads",
            hint="run again while the table is not being rewritten",
        )

    def _load(self, tables: list[ServerTable], state: CaptureState, prefix: str) -> list[ServerTable]:
        """Land rows from one snapshot; return the tables that were rewritten meanwhile and need another snapshot.

        Initial rows come before all changes; other rows have the place of the snapshot.
        """
        again = []
        read_at = self._server.one(NOW)
        self._progress("waits for a snapshot: transactions that are open now end first")
        with exported_snapshot(self._url, f"{self._server.session.info.backend_pid}") as (lsn, name):
            snapshot = ExportedSnapshot(
                url=self._url,
                lsn=lsn,
                name=name,
                read_at=read_at,
                domains=self._server.domains(),
                position=None if prefix == LOAD else f"{state.at(lsn)}{BEHIND}",
            )
            for table in tables:
                folder = self._landing.new_load(*table.place)
                if prefix == RELOAD and self._rules.changed[table.place].rekeyed is not None:
                    write_truncate(table, folder, snapshot, state.at(lsn))
                try:
                    self._records += load_table(table, folder, snapshot, self._progress)
                except RewrittenError:
                    self._landing.clear(*table.place)
                    again.append(table)
                    continue
                self._files += len([*folder.iterdir()])
                failpoint("capture.rows_written")
                self._landing.show_load(folder, f"{prefix}{state.at(lsn)}")
                failpoint("capture.rows_shown")
        return again

    def _range(self, state: CaptureState, end: int) -> CaptureState:
        """Land the changes that were committed between the position of the state and ``end``."""
        places = [place for place in self._rules.names if ".".join(place) in {*state.known} & {*state.tables}]
        ranges = {place: self._table_range(place) for place in places}
        numbers = {state.known[".".join(place)].oid: rows for place, rows in ranges.items()}
        files = RangeFiles((state.position, end), state.era, numbers, self._server.domains())
        decoder = Decoder(files)
        try:
            for message in self._server.peek(self._slot, self._publication, end):
                decoder.feed(message)
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            raise self._rules.lost("the server no longer has the WAL that the slot needs") from error
        files.close()
        state = self._without_missed(state, ranges, files)
        failpoint("capture.range_written")
        if files.files:
            self._landing.keep(replace(state, until=end))
            failpoint("capture.range_named")
            files.show()
            failpoint("capture.range_shown")
        state = replace(state, position=end, until=None)
        self._landing.keep(state)
        failpoint("capture.before_advance")
        self._advance(end)
        failpoint("capture.after_advance")
        self._files += len(files.files)
        self._records += files.records
        return state

    def _table_range(self, place: tuple[str, str]) -> TableRange:
        loaded_at = self._landing.loaded_at(*place) or ""
        return TableRange(self._landing.table(*place), loaded_at, self._rules.keys[place], self._rules.kept(place))

    def _without_missed(
        self, state: CaptureState, ranges: Mapping[tuple[str, str], TableRange], files: RangeFiles
    ) -> CaptureState:
        """Stop the tables whose changes do not say which rows they change, or to what; they are not landed."""
        missed = set()
        for place, rows in ranges.items():
            # Another rule knows a column that still has another name.
            if rows.missed is None and rows.absent and (again := sorted(rows.absent & self._column_names(place))):
                rows.missed = f"column {again[0]} had another name for a time, and its changes have that name"
            if rows.missed is not None:
                rows.remove(files)
                self._rules.stop(place, rows.missed)
                missed.add(".".join(place))
        tables = tuple(name for name in state.tables if name not in missed)
        return replace(state, tables=tables, stopped=tuple(sorted({*state.stopped, *missed})))

    def _column_names(self, place: tuple[str, str]) -> set[str]:
        now = self._server.place_of(self._rules.now[place].oid)
        table = now and self._server.table(now, self._publication)
        return {*table.columns} if table else set()

    def _advance(self, position: int) -> None:
        self._server.advance(self._slot, position)


def make_slot(server: Server, slot: str) -> int:
    """Create a slot; return the position from which it has all changes."""
    return lsn_of(server.one("SELECT lsn::text FROM pg_create_logical_replication_slot(%s, %s)", slot, PLUGIN))


def _obey(broken: Iterable[FrazilError]) -> None:
    """Raise the error of the first broken rule."""
    for error in broken:
        raise error


def behind(declared: Sequence[Table], url: str, landing: Landing, where: str) -> Lag:
    """Return the distance between the landing files and the server.

    Args:
        declared: declared tables that share the slot.
        url: address of the database.
        landing: landing folder of the slot.
        where: name of the slot, for messages.

    Raises:
        SlotLostError: changes are missing, so that the files can never catch up.
    """
    with Server(url) as server:
        state = landing.state()
        rules = Rules(server, declared, landing, where)
        for rule in (rules.server, rules.slot):
            _obey(rule(state))
        if state is None:
            return Lag(begun=False)
        found = distance(server.flushed() - state.position, landing.level_at())
    seconds = found.behind_seconds if found.behind_bytes else 0.0
    return Lag(behind_bytes=found.behind_bytes, behind_seconds=seconds)


def distance(behind_bytes: int, level_at: float | None, *, files: int = 0, records: int = 0) -> Landed:
    """Return the result of a turn with the distance to the server.

    Args:
        behind_bytes: bytes of the WAL, including those of other tables and databases.
        level_at: when the files were last up to date, in seconds since 1970; None if never.
        files: number of landed files.
        records: number of records in them.
    """
    seconds = max(0.0, time.time() - level_at) if behind_bytes > 0 and level_at is not None else None
    return Landed(files=files, records=records, behind_bytes=max(0, behind_bytes), behind_seconds=seconds)


_CREATE: Final = sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)")
_ADD: Final = sql.SQL("ALTER PUBLICATION {} ADD TABLE {}")

_LEAVES: Final = """
SELECT c.oid::int8, n.nspname::text, c.relname::text, pg_relation_size(c.oid) / current_setting('block_size')::int
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY (%s::int8[]::oid[]) AND c.relkind = 'r' ORDER BY c.oid"""

NOW: Final = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"


_PATIENCE_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.2


def find_uncaptured(url: str, landing: Landing, table: Table, into: Path, end: int) -> str | None:
    """Write the changes of a table that are not landed below a folder.

    Args:
        url: address of the database.
        landing: landing folder of the slot.
        table: declared table.
        into: folder to write to.
        end: position of the WAL; later commits are left out.

    Returns:
        The reason if the changes cannot be read; None on success.

    Cost: decodes the WAL after the landed files once more; the slot keeps its position.
    """
    source = table.source
    state = landing.state()
    if state is None:
        return "nothing was captured yet"
    place = source.schema_and_name
    folder = Landing(into, source.slot).table(*place)
    folder.mkdir(parents=True)
    with Server(url) as server:
        _wait_until_flushed(server, end)
        known = state.known.get(".".join(place))
        if known is None:
            return "it was captured by an older version: frazil run"
        # Only one process can read the slot. Changes that a running capture lands meanwhile are in its files.
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            rows = TableRange(folder, landing.loaded_at(*place) or "", table.keys)
            files = RangeFiles((state.position, end), state.era, {known.oid: rows}, server.domains())
            try:
                decoder = Decoder(files)
                for message in server.peek(source.slot, source.publication, end):
                    decoder.feed(message)
            except psycopg.errors.ObjectInUse:
                if time.monotonic() > until:
                    return f"slot {source.slot} is in use"
                time.sleep(_PAUSE_SECONDS)
                continue
            except psycopg.Error as error:
                return f"slot {source.slot} cannot be read: {f'{error}'.strip().splitlines()[0]}"
            files.close()
            files.show()
            return rows.missed


def count_uncaptured(url: str, landing: Landing, declared: Sequence[Table], where: str) -> Waiting:
    """Count the changes of each table that are not landed, and find the tables that would stop.

    Args:
        url: address of the database.
        landing: landing folder of the slot.
        declared: declared tables that share the slot.
        where: name of the slot, for messages.

    Cost: decodes the WAL after the landed files once more; the slot keeps its position.
    """
    state, source = landing.state(), declared[0].source
    counts: Counter[int] = Counter()
    with Server(url) as server:
        rules = Rules(server, declared, landing, where)
        for rule in (rules.server, rules.published, rules.slot):
            if broken := next(rule(state), None):
                return Waiting(failed={table.name: broken for table in declared})
        if state is not None:
            counts.update(
                changed_tables(server.peek(source.slot, source.publication, server.flushed()), state.position)
            )
    found: dict[str, int | None] = {}
    for table in declared:
        known = state.known.get(".".join(table.source.schema_and_name)) if state else None
        found[table.name] = counts[known.oid] if known else None
    failed = rules.failed
    return Waiting(counts={name: count for name, count in found.items() if name not in failed}, failed=failed)


def _wait_until_flushed(server: Server, end: int) -> None:
    """Wait until the WAL up to a position is readable: with ``synchronous_commit = off`` a commit is flushed later."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while server.one("SELECT pg_current_wal_flush_lsn() < %s::pg_lsn", server_lsn(end)) and time.monotonic() < until:
        time.sleep(_PAUSE_SECONDS)
