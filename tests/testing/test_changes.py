"""Small random streams, their files and deliveries."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from frazil.testing import as_files, deliveries, oracle_changes, random_history, write_csv
from frazil.testing.changes import COLUMNS, Record

SEEDS = st.integers(0, 10_000)
TEXTS = st.none() | st.text(st.characters(codec="utf-8"), max_size=8)


def test_the_same_seed_gives_the_same_stream_files_and_deliveries() -> None:
    stream = random_history(7)

    assert random_history(7) == stream != random_history(8)
    assert as_files(stream, 7) == as_files(stream, 7)
    assert deliveries(as_files(stream, 7), 7) == deliveries(as_files(stream, 7), 7)


def test_streams_hold_what_they_promise() -> None:
    streams = [random_history(seed) for seed in range(50)]
    records = [record for stream in streams for record in stream]
    stamps = [[record["ts"] or "" for record in stream] for stream in streams]

    assert all(len(stream) == 30 for stream in streams)
    assert {record["id"] for record in records} == set("123456")
    assert {record["op"] for record in records} == {"I", "U", "D"}
    assert any(stream[0]["op"] == "D" for stream in streams)
    assert any(record["op"] == "D" and record["name"] is None for record in records)
    assert any(record["op"] == "D" and record["name"] is not None for record in records)
    assert {None, "", "NULL", "two\r\nends", 'say "hi"'} <= {record["note"] for record in records}
    assert all(times != sorted(times) for times in stamps)
    assert all(len(stream) > len({tuple(record.items()) for record in stream}) for stream in streams[:5])
    assert any(
        one["id"] == other["id"] and one["ts"] == other["ts"] and one != other
        for stream in streams
        for one in stream
        for other in stream
    )


@given(seed=SEEDS, parts=st.integers(1, 8))
def test_files_are_in_order_and_have_different_records(seed: int, parts: int) -> None:
    stream = random_history(seed)

    files = as_files(stream, seed, parts)

    filled = [records for records in files.values() if records]
    assert list(files) == sorted(files, key=lambda name: (not name.startswith("LOAD"), name))
    assert all(one != other for number, one in enumerate(filled) for other in filled[:number])
    assert all(record["op"] != "D" for record in files.get("LOAD00000001.csv", []))
    assert all(record in stream for records in filled for record in records)


def test_a_part_that_repeats_an_earlier_one_is_left_out() -> None:
    record: Record = {
        "op": "U",
        "id": "1",
        "ts": "2026-01-01 00:00:01",
        "name": None,
        "qty": None,
        "note": None,
    }

    layouts = [list(as_files([record] * 6, seed, parts=6, load=False).values()) for seed in range(20)]

    assert all(len({len(part) for part in parts if part}) == sum(map(bool, parts)) for parts in layouts)
    assert any(sum(map(len, parts)) < 6 for parts in layouts)


def test_a_load_file_may_lack_the_op_and_a_narrow_file_the_note() -> None:
    files = as_files(random_history(1), 3, load=True, op_in_load=False, narrow=1.0)

    load = files.pop("LOAD00000001.csv")

    assert {tuple(record) for record in load} == {tuple(COLUMNS)}
    assert {tuple(record) for records in files.values() for record in records} == {("op", "id", "ts", "name", "qty")}


@given(seed=SEEDS)
def test_deliveries_bring_every_file_and_some_again(seed: int) -> None:
    files = as_files(random_history(seed), seed)

    runs = deliveries(files, seed)

    assert {name for run in runs for name in run} == set(files)
    assert all(run for run in runs)
    assert all(len(run) == len(set(run)) for run in runs)


def test_some_deliveries_bring_a_file_again() -> None:
    files = as_files(random_history(1), 1, parts=6)

    assert any(sum(map(len, deliveries(files, seed))) > len(files) for seed in range(10))


def test_a_change_knows_its_place_its_types_and_its_columns() -> None:
    files: dict[str, list[Record]] = {
        "LOAD00000001.csv": [{"id": "1", "ts": "2026-01-01 00:00:01", "name": None, "qty": "5", "note": ""}],
        "20260101-000000123.csv": [{"op": "D", "id": "1", "ts": "2026-01-01 00:00:02.5", "qty": None}],
    }

    load, change = oracle_changes(files)

    assert (load.position, load.row, load.deleted) == ("0/LOAD00000001.csv/", 1, False)
    assert (load.key, load.values["qty"], load.values["name"], load.values["note"]) == ((1,), 5, None, "")
    assert (change.position, change.row, change.deleted) == ("1/20260101-000000123.csv/", 1, True)
    assert set(change.values) == {"id", "ts", "qty"}
    assert change.event_time.isoformat() == "2026-01-01T00:00:02.500000+00:00"


def test_a_csv_file_is_written_as_dms_writes_it() -> None:
    records: list[Record] = [
        {"op": "U", "a": None, "b": "", "c": "NULL"},
        {"op": "D", "a": 'say "hi"', "b": "one, two", "c": " plain\\ "},
    ]

    assert write_csv(records) == b'op,a,b,c\nU,NULL,"","NULL"\nD,"say ""hi""","one, two", plain\\ \n'
    assert write_csv(records, header=False).startswith(b"U,")
    assert write_csv([]) == b"op,id,ts,name,qty,note\n"
    assert write_csv([], header=False) == b""


@given(rows=st.lists(st.tuples(TEXTS, TEXTS), min_size=1))
def test_what_is_written_reads_back(rows: list[tuple[str | None, str | None]]) -> None:
    records: list[Record] = [{"op": "U", "a": a, "b": b} for a, b in rows]

    text = write_csv(records).decode()

    # Python's reader does not tell a quoted NULL from a bare one.
    read = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert read == [
        ["op", "a", "b"],
        *[["U", a if a is not None else "NULL", b if b is not None else "NULL"] for a, b in rows],
    ]
