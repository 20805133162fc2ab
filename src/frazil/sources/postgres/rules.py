"""What must hold of a server, its publication, tables and slot, so that nothing is lost: each rule said once.

A capture stops at the first rule that is broken. ``frazil doctor`` tells of them all, and of what may break one soon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil.sources.postgres.errors import ServerSetupError, SlotLostError
from frazil.sources.postgres.files import check_columns
from frazil.sources.postgres.landing import lsn_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frazil.errors import FrazilError
    from frazil.sources.postgres.landing import Landing, State
    from frazil.sources.postgres.server import Server, ServerTable
    from frazil.spec import Table

PLUGIN: Final = "pgoutput"
_WAL_LEVEL: Final = "logical"


class Rules:
    """The rules of the tables that share a slot, and what was found out about the server while they were looked at."""

    def __init__(self, server: Server, declared: Sequence[Table], landing: Landing, where: str) -> None:
        source = declared[0].source
        self._server, self._landing, self._where = server, landing, where
        self._slot, self._publication = source.slot, source.publication
        self.names = {table.source.schema_and_name: table.name for table in declared}
        """Place of a table at the server -> its declared name."""
        self.keys: dict[tuple[str, str], set[str]] = {}
        for table in declared:
            self.keys.setdefault(table.source.schema_and_name, set()).update(table.keys)
        self._all_names = [table.name for table in declared]
        self.system = ""
        self.tables: dict[tuple[str, str], ServerTable] = {}
        self.has_publication = False
        self.found_slot: tuple[Any, ...] | None = None
        """Plugin, database, whether it is lost, and the position that the server may forget what is before."""

    @property
    def unpublished(self) -> list[ServerTable]:
        """Return the tables that are not in the publication; once :meth:`published` has looked."""
        return [table for table in self.tables.values() if not table.is_published]

    def server(self, state: State | None) -> Iterator[FrazilError]:
        """Yield what is wrong with the server: it writes no logical WAL, or is another one than before."""
        if (level := self._server.one("SHOW wal_level")) != _WAL_LEVEL:
            yield ServerSetupError(
                f"{self._where}: the server runs with wal_level={level}",
                hint="ALTER SYSTEM SET wal_level = 'logical', then restart the server",
            )
        [(self.system, database)] = self._server.rows(
            "SELECT system_identifier::text, current_database()::text FROM pg_control_system()"
        )
        if state is not None and (state.system, state.database) != (self.system, database):
            yield self.lost("the landing files are of another server or database, or of one before it was restored")

    def published(self, state: State | None) -> Iterator[FrazilError]:
        """Yield what is wrong with tables and publication; a table that is only not in it yet is not wrong."""
        made = self._server.rows(_PUBLICATION, self._publication)
        self.has_publication = bool(made)
        for place in self.names:
            table = self._server.table(place, self._publication)
            if table is None:
                yield ServerSetupError(
                    f"{self._where}: there is no table {'.'.join(place)}",
                    hint=f"declare the table of '{self.names[place]}' as the server has it; names have their case",
                )
                continue
            self.tables[place] = table
            yield from self._table(place, table)
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
        for table in self.unpublished:
            if state is not None and table.full_name in state.tables:
                yield self.lost(f"{table.full_name} was taken out of publication {self._publication}")

    def _table(self, place: tuple[str, str], table: ServerTable) -> Iterator[FrazilError]:
        full = f"ALTER TABLE {table.sql_name} REPLICA IDENTITY FULL"
        if not table.identity:
            yield ServerSetupError(
                f"{self._where}: {table.full_name} has neither a primary key nor a replica identity; once published, "
                "PostgreSQL would refuse its updates and deletes",
                hint=f"give it a primary key, or: {full}",
            )
            return
        identity = {column.lower() for column in table.identity}
        columns = {column.lower() for column in table.columns}
        keys = {key for key in self.keys[place] if key.lower() in columns}
        if others := sorted(key for key in keys if key.lower() not in identity):
            yield ServerSetupError(
                f"{self._where}: key '{others[0]}' of table '{self.names[place]}' is not in the replica identity of "
                f"{table.full_name} ({', '.join(table.identity)}): deletes would not name it",
                hint=f"declare keys of the identity, or: {full}",
            )
        try:
            check_columns(table.full_name, table.columns)
        except ServerSetupError as error:
            yield error

    def slot(self, state: State | None) -> Iterator[FrazilError]:
        """Yield why the slot cannot give what comes after the landed files; a slot that is to be made is right."""
        if state is None and any(self._landing.loaded_at(*place) is not None for place in self.names):
            yield self.lost(f"the landing folder {self._landing.folder} has files, but does not say how far they reach")
        found = self._server.rows(_SLOT, self._slot)
        if not found:
            if state is not None:
                yield self.lost("the slot is gone")
            return
        self.found_slot = found[0]
        plugin, database, is_lost, confirmed = found[0]
        if is_lost:
            yield self.lost("the server has removed WAL that the slot needs (max_slot_wal_keep_size)")
        elif plugin != PLUGIN or database != self._server.session.info.dbname:
            yield ServerSetupError(
                f"{self._where}: there is such a slot, of plugin {plugin} in database {database}",
                hint="declare another slot",
            )
        elif state is not None and lsn_of(confirmed) > state.position:
            yield self.lost("somebody else has read changes from the slot")

    def loads(self, state: State | None) -> Iterator[FrazilError]:
        """Yield the tables whose rows were landed, and whose changes were not landed for a time."""
        for place, table in self.tables.items():
            lsn = self._landing.loaded_at(*place)
            # Its rows may have appeared just before the process died.
            if state and lsn is not None and table.full_name not in state.tables and lsn < state.position:
                yield self.lost(
                    f"{table.full_name} was not declared for a time, and its changes of that time are not landed"
                )

    def lost(self, why: str) -> SlotLostError:
        """Return the error that changes may be missing."""
        names = " ".join(f"--select {name}" for name in self._all_names)
        return SlotLostError(
            f"{self._where}: {why}; changes may be missing",
            hint=f"read the tables again: SELECT pg_drop_replication_slot('{self._slot}') if the slot is there; "
            f"frazil drop {names}; rm -r {self._landing.folder}; frazil run",
        )


_PUBLICATION: Final = """
SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate, pubviaroot FROM pg_publication WHERE pubname = %s"""

_SLOT: Final = """
SELECT plugin::text, database::text, wal_status = 'lost', confirmed_flush_lsn::text
FROM pg_replication_slots WHERE slot_name = %s"""
