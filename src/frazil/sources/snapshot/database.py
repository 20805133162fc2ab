"""Take dumps of a PostgreSQL database: a table or a view in one snapshot."""

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
from frazil.sources.snapshot.source import Dump, all_dumps, dump_at, dumps_folder
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
    """Return True if the newest dump was taken or confirmed at least ``every_minutes`` ago."""
    return not dumps or time.time() - dumps[-1].modified_ns / 1e9 >= table.source.every_minutes * 60


def take_dump(table: Table, folder: Path, dumps: Sequence[Dump], progress: Callable[[str], None]) -> None:
    """Take a dump of the current rows of a table.

    Args:
        table: declared table whose source has a ``url``.
        folder: folder of the declaration.
        dumps: existing dumps. The name of the new dump is the server's time and sorts after them.
        progress: callback that receives texts about the progress.

    Raises:
        ServerError, ServerSetupError: the server does not answer, or lacks the table.

    Cost: one scan of the table in one transaction; memory for a few blocks.
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
        # Dumps stay in the order in which they were taken, even if the clock is set back.
        last = datetime.strptime(dumps[-1].name, _NAME).replace(tzinfo=UTC)
        taken = max(taken, last + timedelta(microseconds=1))
    reveal(hidden, place / taken.strftime(_NAME))
    failpoint("dump.shown")


def keep_dump(table: Table, folder: Path, landed: Collection[str], *, is_level: bool) -> None:
    """Keep the newest landed dump for the next comparison; remove all others.

    Args:
        table: declared table.
        folder: folder of the declaration.
        landed: names of dumps with landed differences.
        is_level: True if newer dumps were equal to the kept one, which then counts as taken now.
    """
    place, dumps = dumps_folder(table, folder), all_dumps(table, folder)
    kept = next((dump for dump in reversed(dumps) if dump.name in landed), None)
    for dump in dumps:
        if dump is not kept:
            # Renamed first, so that a dump never exists in part.
            gone = place / f"{_HIDDEN}{dump.name}"
            (place / dump.name).rename(gone)
            shutil.rmtree(gone)
    if is_level and kept is not None and kept is not dumps[-1]:
        for file in (place / kept.name).iterdir():
            file.touch()


@contextmanager
def dump_of_now(table: Table, folder: Path, progress: Callable[[str], None]) -> Iterator[Dump]:
    """Take a temporary dump, whose name sorts after all others.

    Args:
        table: declared table whose source has a ``url``.
        folder: folder of the declaration.
        progress: callback that receives texts about the progress.
    """
    with tempfile.TemporaryDirectory(prefix="frazil-dump-") as scratch:
        place = Path(scratch) / _LAST
        place.mkdir()
        _dump(table, folder, place, progress)
        yield dump_at(f"{place}", folder)


def examine_table(table: Table, folder: Path) -> Iterator[Looked]:
    """Check that the table is readable."""
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
    """Open the current rows of a table.

    Args:
        pipeline: declared pipeline.
        table: declared table whose source has a ``url``.
        find_uncaptured: see :class:`frazil.sources.postgres.rows.TableRows`.
    """
    url, where = _url(table, pipeline.folder), redacted(table.source.url)
    with table_rows(url, table.source.schema_and_table, where, find_uncaptured, "") as rows:
        yield rows


def _dump(table: Table, folder: Path, place: Path, progress: Callable[[str], None]) -> datetime:
    """Write the files of a dump; return its time by the server's clock."""
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
