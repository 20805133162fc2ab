"""Land the new records of an audit log, found by transaction visibility instead of by numbers.

Numbers are drawn before transactions commit, so a bookmark ``id > max(id)`` loses records that commit late. The
bookmark is the snapshot of the last turn: a record is new if that snapshot did not see it and this turn's snapshot
does. A log with a transaction column is read by that column. For a log without one the capture reads the system column
xmin, which may be the number of a subtransaction. It therefore reads every record that the last snapshot could not
decide, and leaves out those that are landed.

A turn writes its files, named by its number, and then the bookmark. Files with a greater number belong to a turn that
was killed; their records count as landed.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

from frazil.errors import HistoryChangedError, SetupError, SourceError
from frazil.sources.audit_log.database import UnlandedRecords, log_name
from frazil.sources.audit_log.source import FILE_RECORDS, Bookmark, Writer, bookmark_path, turn_of
from frazil.sources.capture import Lag, Landed, Looked, try_lock
from frazil.sources.landed_files import forget_lost
from frazil.spec.location import expand
from frazil.spec.secrets import redacted, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from frazil.sources.comparison import SourceRows
    from frazil.spec import Pipeline, Table
    from frazil.spec.model.kinds.audit_log import AuditLog

_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True)
class LogCapture:
    """The capture of one log, for all declared tables in it.

    Attributes:
        tables: names of the declared tables.
        sources: source of each table; all have the same database, log, landing folder and columns.
    """

    tables: tuple[str, ...]
    sources: tuple[AuditLog, ...]

    @property
    def name(self) -> str:
        """Return log and database, without secrets."""
        return f"log {self._first.log} of {redacted(self._first.url or '')}"

    @property
    def _first(self) -> AuditLog:
        return self.sources[0]

    def land(self, folder: Path, progress: Callable[[str], None]) -> Landed:
        """Land the new records of the log. Cost: memory for one file of each table."""
        root = self._root(folder)
        with try_lock(root / f".{self._first.log}.lock") as is_alone:
            if not is_alone:
                return Landed(busy="another process of Frazil")
            with connected(self._first, folder, self.name) as session:
                return _Turn(self, root, session).land(progress)

    def behind(self, folder: Path) -> Lag:
        """Return the age of the oldest record that is not landed."""
        root = self._root(folder)
        with connected(self._first, folder, self.name) as session:
            return _Turn(self, root, session).behind()

    def examine(self, folder: Path) -> Iterator[Looked]:
        """Check that the log is readable and is the captured one."""
        with connected(self._first, folder, self.name) as session:
            yield _Turn(self, self._root(folder), session).examine()

    def preview(self, folder: Path, into: Path) -> None:
        """Write the records that are not landed below another folder, without landing them."""
        with connected(self._first, folder, self.name) as session:
            _Turn(self, self._root(folder), session).preview(into)

    def is_whole(self, folder: Path) -> bool:
        """Return True if all files belong to finished turns; each turn lands one snapshot of the log."""
        root = self._root(folder)
        path = bookmark_path(root, self._first)
        if not path.exists():
            return False
        number = Bookmark.read(path).number
        files = (file for source in self.sources for file in (root / source.table).glob("*.parquet"))
        return all(turn_of(file) <= number for file in files)

    def forgettable(self, folder: Path, files: Collection[Path]) -> dict[Path, tuple[str, ...]]:
        """Return the landing files of finished turns; the bookmark holds the position of the capture."""
        root = self._root(folder).resolve()
        number = Bookmark.read(bookmark_path(root, self._first)).number
        made: dict[Path, list[str]] = {}
        for name, source in zip(self.tables, self.sources, strict=True):
            made.setdefault(root / source.table, []).append(name)
        found = {}
        for file in files:
            tables = made.get(file.parent.resolve())
            if tables and file.suffix == ".parquet" and file.exists() and turn_of(file) <= number:
                found[file] = tuple(tables)
        return found

    def forget(self, folder: Path, files: Collection[Path]) -> list[Path]:
        """Remove landing files of finished turns."""
        with try_lock(self._root(folder) / f".{self._first.log}.lock") as is_alone:
            gone = [*self.forgettable(folder, files)] if is_alone else []
            for file in gone:
                file.unlink()
        return gone

    def _root(self, folder: Path) -> Path:
        return folder / expand(self._first.landing or "", setting="landing", folder=folder)


def log_captures(pipeline: Pipeline, tables: Sequence[Table]) -> list[LogCapture]:
    """Return one capture for each log."""
    del pipeline
    groups: dict[str, list[Table]] = {}
    for table in tables:
        if table.source.url is not None:
            same = table.source.model_dump(mode="json", exclude={"table", "path"})
            groups.setdefault(json.dumps(same, sort_keys=True), []).append(table)
    return [
        LogCapture(tuple(table.name for table in some), tuple(table.source for table in some))
        for some in groups.values()
    ]


class _Turn:
    """One turn of the capture, in one session."""

    def __init__(self, capture: LogCapture, root: Path, session: Any) -> None:
        from psycopg import sql  # noqa: PLC0415 - see connected

        self._sql, self._capture, self._root, self._session = sql, capture, root, session
        self._spec = capture.sources[0]
        self._path = bookmark_path(root, self._spec)
        self._before = Bookmark.read(self._path)
        self._unlanded = UnlandedRecords(capture.sources, self._before)

    def land(self, progress: Callable[[str], None]) -> Landed:
        """Land new records: files first, then the bookmark."""
        before, wanted = self._before, sorted({source.table for source in self._capture.sources})
        if not before.snapshot:
            for name in wanted:
                forget_lost(self._root / name)
        leftovers, last = self._leftovers(before.number)
        fence_xid = before.fence_xid
        if self._spec.xid is None and before.fence and not fence_xid:
            fence_xid = int(self._one("SELECT pg_current_xact_id()::text"))
        with self._session.transaction():
            snapshot, system = self._look()
            begin = int(snapshot.split(":", maxsplit=1)[0])
            writer = Writer(self._root, last + 1, self._unlanded.columns())
            filenode, greatest = self._verify_numbers(), before.greatest
            unsure: list[int] = []
            for source, row, xid in self._records(snapshot):
                number = int(row[0])
                greatest = max(greatest, number)
                if self._spec.xid is None and xid >= begin:
                    unsure.append(number)
                if number not in before.seen and number not in leftovers:
                    writer.add(source.table, row)
                    if writer.records % FILE_RECORDS == 0:
                        progress(f"{writer.records:,} records")
            writer.close()
        after = Bookmark(
            number=last + 1 if writer.files else last,
            snapshot=snapshot,
            system=system,
            database=self._database(),
            tables=wanted,
            seen=unsure,
            low=before.low,
            fence=before.fence,
            fence_xid=fence_xid,
            greatest=greatest,
            filenode=filenode,
        )
        self._move_fence(after, begin)
        after.write(self._path)
        return Landed(files=writer.files, records=writer.records)

    def preview(self, into: Path) -> None:
        """Write the records that a turn would land now below another folder, without landing them."""
        if not self._before.snapshot:
            return
        leftovers, _ = self._leftovers(self._before.number)
        known = {*self._before.seen, *leftovers}
        with self._session.transaction():
            snapshot, _ = self._look()
            writer = Writer(into, 1, self._unlanded.columns())
            for source, row, _ in self._records(snapshot):
                if int(row[0]) not in known:
                    writer.add(source.table, row)
            writer.close()

    def _look(self) -> tuple[str, str]:
        """Take the snapshot of the transaction that just began; return its text and the cluster's identifier."""
        self._session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self._session.execute("SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO'")
        # Before the snapshot, which else may miss rows that a TRUNCATE of the log removes.
        self._session.execute(self._sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(log_name(self._spec)))
        snapshot, system = str(self._one("SELECT pg_current_snapshot()::text")), self._system()
        self._check_same_history(system, snapshot)
        return snapshot, system

    def examine(self) -> Looked:
        """Check the log as a turn does, without landing anything."""
        with self._session.transaction():
            self._look()
            self._verify_numbers()
        begun = "" if self._before.snapshot else "; nothing captured yet"
        return Looked(ok=True, detail=f"PostgreSQL {self._session.info.server_version // 10_000}{begun}")

    def behind(self) -> Lag:
        """Return the age of the oldest record that is not landed."""
        if not self._before.snapshot:
            return Lag(begun=False)
        query, values = self._unlanded.age_query(str(self._one("SELECT pg_current_snapshot()::text")))
        seconds = self._session.execute(query, values).fetchone()[0]
        return Lag(behind_seconds=max(0.0, float(seconds or 0)))

    def _one(self, query: Any) -> Any:
        return self._session.execute(query).fetchone()[0]

    def _system(self) -> str:
        if not self._one("SELECT has_function_privilege('pg_control_system()', 'execute')"):
            return ""
        return str(self._one("SELECT system_identifier FROM pg_control_system()"))

    def _database(self) -> str:
        return str(self._one("SELECT current_database()"))

    def _check_same_history(self, system: str, snapshot: str) -> None:
        """Refuse a database with another transaction history than the bookmark."""
        before = self._before
        if not before.snapshot:
            return
        what = ""
        if before.system and system and system != before.system:
            what = "this is another database cluster than at the last capture"
        elif before.database and self._database() != before.database:
            what = f"{self._root} has the records of database {before.database!r}; give this one a landing of its own"
        elif int(before.snapshot.split(":")[1]) > int(snapshot.split(":")[1]):
            what = "the database was restored to a time before the last capture"
        if what:
            raise HistoryChangedError(
                f"{self._capture.name}: {what}",
                hint=f"if this is intended: remove {self._root} and run "
                f"frazil drop --select {self._capture.tables[0]}, then frazil run reads the log from its beginning",
            )

    def _verify_numbers(self) -> int:
        """Refuse a log whose numbers started again, because they order its records. Return the sequence's filenode.

        RESTART, also by TRUNCATE, changes the filenode; a record of a new transaction with an old number then proves
        the restart. setval keeps the filenode; a last number below the greatest landed one proves it.
        """
        before, sequence = self._before, self._sequence()
        if sequence is None:
            return 0
        filenode = int(
            self._one(self._sql.SQL("SELECT pg_relation_filenode({}::regclass)").format(sequence.as_string()))
        )
        restarted = self._may_read(sequence) and self._drawn(sequence) < before.greatest
        if not restarted and before.filenode not in {0, filenode}:
            query, values = self._unlanded.passed_query(str(self._one("SELECT pg_current_snapshot()::text")))
            restarted = bool(self._session.execute(query, values).fetchone()[0])
        if restarted:
            number = self._spec.event_id
            raise HistoryChangedError(
                f"{self._capture.name}: its numbers ({number}) started again below {before.greatest}, the greatest "
                "landed number: new records would sort before old ones",
                hint=f"add {before.greatest} to {number} of the records written since, and set its sequence to "
                "continue after them; then run again",
            )
        return filenode

    def _sequence(self) -> Any:
        """Return the sequence of the number column; None if the column owns no sequence."""
        serial = "SELECT pg_get_serial_sequence(%s, %s)"
        found = self._session.execute(serial, [self._spec.log, self._spec.event_id]).fetchone()[0]
        return found and self._sql.Identifier(*found.split("."))

    def _may_read(self, sequence: Any) -> bool:
        query = self._sql.SQL("SELECT has_sequence_privilege({}, 'select')").format(sequence.as_string())
        return bool(self._session.execute(query).fetchone()[0])

    def _drawn(self, sequence: Any) -> int:
        query = self._sql.SQL("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {}")
        return int(self._session.execute(query.format(sequence)).fetchone()[0])

    def _records(self, snapshot: str) -> Iterator[tuple[AuditLog, tuple[str, ...], int]]:
        """Yield (source, record as text, transaction number) of records that may not be landed, ordered by number."""
        query, values = self._unlanded.query(snapshot)
        exact = {source.schema_and_table: source for source in self._capture.sources}
        with self._session.cursor(name="frazil") as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(query, values)
            for *row, xid in cursor:
                for place in {(row[3], row[4]), (None, row[4])} & exact.keys():
                    yield exact[place], tuple(row), xid

    def _leftovers(self, number: int) -> tuple[set[int], int]:
        """Return the record numbers in files of turns without a bookmark, and the number of the last turn."""
        found, last = set[int](), number
        for source in self._capture.sources:
            for file in (self._root / source.table).glob("*.parquet"):
                turn = turn_of(file)
                if turn > number:
                    last = max(last, turn)
                    found |= {int(value) for value in pq.read_table(file, columns=[self._spec.event_id])[0].to_pylist()}
        return found, last

    def _move_fence(self, after: Bookmark, begin: int) -> None:
        """Raise ``low`` to the fence once every transaction older than ``fence_xid`` has ended.

        A number is drawn shortly before its transaction gets an xid, so ``fence_xid`` is drawn one turn later.
        """
        if self._spec.xid is not None:
            return
        if after.fence_xid and begin > after.fence_xid:
            after.low, after.fence, after.fence_xid = after.fence, 0, 0
        if not after.fence:
            sequence = self._sequence()
            if sequence is None:
                return
            after.fence = self._drawn(sequence)


@contextmanager
def connected(source: AuditLog, folder: Path, name: str) -> Iterator[Any]:
    """Open a session with the database of a log.

    Args:
        source: source of a table in the log.
        folder: folder of the declaration.
        name: name of the log, for messages.
    """
    try:
        import psycopg  # noqa: PLC0415 - only databases need it
    except ImportError:
        raise SetupError(
            f"{name}: the Python package psycopg is missing", hint="pip install 'frazil[postgres]'"
        ) from None
    url = resolve(source.url or "", setting="url", folder=folder)
    try:
        with psycopg.connect(url, autocommit=True, application_name="frazil") as session:
            yield session
    except psycopg.Error as error:
        first = redacted((str(error).splitlines() or [type(error).__name__])[0])
        raise SourceError(
            f"{name}: {first}", hint="check url and log of the source, and the privileges of the user; then run again"
        ) from error


@contextmanager
def log_rows(pipeline: Pipeline, table: Table) -> Iterator[SourceRows]:
    """Open the current rows of a logged table; table and log are in the same database."""
    from frazil.sources.postgres.rows import table_rows  # noqa: PLC0415 - needs the driver

    source, folder = table.source, pipeline.folder
    # A shard is not a declared table; only its own records are read.
    logged = _logged(pipeline) if table in pipeline.tables else [table]
    [capture] = [one for one in log_captures(pipeline, logged) if table.name in one.tables]

    def find_uncaptured(into: Path, _: int) -> str | None:
        try:
            capture.preview(folder, into)
        except SourceError as error:
            return error.message
        return None

    url = resolve(source.url, setting=f"url of the source of table '{table.name}'", folder=folder)
    with table_rows(url, source.schema_and_table, redacted(source.url), find_uncaptured) as rows:
        yield rows


def _logged(pipeline: Pipeline) -> list[Table]:
    return [table for table in pipeline.tables if table.source.kind == "audit_log"]
