"""Where a message stands among others: reads without a place, and messages that are missing."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from frazil.sources.debezium.place import ends_snapshot, event_of
from frazil.sources.debezium.record import Records
from frazil.sources.debezium.source import LostOffsetsError, verify_offsets
from frazil.spec import Debezium, Table
from frazil.spec.sql.names import literal

if TYPE_CHECKING:
    from collections.abc import Callable


def test_messages_that_are_missing_between_the_lake_and_a_landing_folder_are_an_error() -> None:
    def files(*ranges: tuple[int, int]) -> list[str]:
        return [f"landing/t/topic-1/0/{first:020}-{upto:020}.jsonl.gz" for first, upto in ranges]

    verify_offsets("t", files((5, 10), (10, 12)), files((12, 20), (20, 21)))
    verify_offsets("t", files((5, 10)), files((0, 7), (7, 12)))  # another folder has other files of the same
    verify_offsets("t", [], files((700, 800)))
    with pytest.raises(LostOffsetsError, match=r"up to offset 10, but the next landed offset is 13") as caught:
        verify_offsets("t", files((0, 10)), files((13, 20)))
    touched = re.search(r"touch '(.*)'", caught.value.hint or "")
    assert touched
    verify_offsets("t", files((0, 10)), [*files((13, 20)), touched[1]])


def event_at(position: str) -> str:
    """Return what the records of one change have in common."""
    found = duckdb.sql(f"SELECT {event_of(literal(position))}").fetchone()
    return "" if found is None else f"{found[0]}"


@pytest.mark.parametrize(
    ("none", "places"),
    [
        ({"lsn": None}, [{"lsn": 100}, {"lsn": 200}]),
        ({"lsn": 0}, [{"lsn": 100}, {"lsn": 200}]),
        ({"commit_lsn": None}, [{"commit_lsn": "00000021:0100:0001"}, {"commit_lsn": "00000022:0100:0001"}]),
        ({"scn": None}, [{"scn": "100"}, {"scn": "200"}]),
        ({"file": "", "pos": 0}, [{"file": "b.000003", "pos": 100}, {"file": "b.000003", "pos": 200}]),
    ],
)
@pytest.mark.parametrize("form", ["envelope", "flat"])
def test_an_incremental_read_without_a_position_follows_the_record_before_it(
    none: dict[str, Any], places: list[dict[str, Any]], form: str
) -> None:
    """It shows what all changes before it have made, and those behind it are newer, by whatever clock."""

    def line(op: str, of: dict[str, Any], snapshot: str = "false") -> str:
        source, row = {"ts_ms": 1_700_000_000_000, "snapshot": snapshot, **of}, {"id": 1, "v": "a"}
        if form == "envelope":
            return json.dumps({"op": op, "before": None, "after": row, "source": source})
        of_source = {"ts_ms", "snapshot"}
        told = {f"__source_{name}" if name in of_source else f"__{name}": one for name, one in source.items()}
        return json.dumps(row | {"__op": op} | told)

    settings: dict[str, Any] = {"form": "flat", "op": "__op"} if form == "flat" else {}
    table = Table(name="orders", source=Debezium(path=("landing",), **settings), keys=("id",))
    read = line("r", none, "incremental")
    reader = Records(table, "a.jsonl")
    found = [reader.fields(text) for text in (line("c", places[0]), read, read, line("u", places[1]), read)]
    without = Records(table, "a.jsonl")
    firsts = [without.fields(text) for text in (read, read, read)]

    at = [f"{one['__position']}" for one in found if one is not None]
    assert at == sorted(at)
    assert [event_at(one) for one in at] == [*[event_at(at[0])] * 3, *[event_at(at[3])] * 2]
    assert event_at(at[0]) != event_at(at[3])
    # Nothing says that they are newer than what the lake has.
    assert [one for one in firsts if one is None or f"{one['__position']}" >= at[0]] == []


@pytest.mark.parametrize(
    ("source", "is_pair"),
    [
        ({"lsn": 7}, True),
        ({"file": "b.000001", "pos": 4, "row": 0}, True),
        ({"scn": "9", "commit_scn": "10", "ssn": 2}, True),
        ({"scn": "9", "commit_scn": "10"}, False),  # all changes of a statement may have one
        ({}, False),  # a time alone
    ],
)
def test_a_delete_and_a_create_are_one_change_of_key_where_only_they_have_their_place(
    source: dict[str, Any], *, is_pair: bool
) -> None:
    table = Table(name="orders", source=Debezium(path=("landing",)), keys=("id",))
    reader, at = Records(table, "a.jsonl"), {"ts_ms": 1_700_000_000_000, "snapshot": "false", **source}
    reader.fields(json.dumps({"op": "d", "before": {"id": 1}, "after": None, "source": at}))

    found = reader.fields(json.dumps({"op": "c", "before": None, "after": {"id": 2}, "source": at})) or {}

    assert (found.get("__before_id") == "1") is is_pair


def mysql(row: int) -> dict[str, Any]:
    return {"file": "bin.000003", "pos": 500, "row": row}


def oracle(ssn: int) -> dict[str, Any]:
    return {"scn": "100", "commit_scn": "110", "ssn": ssn}


def sql_server(change: int) -> dict[str, Any]:
    lsn = "00000027:00000758"
    return {"commit_lsn": f"{lsn}:0020", "change_lsn": f"{lsn}:{change:04x}", "event_serial_no": 1}


def informix(change: int) -> dict[str, Any]:
    return {"commit_lsn": "100000000500", "change_lsn": f"{99_999_999_999 + change * 5}"}


@pytest.mark.parametrize("source", [mysql, oracle, sql_server, informix])
@pytest.mark.parametrize("has_offsets", [True, False])
def test_changes_of_one_transaction_are_ordered_by_their_topic_or_file(
    source: Callable[[int], dict[str, Any]], *, has_offsets: bool
) -> None:
    """ORDER: numbers that begin again with each statement order nothing, and make no change of key of two."""
    changes = [("c", 1, 0), ("c", 2, 1), ("c", 3, 2), ("u", 3, 0), ("d", 1, 0), ("c", 1, 0), ("c", 4, 0)]
    reader, found = Records(Table(name="orders", source=Debezium(path=("landing",)), keys=("id",)), "a.jsonl"), []
    for offset, (op, key, number) in enumerate(changes):
        before, after = ({"id": key}, None) if op == "d" else (None, {"id": key})
        place = {"ts_ms": 1_700_000_000_000, "snapshot": "false", **source(number)}
        value = {"op": op, "before": before, "after": after, "source": place}
        at = {"partition": 0, "offset": 98 + offset, "key": {"id": key}}
        found.append(reader.fields(json.dumps({**at, "value": value} if has_offsets else value)) or {})

    places = [f"{one['__position']}" for one in found]
    assert places == sorted(places)
    assert [one for one in found if "__before_id" in one] == []
    assert [event_at(one) for one in places[:4]] == [*map(event_at, places[:3]), event_at(places[0])]
    assert len({*map(event_at, places)}) == 3


def test_a_last_read_ends_a_snapshot_only_where_places_tell_snapshots_apart() -> None:
    assert ends_snapshot({"snapshot": "last", "lsn": 9, "ts_ms": 1})
    assert not ends_snapshot({"snapshot": "last", "ts_ms": 1})
