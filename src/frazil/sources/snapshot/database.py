"""Dumps that are taken of a PostgreSQL database: a table or a view as it is in one snapshot."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from frazil.failpoints import failpoint
from frazil.sources.capture import Looked, reveal
from frazil.sources.postgres.database.server import Server
from frazil.sources.postgres.errors import translate_server_errors
from frazil.sources.postgres.landed.load import ExportedSnapshot, load_table
from frazil.sources.postgres.rows import locked_table, table_rows
from frazil.sources.snapshot.dumps import Dump, all_dumps, dump_at, dumps_folder
from frazil.spec.secrets import redacted, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from frazil.sources.comparison import SourceRows
    from frazil.spec import Pipeline, Table

_HINTS: Final = {"42501": "the login needs SELECT on the table: GRANT SELECT ON … TO …"}
_NAME: Final = "%Y-%m-%dT%H%M%S.%fZ"
_HIDDEN: Final = ".dump-"
_LAST: Final = "9999-12-31T235959.999999Z"
_NOW: Final = "SELECT to_char(statement_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"


def is_due(table: Table, dumps: Sequence[Dump]) -> bool:
    """Return whether the newest dump was taken, or found to be as the table is, ``every_minutes`` ago or longer."""
    return not dumps or time.time() - dumps[-1].modified_ns / 1e9 >= table.source.every_minutes * 60


def take_dump(table: Table, folder: Path, dumps: Sequence[Dump], progress: Callable[[str], None]) -> None:
    """Take a dump of the table as it is now.

    Args:
        table: its source has a ``url``.
        folder: the declaration's.
        dumps: those there are; the new one is named behind them, by the time of the server.
        progress: is told how far it is.

    Raises:
        ServerError, ServerSetupError: the server does not answer, or has no such table.

    Cost: one scan of the table, in a transaction that lasts as long; memory of a few blocks.
    """
    place = dumps_folder(table, folder)
    place.mkdir(parents=True, exist_ok=True)
    for left in place.glob(f"{_HIDDEN}*"):
        shutil.rmtree(left)
    hidden = place / f"{_HIDDEN}dump"
    hidden.mkdir()
    taken = _dump(table, folder, hidden, progress)
    failpoint("dump.taken")
    if dumps:
        # Clocks may be set back; dumps stay in the order they were taken in.
        last = datetime.strptime(dumps[-1].name, _NAME).replace(tzinfo=UTC)
        taken = max(taken, last + timedelta(microseconds=1))
    reveal(hidden, place / taken.strftime(_NAME))
    failpoint("dump.shown")


def keep_dump(table: Table, folder: Path, landed: Collection[str], *, is_level: bool) -> None:
    """Keep the newest dump of those that were landed, to be compared with the next; remove all others.

    With ``is_level``, newer ones were found to be like it, so it counts as taken now.
    """
    place, dumps = dumps_folder(table, folder), all_dumps(table, folder)
    kept = next((dump for dump in reversed(dumps) if dump.name in landed), None)
    for dump in dumps:
        if dump is not kept:
            # Renamed first: a dump is there whole or not at all.
            gone = place / f"{_HIDDEN}{dump.name}"
            (place / dump.name).rename(gone)
            shutil.rmtree(gone)
    if is_level and kept is not None and kept is not dumps[-1]:
        for file in (place / kept.name).iterdir():
            file.touch()


@contextmanager
def dump_of_now(table: Table, folder: Path, progress: Callable[[str], None]) -> Iterator[Dump]:
    """Take a dump that is kept nowhere; its name is behind those of all others."""
    with tempfile.TemporaryDirectory(prefix="frazil-dump-") as scratch:
        place = Path(scratch) / _LAST
        place.mkdir()
        _dump(table, folder, place, progress)
        yield dump_at(f"{place}", folder)


def examine_table(table: Table, folder: Path) -> Iterator[Looked]:
    """Look whether the table can be read."""
    where = redacted(table.source.url)
    place = table.source.schema_and_table
    with (
        translate_server_errors(where, _HINTS),
        Server(_url(table, folder)) as server,
        locked_table(server, where, place) as found,
    ):
        may = server.one("SELECT has_table_privilege(%s, 'SELECT')", found.sql_name)
        detail = f"{found.full_name} {'can be dumped' if may else 'cannot be read'}"
        yield Looked(ok=bool(may), detail=detail, hint=None if may else _HINTS["42501"])


@contextmanager
def database_rows(
    pipeline: Pipeline, table: Table, find_uncaptured: Callable[[Path, int], str | None]
) -> Iterator[SourceRows]:
    """Open the table as it is now."""
    url, where = _url(table, pipeline.folder), redacted(table.source.url)
    with table_rows(url, table.source.schema_and_table, where, find_uncaptured, "") as rows:
        yield rows


def _dump(table: Table, folder: Path, place: Path, progress: Callable[[str], None]) -> datetime:
    """Write the files of a dump; return when it was taken, by the server's clock."""
    url, where = _url(table, folder), redacted(table.source.url)
    with (
        translate_server_errors(where, _HINTS),
        Server(url) as server,
        locked_table(server, where, table.source.schema_and_table) as found,
    ):
        name, now = server.one("SELECT pg_export_snapshot()"), server.one(_NOW)
        snapshot = ExportedSnapshot(url=url, name=name, read_at=now, domains=server.domains())
        load_table(found, place, snapshot, progress)
    return datetime.strptime(now, "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)


def _url(table: Table, folder: Path) -> str:
    return resolve(table.source.url, setting=f"url of the source of table '{table.name}'", folder=folder)
