"""What is in the WAL and not in the landing files: read without consuming it."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import psycopg

from frazil.sources.capture import Waiting
from frazil.sources.postgres.database.rules import Rules
from frazil.sources.postgres.database.server import Server
from frazil.sources.postgres.landed.files import RangeFiles, TableRange
from frazil.sources.postgres.landed.landing import Landing, server_lsn
from frazil.sources.postgres.landed.pgoutput import Decoder, changed_tables

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from frazil.spec import Table

_PATIENCE_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.2


def find_uncaptured(url: str, landing: Landing, table: Table, into: Path, end: int) -> str | None:
    """Write the changes of a table that were committed before a position, and are not landed, below a folder.

    Returns:
        Why that cannot be known; None if it is done.

    Cost: decodes the WAL behind the landed files once more; the slot stays where it is.
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
        # While a capture reads the slot nobody else can; what it lands meanwhile is found among the files.
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
            return None


def count_uncaptured(url: str, landing: Landing, declared: Sequence[Table], where: str) -> Waiting:
    """Return how many changes of each table are not landed, and which tables a turn would stop.

    Cost: decodes the WAL behind the landed files once more; the slot stays where it is.
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
    """Wait until the WAL up to a position can be read: with ``synchronous_commit = off`` a commit is not on disk."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while server.one("SELECT pg_current_wal_flush_lsn() < %s::pg_lsn", server_lsn(end)) and time.monotonic() < until:
        time.sleep(_PAUSE_SECONDS)
