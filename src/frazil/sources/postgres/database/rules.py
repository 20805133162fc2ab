"""The rules that a server, its publication, tables and slot must keep so that no change is lost.

A capture stops at the first broken rule. ``frazil doctor`` reports all of them, and imminent problems.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from frazil.sources.postgres.database.known import Known, KnownColumn, after, table_difference
from frazil.sources.postgres.database.server import end_of_timeline, missing_key, repeated_key, unwatched_key
from frazil.sources.postgres.errors import ColumnRenamedError, ServerSetupError, SlotLostError, TableReplacedError
from frazil.sources.postgres.landed.files import check_columns
from frazil.sources.postgres.landed.landing import lsn_of
from frazil.spec.contract import declared_columns, event_time, final_names
from frazil.spec.model.kinds.postgres import OWN_FIELDS
from frazil.spec.sql.sql import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from frazil.errors import FrazilError
    from frazil.sources.postgres.database.known import TableDifference
    from frazil.sources.postgres.database.server import Server, ServerTable
    from frazil.sources.postgres.landed.landing import CaptureState, Landing
    from frazil.spec import Table

PLUGIN: Final = "pgoutput"
_WAL_LEVEL: Final = "logical"


class Rules:
    """The rules for the tables that share a slot, and the facts about the server found by checking them."""

    def __init__(self, server: Server, declared: Sequence[Table], landing: Landing, where: str) -> None:
        source = declared[0].source
        self._server, self._declared, self._landing, self._where = server, declared, landing, where
        self._slot, self._publication = source.slot, source.publication
        self.names = {table.source.schema_and_name: table.name for table in declared}
        """Place of a table at the server -> declared name."""
        self.keys: dict[tuple[str, str], set[str]] = {}
        for table in declared:
            self.keys.setdefault(table.source.schema_and_name, set()).update(table.keys)
        self.system, self.timeline = "", 0
        self.is_behind = False
        """True if the WAL of the server ends before the landed files do."""
        self.tables: dict[tuple[str, str], ServerTable] = {}
        self.now: dict[tuple[str, str], Known] = {}
        """Place -> current definition of the table in the catalog."""
        self.changed: dict[tuple[str, str], TableDifference] = {}
        """Place -> changes of a known table since the last capture."""
        self._known: Mapping[str, Known] = {}
        self.stopped: dict[tuple[str, str], FrazilError] = {}
        """Place -> why the table stops; the other tables of the slot continue."""
        self.missed: set[tuple[str, str]] = set()
        """Stopped tables whose changes are not landed meanwhile; their rows must be read again later."""
        self.has_publication = False
        self.found_slot: tuple[Any, ...] | None = None
        """Plugin, database, True if its WAL is lost, and the position up to which the server may discard WAL."""

    @property
    def unpublished(self) -> list[ServerTable]:
        """Return the tables that the publication lacks; call after :meth:`published`."""
        return [table for table in self.tables.values() if not table.is_published]

    @property
    def is_slot_dead(self) -> bool:
        """Return True if the server has removed WAL that the slot needs; call after :meth:`slot`."""
        return self.found_slot is not None and bool(self.found_slot[2])

    @property
    def loaded(self) -> set[tuple[str, str]]:
        """Return the places of tables whose rows were landed."""
        return {place for place in self.names if self._landing.loaded_at(*place) is not None}

    @property
    def failed(self) -> dict[str, FrazilError]:
        """Return the declared names of stopped tables with the reasons; call after :meth:`published`."""
        return {
            table.name: self.stopped[table.source.schema_and_name]
            for table in self._declared
            if table.source.schema_and_name in self.stopped
        }

    def server(self, state: CaptureState | None) -> Iterator[FrazilError]:
        """Yield problems of the server: no logical WAL, or another history than the landed one."""
        if (level := self._server.one("SHOW wal_level")) != _WAL_LEVEL:
            yield ServerSetupError(
                f"{self._where}: the server runs with wal_level={level}",
                hint="ALTER SYSTEM SET wal_level = 'logical', then restart the server",
            )
        [(self.system, database, self.timeline)] = self._server.rows(_SERVER)
        if state is None:
            return
        if (state.system, state.database) != (self.system, database):
            yield self.lost("the landing files are from another server or database, or from a time before a restore")
            return
        self.is_behind = state.position > self._server.flushed()
        is_other = state.timeline not in (0, self.timeline)
        if self.is_behind or (
            is_other and state.position > end_of_timeline(self._server.url, state.timeline, self.timeline)
        ):
            yield self.lost("the server was restored or replaced: it lacks some of the landed changes")

    def published(self, state: CaptureState | None) -> Iterator[FrazilError]:
        """Yield problems of the publication. A problem of a table only stops that table.

        A table that is not yet in the publication is not a problem. Without a state, the tables are not compared with
        their known definitions.
        """
        made = self._server.rows(_PUBLICATION, self._publication)
        self.has_publication = bool(made)
        self.tables, self.now, self.changed, self.stopped, self.missed = {}, {}, {}, {}, set()
        self._known = self._known if state is None else state.known
        for place in self.names:
            table = self._found(place, is_compared=state is not None)
            if table is None:
                continue
            if (error := self._unfit(place, table) or self._lapsed(table, state)) is not None:
                self.stopped[place] = error
                continue
            self.tables[place] = table
            if table.is_partitioned and made and not made[0][1]:
                yield ServerSetupError(
                    f"{self._where}: the changes of {table.full_name} would come under the names of its partitions",
                    hint=f"ALTER PUBLICATION {self._publication} SET (publish_via_partition_root = true)",
                )
        if made and not made[0][0]:
            yield ServerSetupError(
                f"{self._where}: publication {self._publication} leaves out some kinds of changes",
                hint=f"ALTER PUBLICATION {self._publication} SET (publish = 'insert, update, delete, truncate')",
            )

    def look_again(self, table: ServerTable) -> None:
        """Take the definition of a table that was added to the publication."""
        now = self._server.table((table.schema, table.name), self._publication, table.place)
        del self.tables[table.place]
        if now is not None:
            self.tables[table.place] = now
            self.now[table.place] = self._definition(now)

    def _found(self, place: tuple[str, str], *, is_compared: bool) -> ServerTable | None:
        """Return a table as the server has it, found by its number if it was renamed; None if the table stops."""
        full = ".".join(place)
        known = self._known.get(full) if place in self.loaded else None
        table = self._server.table(place, self._publication)
        if known is not None and (table is None or table.oid != known.oid):
            now = self._server.place_of(known.oid)
            if is_compared and (table is not None or now is None):
                self.stopped[place] = self._replaced(place, now, is_there=table is not None)
                return None
            if table is None and now is not None:
                table = self._server.table(now, self._publication, place)
        if table is None:
            self.missed.add(place)
            self.stopped[place] = ServerSetupError(
                f"{self._where}: table {full} does not exist",
                hint=f"declare the table of '{self.names[place]}' as named at the server; names are case-sensitive",
            )
            return None
        self.now[place] = self._definition(table)
        if is_compared and known is not None and known.identity != table.identity:
            self.stopped |= self._ambiguous(place, table, known)
        if place in self.stopped:
            return None
        # An unpublished table has no column list or row filter; another rule reports it.
        if is_compared and known is not None and table.is_published:
            self.changed[place] = table_difference(known, self.now[place], self._key_columns(place))
            if stops := self._stops(place, self.changed[place]):
                self.stopped[place] = stops
                return None
            for old, new in (one for table in self._of(place) for one in _undeclared(table, self.changed[place])):
                self.changed[place] = replace(self.changed[place], refilled=f"column {old} is called {new} now")
        return table

    def _definition(self, table: ServerTable) -> Known:
        known, now = self._known.get(table.full_name), known_table(self._server, table)
        return now if known is None else after(known, now)

    def _key_columns(self, place: tuple[str, str]) -> set[str]:
        """Return the columns of the source, in lower case, that the keys of its tables are made of."""
        found = set()
        for table in self._of(place):
            keys = {key.lower() for key in table.keys}
            found |= keys | {old for old, new in final_names(table).items() if new.lower() in keys}
            exprs = (column.expr for name, column in declared_columns(table).items() if name.lower() in keys)
            found |= {field.lower() for expr in exprs if expr is not None for field in fields_of(expr)}
        return found

    def _replaced(self, place: tuple[str, str], now: tuple[str, str] | None, *, is_there: bool) -> FrazilError:
        """Return the error for a name that now belongs to another table, or to no table."""
        full, where = ".".join(place), f"is called {'.'.join(now)} now" if now else "was dropped"
        if is_there:
            return TableReplacedError(
                f"{self._where}: {full} is another table than the one that was captured, which {where}; the "
                "landed rows are from that one",
                hint=self._taken_anew(place),
                places=frozenset({place}),
            )
        return TableReplacedError(
            f"{self._where}: {full} {where}",
            hint=f"remove table '{self.names[place]}' from the declaration, the lake keeps its rows; if the "
            f"server gets the table again: {self._taken_anew(place)}",
            places=frozenset({place}),
        )

    def _stops(self, place: tuple[str, str], changed: TableDifference) -> FrazilError | None:
        """Return why a table cannot continue after changes of its definition; None if it can."""
        full = ".".join(place)
        if changed.missed is not None:
            hint = self._taken_anew(place)
            if changed.unlisted:
                hint = f"add it to the column list of publication {self._publication}; then {hint}"
            return self._rows_missed(place, changed.missed, hint)
        for table in self._of(place):
            if changed.rekeyed is not None and (own := own_order(table)) is not None:
                why = f"{changed.rekeyed}; it is a part of the key, and rows that are gone have no {own}"
                return self._rows_missed(place, why, self._taken_anew(place))
            for old, new in _undeclared(table, changed):
                is_key = old.lower() in {key.lower() for key in table.keys}
                if table.source.on_rename == "follow" and not is_key:
                    continue
                hint = f"declare it in table '{table.name}', and use the new name everywhere else in it: "
                hint += f"renames: {{{old}: {new}}}; or on_rename: follow in its source"
                if is_key:
                    hint = (
                        "it is a column of the key, which cannot be renamed: restore its name; or use the new name in "
                    )
                    hint += f"the declaration and start over: {self._begin_again(table)}; frazil run"
                return ColumnRenamedError(f"{self._where}: column {old} of {full} is called {new} now", hint=hint)
        return None

    def _ambiguous(
        self, place: tuple[str, str], table: ServerTable, known: Known
    ) -> dict[tuple[str, str], FrazilError]:
        """Return an error if the identity made declared keys unique and is another now; without one, rows only come."""
        for one in self._of(place):
            keys = {key.lower() for key in one.keys}
            was_unique = known.identity and {column.lower() for column in known.identity} <= keys
            if was_unique and table.identity and unwatched_key(self._server, table, one):
                self.missed.add(place)
                return {
                    place: ServerSetupError(
                        f"{self._where}: keys of table '{one.name}' may name several rows of {table.full_name}: the "
                        f"table has no unique index of only {', '.join(one.keys)} any more",
                        hint=f"restore the index; or declare keys: [{', '.join(table.identity)}] and start over: "
                        f"{self._begin_again(one)}; frazil run",
                    )
                }
        return {}

    def _unfit(self, place: tuple[str, str], table: ServerTable) -> FrazilError | None:
        """Return why a table cannot be captured; None if it can."""
        if place not in self.loaded and self._server.one("SELECT row_security_active(%s::int8::oid)", table.oid):
            return ServerSetupError(
                f"{self._where}: row-level security hides rows of {table.full_name} from this login, but not their "
                "changes",
                hint=self._server.one(_SEES_ALL),
            )
        full = f"ALTER TABLE {table.sql_name} REPLICA IDENTITY FULL"
        if not table.identity:
            # Inserts are landed meanwhile, and other changes are impossible.
            return ServerSetupError(
                f"{self._where}: {table.full_name} has neither a primary key nor a replica identity; once published, "
                "PostgreSQL would refuse its updates and deletes",
                hint=f"give it a primary key that is not deferrable, or: {full}",
            )
        try:
            check_columns(table.full_name, table.columns)
        except ServerSetupError as taken:
            self.missed.add(place)
            return taken
        found = self._unfit_keys(place, table, full)
        known = self._known.get(table.full_name)
        # With an unchanged identity the declaration is wrong, which does not affect the landed changes.
        if found is not None and (table.is_full or known is None or known.identity != table.identity):
            self.missed.add(place)
        return found or self._unfit_children(table)

    def _unfit_children(self, table: ServerTable) -> FrazilError | None:
        """Return an error if a table has undeclared children (``INHERITS``), whose changes are not captured."""
        names = {".".join(place) for place in self.names}
        numbers = {one.oid for one in self._known.values()}
        others = [name for oid, name in table.children if name not in names and oid not in numbers]
        if not others:
            return None
        return ServerSetupError(
            f"{self._where}: {table.full_name} has children (INHERITS) that are not declared: {', '.join(others)}; "
            "their changes are not sent as its changes",
            hint=f"declare them as tables of their own: {table.full_name} is then what SELECT … FROM ONLY shows",
        )

    def _unfit_keys(self, place: tuple[str, str], table: ServerTable, full: str) -> FrazilError | None:
        missing = (missing_key(self._where, table, one) for one in self._of(place))
        if (error := next(filter(None, missing), None)) is not None:
            return error
        identity = {column.lower() for column in table.identity}
        columns = {column.lower() for column in table.columns}
        keys = {key for key in self.keys[place] if key.lower() in columns}
        if others := sorted(key for key in keys if key.lower() not in identity):
            return ServerSetupError(
                f"{self._where}: key '{others[0]}' of table '{self.names[place]}' is not in the replica identity of "
                f"{table.full_name} ({', '.join(table.identity)}): deletes would not carry it",
                hint=f"declare keys of the identity, or: {full}",
            )
        return None

    def _lapsed(self, table: ServerTable, state: CaptureState | None) -> FrazilError | None:
        """Return an error if a loaded table was not captured for a time; None if all its changes were landed."""
        loaded = self._landing.loaded_at(*table.place)
        if state is None or loaded is None:
            return None
        is_captured = table.full_name in state.tables
        if is_captured and not table.is_published:
            why = f"was removed from publication {self._publication}"
        elif not is_captured and loaded < state.at(state.position):
            # Otherwise its rows appeared just before the process was killed.
            why = "was not captured for a time: not declared, stopped, or not read again to the end"
        else:
            return None
        self.missed.add(table.place)
        return self.lost(f"{table.full_name} {why}", table.place)

    def verify_keys(self) -> None:
        """Stop new tables that have several rows with one key; call after :meth:`published`."""
        for place, table in [*self.tables.items()]:
            if place in self.loaded:
                continue
            errors = (repeated_key(self._where, self._server, table, one) for one in self._of(place))
            if (error := next(filter(None, errors), None)) is not None:
                self.stopped[place] = error
                del self.tables[place]

    def _of(self, place: tuple[str, str]) -> list[Table]:
        """Return the declared tables of a place."""
        return [table for table in self._declared if table.source.schema_and_name == place]

    def slot(self, state: CaptureState | None) -> Iterator[FrazilError]:
        """Yield why the slot does not continue the landed files; a slot that will be created is not a problem."""
        if state is None and self.loaded:
            yield SlotLostError(
                f"{self._where}: the landing folder {self._landing.folder} was lost or replaced; changes may be "
                "missing",
                hint=f"restore the landing folder; or {self._way_out(None)}",
            )
        found = self._server.rows(_SLOT, self._slot)
        if not found:
            if state is not None:
                yield self.lost("the slot is gone")
            return
        self.found_slot = found[0]
        plugin, database, _, confirmed = found[0]
        if self.is_slot_dead:
            yield self.lost("the server has removed WAL that the slot needs (max_slot_wal_keep_size)")
        elif plugin != PLUGIN or database != self._server.session.info.dbname:
            yield ServerSetupError(
                f"{self._where}: the slot exists with plugin {plugin} in database {database}",
                hint="declare another slot",
            )
        elif state is not None and lsn_of(confirmed) > state.position:
            yield self.lost("another process has read changes from the slot")

    def kept(self, place: tuple[str, str]) -> set[str]:
        """Return the columns that a table had at the last capture and has now, under the same names."""
        known, now = self._known.get(".".join(place)), self.now.get(place)
        if known is None or now is None:
            return set()
        both = ((column, now.columns.get(number)) for number, column in known.columns.items())
        return {old.name for old, new in both if new is not None and new.name == old.name}

    def stop(self, place: tuple[str, str], why: str) -> None:
        """Stop a table whose changes do not say which rows they change, or to what."""
        hint, table = self._taken_anew(place), self.tables.get(place)
        if table is not None and table.row_filter is not None and not table.is_full:
            hint = f"ALTER TABLE {table.sql_name} REPLICA IDENTITY FULL; then {hint}"
        self.missed.add(place)
        if not isinstance(self.stopped.get(place), TableReplacedError):
            self.stopped[place] = self._rows_missed(place, why, hint)

    def _rows_missed(self, place: tuple[str, str], why: str, hint: str) -> TableReplacedError:
        return TableReplacedError(f"{self._where}: {'.'.join(place)}: {why}", hint=hint, places=frozenset({place}))

    def lost(self, why: str, *places: tuple[str, str]) -> SlotLostError:
        """Return the error for missing changes of some tables; of all tables if ``places`` is empty."""
        missed = frozenset(places) if places else None
        return SlotLostError(f"{self._where}: {why}; changes may be missing", hint=self._way_out(missed), places=missed)

    def _way_out(self, places: frozenset[tuple[str, str]] | None) -> str:
        """Return the commands that read the tables again; a table whose deleted rows have no order starts over."""
        missed = [table for table in self._declared if table.source.schema_and_name in (places or self.loaded)]
        dropped = [table for table in missed if own_order(table)]
        steps = [self._begin_again(table) for table in dropped]
        again = [table.name for table in missed if table not in dropped]
        if not again and places is None:
            again = [table.name for table in self._declared]
        if again:
            steps.append(" ".join(["frazil capture", *(f"--reload {name}" for name in dict.fromkeys(again))]))
        lost = f" ({', '.join(one.name for one in dropped)}: what its history has so far is lost)" if dropped else ""
        return f"read the tables again{lost}: {'; '.join([*steps, 'frazil run'])}"

    def _taken_anew(self, place: tuple[str, str]) -> str:
        """Return the same commands for a replaced table or one with lost rows, with a note about the delete limit."""
        steps = self._way_out(frozenset({place}))
        if "--reload" not in steps:
            return steps
        return f"{steps}; if more rows went than max_delete_fraction allows (FZ402), raise it for this once"

    def _begin_again(self, table: Table) -> str:
        folder = self._landing.table(*table.source.schema_and_name)
        return f"frazil drop --select {table.name}; rm -r {shlex.quote(f'{folder}')}"


def _undeclared(table: Table, changed: TableDifference) -> list[tuple[str, str]]:
    """Return (old name, new name) of renamed columns that the declaration does not mention."""
    finals = final_names(table)
    return [
        (old, new)
        for old, new in changed.renamed.items()
        if old.lower() != new.lower() and finals.get(old.lower(), "").lower() != new.lower()
    ]


def own_order(table: Table) -> str | None:
    """Return a column that orders or dates changes and comes from the row; deleted rows have no value for it."""
    of_source = {column.name for column in table.columns or () if column.expr in OWN_FIELDS}
    names = (name for name in (*table.sequence_by, event_time(table)) if name is not None)
    return next((name for name in names if name not in of_source and name.lower() not in OWN_FIELDS), None)


_SEES_ALL: Final = "SELECT format('ALTER ROLE %%I BYPASSRLS, as a superuser of the server', current_user)"

_SERVER: Final = """
SELECT system_identifier::text, current_database()::text, greatest(timeline_id, min_recovery_end_timeline)
FROM pg_control_system(), pg_control_checkpoint(), pg_control_recovery()"""
"""A promoted server has its timeline in the end of its recovery first, later in a checkpoint."""

_PUBLICATION: Final = """
SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate, pubviaroot FROM pg_publication WHERE pubname = %s"""

_SLOT: Final = """
SELECT plugin::text, database::text, wal_status = 'lost', confirmed_flush_lsn::text
FROM pg_replication_slots WHERE slot_name = %s"""


def known_table(server: Server, table: ServerTable) -> Known:
    """Return the current definition of a table; one query, because every turn needs it."""
    described = zip(table.numbers, table.columns, table.types, table.altered, strict=True)
    types = [kind for kind, _ in table.types]
    [(filenode, partitions, attached, forms)] = server.rows(_KNOWN, table.oid, types, table.oid)
    columns = {
        number: KnownColumn(
            name=name, type=kind[0], modifier=kind[1], altered=altered, parts=(forms or {}).get(f"{kind[0]}", {})
        )
        for number, name, kind, altered in described
    }
    return Known(
        oid=table.oid,
        place=(table.schema, table.name),
        columns=columns,
        last=max(columns, default=0),
        filled=table.filled,
        filenode=filenode or 0,
        partitions=dict(zip(partitions or (), attached or (), strict=True)),
        row_filter=table.row_filter,
        generated=table.generated,
        identity=table.identity,
        unlisted=table.unlisted,
        entry=table.entry,
        publication=table.publication,
    )


_KNOWN: Final = """
WITH RECURSIVE parts AS (
    SELECT t.relid::oid::int8 AS part, i.xmin::text::int8 AS attached
    FROM pg_partition_tree(%s::int8::oid) t JOIN pg_inherits i ON i.inhrelid = t.relid WHERE t.level > 0),
types AS (
    SELECT own AS root, own AS oid FROM unnest(%s::int8[]::oid[]) own
    UNION
    SELECT root, below.oid FROM types JOIN pg_type y USING (oid) CROSS JOIN LATERAL (
        SELECT typbasetype AS oid FROM pg_type WHERE oid = y.oid AND typtype = 'd'
        UNION ALL SELECT typelem FROM pg_type WHERE oid = y.oid AND typelem <> 0
        UNION ALL SELECT rngsubtype FROM pg_range WHERE rngtypid = y.oid
        UNION ALL SELECT atttypid FROM pg_attribute WHERE attrelid = y.typrelid AND attnum > 0 AND NOT attisdropped
    ) below),
forms AS (
    SELECT root, 'label ' || e.oid AS number, e.enumlabel::text AS form
    FROM types JOIN pg_enum e ON e.enumtypid = types.oid
    UNION ALL
    SELECT root, 'type ' || y.oid, string_agg(a.attnum || ':' || a.atttypid, ' ' ORDER BY a.attnum)
    FROM types JOIN pg_type y USING (oid) JOIN pg_attribute a ON a.attrelid = y.typrelid
    WHERE a.attnum > 0 AND NOT a.attisdropped GROUP BY 1, 2),
of_types AS (SELECT root, json_object_agg(number, form) AS forms FROM forms GROUP BY root)
SELECT pg_relation_filenode(%s::int8::oid)::int8,
    (SELECT array_agg(part ORDER BY part) FROM parts), (SELECT array_agg(attached ORDER BY part) FROM parts),
    (SELECT json_object_agg(root, forms) FROM of_types)"""
"""A partition that is attached again has another transaction; a renamed label keeps its number."""
