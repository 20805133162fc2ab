"""NOTHING-LOST: a landed file that somebody removed before a run took it is missed, for every kind that captures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.sources.replay import declare, land, replayed, selected

import frazil
from frazil import api
from frazil.errors import HistoryChangedError
from frazil.sources.debezium.source import LostOffsetsError
from frazil.sources.kinds import landing_problem, source_of
from frazil.sources.landed_files import LANDED, forget_lost, lost_files, note_landed
from frazil.sources.ledger import KnownFile, Ledger
from frazil.sources.postgres.errors import SlotLostError
from frazil.sources.snapshot.capture import SnapshotCapture
from frazil.sources.snapshot.source import DumpGoneError
from frazil.spec.load.parse import parse_declaration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import psycopg

    from frazil.spec import Pipeline


def ledger(paths: Sequence[str]) -> Ledger:
    return Ledger(files={path: KnownFile(size_bytes=0, modified_ns=0, sha256=path) for path in paths})


def declared(folder: Path, source: str) -> Pipeline:
    return parse_declaration(f"""
pipeline: lost
lake: {{warehouse: ./lake}}
tables:
  - {{name: t, source: {{{source}}}, keys: [id], columns: [{{name: id, type: int}}, {{name: v}}], marts: []}}
""").at(folder)


def test_a_file_is_lost_unless_it_is_there_or_taken(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).touch()
    note_landed(tmp_path, ["a", "b"])
    note_landed(tmp_path, ["c", "d", "a"])
    for name in ("a", "b", "d"):
        (tmp_path / name).unlink()

    assert lost_files(tmp_path, [f"elsewhere/{tmp_path.name}/a"]) == ["b", "d"]

    forget_lost(tmp_path)
    assert lost_files(tmp_path, []) == []


def test_a_note_that_broke_off_names_no_file(tmp_path: Path) -> None:
    (tmp_path / LANDED).write_text("whole\nbro")

    assert lost_files(tmp_path, []) == ["whole"]

    note_landed(tmp_path, ["next"])
    assert lost_files(tmp_path, []) == ["next", "whole"]


def test_differences_of_dumps_are_missed(tmp_path: Path) -> None:
    (tmp_path / "dumps").mkdir()
    [table] = declared(tmp_path, "kind: snapshot, path: ./dumps, settle_seconds: 0").tables
    for day in ("2026-01-01", "2026-01-02", "2026-01-03"):
        (tmp_path / "dumps" / f"{day}.csv").write_text(f"id,v\n1,{day}\n")
        SnapshotCapture(table).land(tmp_path, lambda _: None)
    (tmp_path / "dumps/2026-01-01.csv").unlink()
    lost = "landing/snapshot/t/2026-01-02.csv after 2026-01-01.csv.parquet"
    (tmp_path / lost).unlink()

    with pytest.raises(DumpGoneError, match=f"{lost} was removed"):
        source_of(table).find_new(tmp_path, Ledger())

    assert len(source_of(table).find_new(tmp_path, ledger([lost])).files) == 2


def test_messages_of_a_topic_are_missed_unless_other_files_have_them(tmp_path: Path) -> None:
    pipeline = declared(tmp_path, "kind: debezium, servers: 'x:1', topic: s.t, landing: ./landing, form: flat")
    [table], place = pipeline.tables, tmp_path / "landing/s.t/id-x/000000"
    place.mkdir(parents=True)
    names = [f"{first:020}-{first + 1:020}.jsonl" for first in range(3)]
    for name in names:
        (place / name).write_text(f"{json.dumps({'id': 1, '__op': 'c', '__lsn': int(name[:20])})}\n")
    note_landed(place, names)
    (place / names[0]).unlink()

    with pytest.raises(LostOffsetsError, match=f"id-x/000000/{names[0]} was removed") as caught:
        source_of(table).find_new(tmp_path, Ledger())

    assert (caught.value.hint or "").endswith(f"touch 'landing/s.t/id-x/000000/{names[0]}'")
    error = landing_problem(pipeline, table, [], names[1:])
    assert (error and error.code) == "FZ707", "status and doctor ask this"
    (place / names[2]).unlink()
    (place / f"{2:020}-{9:020}.jsonl").touch()
    taken = ledger([f"landing/s.t/id-x/000000/{names[0]}"])
    assert landing_problem(pipeline, table, taken.files, []) is None, "the last offsets were landed again, with more"


def test_records_of_an_audit_log_are_missed(tmp_path: Path) -> None:
    log = "kind: audit_log, url: 'postgresql://x/y', log: public.log, table: public.t, landing: ./landing"
    pipeline = declared(tmp_path, log)
    [table] = pipeline.tables
    place = tmp_path / "landing/public.t"
    place.mkdir(parents=True)
    note_landed(place, ["000000001-00000000000000000001.parquet"])

    with pytest.raises(HistoryChangedError, match=r"landing/public.t/000000001-0+1\.parquet was removed") as caught:
        source_of(table).find_new(tmp_path, Ledger())

    assert (caught.value.hint or "").endswith("rm 'landing/.public.log.bookmark.json'")


@pytest.mark.server
def test_changes_of_a_slot_are_missed_until_the_table_is_read_again(
    session: psycopg.Connection[Any], url: str, tmp_path: Path
) -> None:
    """The lost file is neither the first nor the last, and nothing in the names of the others shows it."""
    declare(tmp_path, {"public.t": "id"})
    session.execute("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0), (2, 0)")
    for value in range(1, 4):
        land(tmp_path)
        session.execute(f"UPDATE t SET v = {value} WHERE id = {value % 2 + 1}".encode())
    land(tmp_path)
    pipeline = frazil.load(tmp_path)
    folder = tmp_path / "landing/public.t"
    lost = sorted(folder.glob("*.parquet"))[1]
    lost.unlink()

    with pytest.raises(SlotLostError, match=f"landing/public.t/{lost.name} was removed before a run took it") as caught:
        source_of(pipeline.tables[0]).find_new(tmp_path, Ledger())
    assert (caught.value.hint or "").endswith("frazil capture --reload t")

    api.reload(tmp_path, ["t"])
    session.execute("DELETE FROM t WHERE id = 2")
    land(tmp_path)
    assert source_of(pipeline.tables[0]).find_new(tmp_path, Ledger()).files
    assert replayed(tmp_path, "public.t", ["id"]) == selected(url, "t", ["id"])
