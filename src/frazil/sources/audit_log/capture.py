"""Land what an audit log has that is not landed: by what transactions were visible before, not by numbers.

Numbers are drawn before transactions commit, so a bookmark ``id > max(id)`` loses what commits late. The bookmark is
the snapshot of the last turn: what it did not see, and this turn's snapshot does, is new. A log with a column of the
transaction is read by just that. Of one without, the system column xmin is read, which may name a part of a
transaction: every record whose xmin the last snapshot could not be sure of is looked at, and those that were landed
are left out.

A turn writes its files, named by its number, and then the bookmark. Files of a greater number than the bookmark's are
of a turn that died: their records count as landed.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

from frazil.errors import HistoryChangedError, SetupError, SourceError
from frazil.sources.audit_log.landing import FILE_RECORDS, Bookmark, Writer, bookmark_path, turn_of
from frazil.sources.audit_log.unlanded import UnlandedRecords, log_name
from frazil.sources.capture import Lag, Landed, Looked, try_lock
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
    """The capture of one log, for all declared tables that are in it.

    Attributes:
        tables: names of the declared tables.
        sources: what is declared of each; all of the same database, log, landing folder and columns.
    """

    tables: tuple[str, ...]
    sources: tuple[AuditLog, ...]

    @property
    def name(self) -> str:
        """Return which log of which database, without a secret."""
        return f"log {self._first.log} of {redacted(self._first.url or '')}"

    @property
    def _first(self) -> AuditLog:
        return self.sources[0]

    def land(self, folder: Path, progress: Callable[[str], None]) -> Landed:
        """Land what the log has now; memory of one file a table."""
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
        """Look whether the log can be read, and is the one that was captured."""
        with connected(self._first, folder, self.name) as session:
            yield _Turn(self, self._root(folder), session).examine()

    def preview(self, folder: Path, into: Path) -> None:
        """Write what the log has and the landing files do not below another folder; change nothing."""
        with connected(self._first, folder, self.name) as session:
            _Turn(self, self._root(folder), session).preview(into)

    def is_whole(self, folder: Path) -> bool:
        """Return whether no file is of a turn that has not ended: a turn lands what one snapshot of the log sees."""
        root = self._root(folder)
        path = bookmark_path(root, self._first)
        if not path.exists():
            return False
        number = Bookmark.read(path).number
        files = (file for source in self.sources for file in (root / source.table).glob("*.parquet"))
        return all(turn_of(file) <= number for file in files)

    def forgettable(self, folder: Path, files: Collection[Path]) -> dict[Path, tuple[str, ...]]:
        """Return the landing files of turns that have ended: where the capture stands is in its bookmark."""
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
        """Remove landing files of turns that have ended."""
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
    """One look at a log."""

    def __init__(self, capture: LogCapture, root: Path, session: Any) -> None:
        from psycopg import sql  # noqa: PLC0415 - see connected

        self._sql, self._capture, self._root, self._session = sql, capture, root, session
        self._spec = capture.sources[0]
        self._path = bookmark_path(root, self._spec)
        self._before = Bookmark.read(self._path)
        self._unlanded = UnlandedRecords(capture.sources, self._before)

    def land(self, progress: Callable[[str], None]) -> Landed:
        """Land what is new: files first, then the bookmark."""
        before, wanted = self._before, sorted({source.table for source in self._capture.sources})
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
        """Write what a turn would land now below another folder; change nothing."""
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
        """Take the snapshot of a transaction that just began; return its text, and which cluster it is."""
        self._session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self._session.execute("SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO'")
        # Before the snapshot: a TRUNCATE of the log hides from it what it says it has seen.
        self._session.execute(self._sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(log_name(self._spec)))
        snapshot, system = str(self._one("SELECT pg_current_snapshot()::text")), self._system()
        self._check_same_history(system, snapshot)
        return snapshot, system

    def examine(self) -> Looked:
        """Begin as for a turn, and do nothing."""
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
        """Refuse a database whose transactions are not those that the bookmark speaks of."""
        before = self._before
        if not before.snapshot:
            return
        what = ""
        if before.system and system and system != before.system:
            what = "this is another database cluster than at the last capture"
        elif before.database and self._database() != before.database:
            what = f"{self._root} has the records of database {before.database!r}; give this one a landing of its own"
        elif int(before.snapshot.split(":")[1]) > int(snapshot.split(":")[1]):
            what = "the database was restored to an earlier time than that of the last capture"
        if what:
            raise HistoryChangedError(
                f"{self._capture.name}: {what}",
                hint=f"if this is intended: remove {self._root} and run "
                f"frazil drop --select {self._capture.tables[0]}, then frazil run reads the log from its beginning",
            )

    def _verify_numbers(self) -> int:
        """Refuse a log whose numbers began again: they order its records. Return the filenode of their sequence.

        It is another one after RESTART, also that of a TRUNCATE; then a record of a later transaction than all landed
        ones, with a number that was passed, tells. After setval only a number behind the greatest landed one does.
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
                f"{self._capture.name}: its numbers ({number}) began again behind {before.greatest}, the greatest that "
                "was landed: its new records would stand before the old ones",
                hint=f"add {before.greatest} to {number} of the records that were written since, and set its sequence "
                "behind them; then run again",
            )
        return filenode

    def _sequence(self) -> Any:
        """Return the sequence that numbers are drawn from; None where the column owns none."""
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
        """Yield the records that are perhaps not landed, by their numbers: of which table, as text, and its xid."""
        query, values = self._unlanded.query(snapshot)
        exact = {source.schema_and_table: source for source in self._capture.sources}
        with self._session.cursor(name="frazil") as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(query, values)
            for *row, xid in cursor:
                for place in {(row[3], row[4]), (None, row[4])} & exact.keys():
                    yield exact[place], tuple(row), xid

    def _leftovers(self, number: int) -> tuple[set[int], int]:
        """Return the numbers of records in files of turns that died before their bookmark, and the last turn's."""
        found, last = set[int](), number
        for source in self._capture.sources:
            for file in (self._root / source.table).glob("*.parquet"):
                turn = turn_of(file)
                if turn > number:
                    last = max(last, turn)
                    found |= {int(value) for value in pq.read_table(file, columns=[self._spec.event_id])[0].to_pylist()}
        return found, last

    def _move_fence(self, after: Bookmark, begin: int) -> None:
        """Raise ``low``: numbers drawn before a transaction that no running one is older than are all landed.

        A number is drawn a moment before its transaction has an xid, so the xid of the fence is drawn a turn later.
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
    """Open a session with the database of a log; ``name`` is what people know the log by."""
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
            f"{name}: {first}", hint="look at url and log of the source, and at what the user may read; then run again"
        ) from error


@contextmanager
def log_rows(pipeline: Pipeline, table: Table) -> Iterator[SourceRows]:
    """Open the table whose changes the log has; the log is in the same database."""
    from frazil.sources.postgres.rows import table_rows  # noqa: PLC0415 - needs the driver

    source, folder = table.source, pipeline.folder
    # A shard is no table of the declaration; it has its records looked at alone.
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
