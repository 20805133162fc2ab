"""Land the changes of tables that share a replication slot: initial rows first, then ranges of the WAL.

The steps have this order, so that a process may be killed between any two of them:

1. All declared tables are added to the publication; then the slot is created.
2. A table without initial rows gets them from a snapshot. Its folder appears at once. Changes committed before the
   position of the snapshot are contained in it and are not landed.
3. A range of the WAL is read into hidden files. The state records the range, the files appear, the state records that
   they are complete, and only then the server may discard the range.

The state, not the slot, defines the begin of the next range: after a crash the server may have an older position.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from frazil.errors import DeclarationError
from frazil.sources.base import stored_path
from frazil.sources.postgres.errors import require_driver, translate_server_errors
from frazil.sources.postgres.landed.landing import Landing, landed_of, lost_landing, newest_era
from frazil.spec.location import locate
from frazil.spec.secrets import redacted, resolve
from frazil.storage.base import UnknownStoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from frazil.sources.capture import Lag, Landed, Looked, Waiting
    from frazil.sources.comparison import SourceRows
    from frazil.sources.postgres.errors import SlotLostError
    from frazil.spec import Pipeline, Table
    from frazil.spec.model.kinds import Postgres

RANGE_BYTES: Final = 64 * 1024 * 1024
"""Size of a range in the WAL. A transaction is landed completely, with the range of its commit."""


def postgres_captures(pipeline: Pipeline, tables: Sequence[Table]) -> list[PostgresCapture]:
    """Return one capture for each slot of each database."""
    del pipeline
    slots: dict[tuple[str, str], list[Table]] = {}
    for table in tables:
        slots.setdefault((table.source.url, table.source.slot), []).append(table)
    return [PostgresCapture(tuple(sharing)) for sharing in slots.values()]


@contextmanager
def postgres_rows(pipeline: Pipeline, table: Table) -> Iterator[SourceRows]:
    """Open the current rows of a table at its source."""
    with PostgresCapture((table,)).rows(pipeline.folder, table) as rows:
        yield rows


@dataclass(frozen=True, slots=True)
class PostgresCapture:
    """The :class:`frazil.sources.capture.Capture` of a replication slot and the declared tables that share it."""

    declared: tuple[Table, ...]
    range_bytes: int = RANGE_BYTES

    @property
    def source(self) -> Postgres:
        """Return the source of the first table; all tables have the same slot settings."""
        found: Postgres = self.declared[0].source
        return found

    @property
    def name(self) -> str:
        """Return the slot and the declared database, without secrets."""
        return f"slot {self.source.slot} of {redacted(self.source.url)}"

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the names of the declared tables."""
        return tuple(table.name for table in self.declared)

    def land(self, folder: Path, progress: Callable[[str], None]) -> Landed:
        """Land the changes that the server has now."""
        landing, url = self._landing(folder), self._url(folder)
        from frazil.sources.postgres.turn import Turn  # noqa: PLC0415 - needs the driver

        with translate_server_errors(self.name):
            return Turn(self.declared, url, landing, self.name, progress).land(self.range_bytes)

    def is_whole(self, folder: Path) -> bool:
        """Return True if the files of all tables reach one position of the WAL."""
        return self._landing(folder).is_whole(table.source.schema_and_name for table in self.declared)

    def reload(self, folder: Path, names: Collection[str], progress: Callable[[str], None]) -> Landed:
        """Land all rows of some tables again; after the loss of the slot, all rows of all tables with a new slot.

        Args:
            folder: folder of the declaration.
            names: names of the declared tables.
            progress: callback that receives texts about the progress.
        """
        landing, url = self._landing(folder), self._url(folder)
        from frazil.sources.postgres.reload import Reload  # noqa: PLC0415 - needs the driver

        with translate_server_errors(self.name):
            return Reload(self.declared, url, landing, self.name, progress).read(names, self.range_bytes)

    def behind(self, folder: Path) -> Lag:
        """Return the distance between the landing files and the server."""
        landing, url = self._landing(folder), self._url(folder)
        from frazil.sources.postgres.turn import behind  # noqa: PLC0415 - needs the driver

        with translate_server_errors(self.name):
            return behind(self.declared, url, landing, self.name)

    def waiting(self, folder: Path) -> Waiting:
        """Count the changes of each table that are not landed, and find the tables that would stop."""
        landing, url = self._landing(folder), self._url(folder)
        from frazil.sources.postgres.turn import count_uncaptured  # noqa: PLC0415 - needs the driver

        with translate_server_errors(self.name):
            return count_uncaptured(url, landing, self.declared, self.name)

    def examine(self, folder: Path) -> Iterator[Looked]:
        """Check server, publication, tables and slot."""
        landing, url = self._landing(folder), self._url(folder)
        from frazil.sources.postgres.database.examine import examine_server  # noqa: PLC0415 - needs the driver

        with translate_server_errors(self.name):
            yield from examine_server(url, self.declared, landing, self.name)

    def begins(self, folder: Path) -> Path | None:
        """Return the landing folder while nothing is landed in it."""
        landing = self._landing(folder)
        places = (table.source.schema_and_name for table in self.declared)
        has_begun = landing.state() is not None or any(landing.loaded_at(*place) for place in places)
        return None if has_begun else landing.folder

    def lost(self, folder: Path, taken: Mapping[str, Collection[str]]) -> SlotLostError | None:
        """Return why no turn may begin: the lake has files of these tables that were landed elsewhere."""
        landing = self._landing(folder)
        lost = (table for table in self.declared if landed_of(table, taken.get(table.name, ())))
        if (table := next(lost, None)) is None:
            return None
        return lost_landing(table, stored_path(f"{landing.table(*table.source.schema_and_name)}", folder))

    def remember(self, folder: Path, taken: Mapping[str, Collection[str]]) -> None:
        """Note which tables have rows in the lake, and in which era the newest were landed."""
        landing = self._landing(folder)
        for table in self.declared:
            if landed := landed_of(table, taken.get(table.name, ())):
                parts = (part for path in landed for part in path.split("/")[-2:])
                landing.remember(*table.source.schema_and_name, era=newest_era(parts))

    @contextmanager
    def rows(self, folder: Path, table: Table) -> Iterator[SourceRows]:
        """Open the current rows of one table."""
        landing, url = self._landing(folder), self._url(folder)
        from frazil.sources.postgres.rows import table_rows  # noqa: PLC0415 - needs the driver
        from frazil.sources.postgres.turn import find_uncaptured  # noqa: PLC0415 - needs the driver

        def uncaptured(into: Path, end: int) -> str | None:
            return find_uncaptured(url, landing, table, into, end)

        place, where = table.source.schema_and_name, redacted(self.source.url)
        state = landing.state()
        known = state.known.get(".".join(place)) if state else None
        with table_rows(
            url, place, where, uncaptured, table.source.publication, oid=known.oid if known else None
        ) as rows:
            yield rows

    def _landing(self, folder: Path) -> Landing:
        first, where = self.source, f"source of table '{self.declared[0].name}'"
        for table in self.declared:
            for setting in ("publication", "landing"):
                if getattr(table.source, setting) != getattr(first, setting):
                    raise DeclarationError(
                        f"tables '{self.declared[0].name}' and '{table.name}' share slot '{first.slot}', "
                        f"but not their {setting}",
                        hint=f"declare one {setting} for both, or another slot for one of them",
                    )
        place = locate(first.landing, setting=f"landing of the {where}", folder=folder)
        if place.path is None:
            raise UnknownStoreError(place.uri.partition("://")[0])
        return Landing(place.path, first.slot)

    def _url(self, folder: Path) -> str:
        require_driver()
        return resolve(self.source.url, setting=f"url of the sources of slot '{self.source.slot}'", folder=folder)
