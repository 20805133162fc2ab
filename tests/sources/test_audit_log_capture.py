"""What is captured of an audit log in a real database: nothing lost, nothing twice."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow.parquet as pq
import pytest

from frazil.errors import HistoryChangedError, SourceError
from frazil.sources.audit_log.capture import LogCapture, _Turn
from frazil.sources.capture import Lag
from frazil.spec import AuditLog

if TYPE_CHECKING:
    from pathlib import Path

LOG = """
CREATE TABLE audit_log_dml(
    audit_event_id serial PRIMARY KEY, audit_operation text, audit_timestamp timestamp DEFAULT now(),
    tbl_schema text DEFAULT 'public', tbl_name text DEFAULT 'orders', raw_data json {xid})
"""
WITH_XID = ", audit_txid xid8 NOT NULL DEFAULT pg_current_xact_id()"
ADD = "INSERT INTO audit_log_dml(audit_operation, raw_data) VALUES ('I', '{\"id\": 1}')"


def capture_of(url: str, xid: str | None, *tables: str) -> LogCapture:
    names = tables or ("public.orders",)
    log: dict[str, Any] = {"url": url, "log": "public.audit_log_dml", "landing": "landing", "xid": xid}
    return LogCapture(names, tuple(AuditLog(table=table, **log) for table in names))


def landed(folder: Path, table: str = "public.orders") -> list[int]:
    files = sorted((folder / "landing" / table).glob("*.parquet"))
    return [int(number) for file in files for number in pq.read_table(file)["audit_event_id"].to_pylist()]


@pytest.fixture(params=["audit_txid", None], ids=["xid8 column", "xmin"])
def xid(request: pytest.FixtureRequest, database: str) -> Any:
    with psycopg.connect(database, autocommit=True) as session:
        session.execute(LOG.format(xid=WITH_XID if request.param else ""))
    return request.param


def land(capture: LogCapture, folder: Path) -> int:
    return capture.land(folder, lambda _: None).records


def test_late_commits_are_landed_after_greater_numbers(database: str, xid: str | None, tmp_path: Path) -> None:
    capture = capture_of(database, xid)
    with psycopg.connect(database) as first, psycopg.connect(database) as second:
        first.execute(ADD)
        second.execute(ADD)
        second.commit()
        land(capture, tmp_path)
        after_one = landed(tmp_path)
        first.commit()
        land(capture, tmp_path)

        assert after_one == [2]
        assert landed(tmp_path) == [2, 1]
        # The bookmark that everybody writes first: it never sees number 1.
        assert second.execute("SELECT audit_event_id FROM audit_log_dml WHERE audit_event_id > 2").fetchall() == []


def test_a_log_is_not_emptied_between_the_snapshot_and_its_records(
    database: str, xid: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A TRUNCATE removes rows from older snapshots too, so it has to wait."""
    capture = capture_of(database, xid)
    with psycopg.connect(database, autocommit=True) as session:
        session.execute(ADD)
        session.execute("SET lock_timeout = '100ms'")
        snapshot_taken = _Turn._check_same_history
        refused = []

        def then_empty_it(turn: _Turn, system: str, snapshot: str) -> None:
            snapshot_taken(turn, system, snapshot)
            with pytest.raises(psycopg.errors.LockNotAvailable):
                session.execute("TRUNCATE audit_log_dml")
            refused.append(snapshot)

        monkeypatch.setattr(_Turn, "_check_same_history", then_empty_it)
        land(capture, tmp_path)
        session.execute("TRUNCATE audit_log_dml")

    assert len(refused) == 1
    assert landed(tmp_path) == [1]


def test_a_part_of_a_transaction_is_landed_when_it_commits(database: str, xid: str | None, tmp_path: Path) -> None:
    """With a savepoint, xmin is not the number of the transaction that the snapshot knows."""
    capture = capture_of(database, xid)
    with psycopg.connect(database) as writer, psycopg.connect(database, autocommit=True) as other:
        writer.execute(ADD)
        with writer.transaction():
            writer.execute(ADD)
        other.execute(ADD)
        land(capture, tmp_path)
        writer.commit()
        other.execute(ADD)
        land(capture, tmp_path)
        land(capture, tmp_path)

    assert sorted(landed(tmp_path)) == [1, 2, 3, 4]


def test_a_turn_that_died_before_its_bookmark_doubles_nothing(database: str, xid: str | None, tmp_path: Path) -> None:
    capture = capture_of(database, xid)
    bookmark = tmp_path / "landing" / ".public.audit_log_dml.bookmark.json"
    with psycopg.connect(database, autocommit=True) as session:
        session.execute(ADD)
        land(capture, tmp_path)
        before = bookmark.read_bytes()
        session.execute(ADD)
        land(capture, tmp_path)
        bookmark.write_bytes(before)
        session.execute(ADD)
        land(capture, tmp_path)

    assert landed(tmp_path) == [1, 2, 3]


def test_a_table_that_is_declared_later_is_landed_from_the_beginning(
    database: str, xid: str | None, tmp_path: Path
) -> None:
    with psycopg.connect(database, autocommit=True) as session:
        session.execute(ADD)
        session.execute("INSERT INTO audit_log_dml(audit_operation, tbl_name, raw_data) VALUES ('I', 'items', '{}')")
    land(capture_of(database, xid), tmp_path)
    land(capture_of(database, xid, "public.orders", "items"), tmp_path)

    assert landed(tmp_path) == [1]
    assert landed(tmp_path, "items") == [2]


@pytest.mark.parametrize(
    ("what", "told"), [("system", "another database cluster"), ("database", "give this one a landing of its own")]
)
def test_a_bookmark_of_another_database_is_refused(
    database: str, xid: str | None, tmp_path: Path, what: str, told: str
) -> None:
    """NOTHING-LOST: the progress of one database does not apply to another."""
    capture = capture_of(database, xid)
    land(capture, tmp_path)
    bookmark = tmp_path / "landing" / ".public.audit_log_dml.bookmark.json"
    bookmark.write_text(bookmark.read_text().replace(f'"{what}": "', f'"{what}": "9'))

    with pytest.raises(HistoryChangedError, match=told):
        land(capture, tmp_path)


@pytest.mark.parametrize("new", [1, 3], ids=["behind", "and beyond"])
def test_a_log_whose_numbers_begin_again_is_refused(database: str, xid: str | None, tmp_path: Path, new: int) -> None:
    """NOTHING-LOST: numbers order the log, so later entries would precede landed ones."""
    capture = capture_of(database, xid)
    with psycopg.connect(database, autocommit=True) as session:
        for _ in range(2):
            session.execute(ADD)
        land(capture, tmp_path)
        session.execute("TRUNCATE audit_log_dml RESTART IDENTITY")
        for _ in range(new):
            session.execute(ADD)

        with pytest.raises(HistoryChangedError, match="started again below 2"):
            land(capture, tmp_path)
        assert landed(tmp_path) == [1, 2]

        session.execute("UPDATE audit_log_dml SET audit_event_id = audit_event_id + 100")
        session.execute("SELECT setval('audit_log_dml_audit_event_id_seq', 200)")
        land(capture, tmp_path)
        session.execute("ALTER SEQUENCE audit_log_dml_audit_event_id_seq RESTART 300")
        session.execute(ADD)
        land(capture, tmp_path)

    assert landed(tmp_path) == [1, 2, *range(101, 101 + new), 300]


def test_a_log_that_is_not_there_is_named(database: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"audit_log_dml.*does not exist"):
        land(capture_of(database, None), tmp_path)


def test_the_age_of_pending_changes_is_reported(database: str, xid: str | None, tmp_path: Path) -> None:
    capture = capture_of(database, xid)
    assert not capture.behind(tmp_path).begun
    land(capture, tmp_path)
    assert capture.behind(tmp_path) == Lag(behind_seconds=0)
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("SET TimeZone = 'UTC'")
        session.execute(ADD)

    assert (capture.behind(tmp_path).behind_seconds or -1) > 0


@pytest.mark.laws
def test_many_writers_lose_nothing_and_double_nothing(database: str, xid: str | None, tmp_path: Path) -> None:
    capture, stop = capture_of(database, xid), time.monotonic() + 10
    naive, seen = 0, set[int]()

    def write(seed: int) -> None:
        lot = random.Random(seed)
        with psycopg.connect(database) as session:
            while time.monotonic() < stop:
                for _ in range(lot.randint(1, 4)):
                    session.execute(ADD)
                    if lot.random() < 0.15:
                        time.sleep(lot.random() * 0.3)
                session.rollback() if lot.random() < 0.1 else session.commit()

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(6)]
    for writer in writers:
        writer.start()
    with psycopg.connect(database, autocommit=True) as session:
        newer = "SELECT audit_event_id FROM audit_log_dml WHERE audit_event_id > %s"
        while any(writer.is_alive() for writer in writers):
            land(capture, tmp_path)
            found = [number for (number,) in session.execute(newer, [naive])]
            naive, seen = max([naive, *found]), seen | {*found}
            time.sleep(0.05)
        land(capture, tmp_path)
        committed = [number for (number,) in session.execute("SELECT audit_event_id FROM audit_log_dml")]

    assert sorted(landed(tmp_path)) == sorted(committed)
    assert seen < {*committed}, "the naive bookmark loses records in this very stream"
