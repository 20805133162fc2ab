"""Parsing one line of Debezium's JSON: each form, each encoding."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from frazil import api
from frazil.formats.json_lines import NoObjectError, Pairs, parsed
from frazil.sources.debezium.encodings import described, encoded
from frazil.sources.debezium.place import place_of
from frazil.sources.debezium.record import Records
from frazil.spec import Column, Debezium, Lake, Pipeline, Table

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = {
    "connector": "postgresql",
    "ts_ms": 1_767_225_600_123,
    "snapshot": "false",
    "db": "shop",
    "sequence": '["100","120"]',
    "schema": "public",
    "table": "orders",
    "lsn": 120,
}
PLACE = f"{100:020}/1/{120:020}"
OWN = {"__op": "c", "__source_ts": "2026-01-01 00:00:00.123000", "__position": f"{PLACE}/a.jsonl"}


def records(columns: tuple[Column, ...] | None = None, keys: tuple[str, ...] = ("id",), **settings: Any) -> Records:
    source = Debezium(path=("landing",), **settings)
    return Records(Table(name="orders", source=source, keys=keys, columns=columns), "a.jsonl")


def envelope(op: str = "c", **parts: Any) -> dict[str, Any]:
    return {"before": None, "after": None, "source": SOURCE, "op": op, "ts_ms": 1, **parts}


def unavailable_ways(marker: str) -> list[Any]:
    """Return all that Debezium writes for a value it does not have, by the type of its column."""
    data = marker.encode()

    def encode(data: bytes) -> str:
        return base64.b64encode(data).decode()

    return [
        *(marker, encode(data), data.hex(), json.dumps(marker)),
        *([marker], [encode(data)], ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
        *([*data], [float(byte) for byte in data], [byte / 100 for byte in data], [True] * len(data)),
        *([encode(bytes([byte])) for byte in data], [{"scale": 0, "value": encode(bytes([byte]))} for byte in data]),
        *({marker: marker}, json.dumps({marker: marker}), f'{{"{marker}":"{marker}"}}'),
        {"wkb": "AQEAACDmEAAAAAAA/IPXl8EAAAD8g9eXwQ==", "srid": 4326},
        {"wkb": "AQEAACDmEAAADCHn/f9/ZkAYQs77/39WQA==", "srid": 4326},
        {"x": -99999999.0, "y": -99999999.0, "wkb": "AQEAAAAAAAD8g9eXwQAAAPyD15fB", "srid": None},
    ]


def bytes_of(number: int) -> str:
    return base64.b64encode(number.to_bytes(9, "big", signed=True)).decode()


def test_the_row_after_a_change_is_its_fields() -> None:
    line = '{"before": null, "after": {"id": 1, "Total": 1.10, "tags": ["a", 1.0], "note": null}, "op": "c"'

    found = records().fields(f'{line}, "source": {json.dumps(SOURCE)}}}')

    assert found == {"id": "1", "total": "1.10", "tags": '["a", 1.0]', "note": None, **OWN}


def test_a_delete_has_the_row_before_it() -> None:
    found = records().fields(json.dumps(envelope("d", before={"id": 1, "note": None})))

    assert found == {"id": "1", "note": None, **OWN, "__op": "d"}


def test_a_delete_without_a_row_has_the_key_of_its_message() -> None:
    line = {"key": {"id": 7}, "value": envelope("d"), "partition": 3, "offset": 12}

    found = records().fields(json.dumps(line))

    assert found == {"id": "7", **OWN, "__op": "d", "__position": f"{PLACE}/000003/{12:020}"}


def test_what_the_database_did_not_tell_is_not_carried() -> None:
    """MISSING-IS-NOT-NULL."""
    ways = unavailable_ways("__debezium_unavailable_value")

    found = [records().fields(json.dumps(envelope("u", after={"id": 1, "big": way}))) for way in ways]
    flat = [records(form="flat").fields(json.dumps({"id": 1, "big": way, "__op": "u"})) for way in ways]

    assert [row for row in [*found, *flat] if row is None or "big" in row] == []


def test_bytes_can_be_the_placeholder_of_unavailable_values() -> None:
    mine = records(unavailable="hex:00ff")

    found = [mine.fields(json.dumps(envelope(after={"id": 1, "big": way}))) for way in ("AP8=", [0, -1])]

    assert [row for row in found if row is None or "big" in row] == []


@pytest.mark.parametrize(
    "value", ["__debezium", "X19k", ["a"], [1, 2], [95, 95], {"a": "b"}, {"wkb": "AQEA", "srid": 4326}, True, 95, []]
)
def test_what_is_like_no_placeholder_is_a_value(value: object) -> None:
    found = records().fields(json.dumps(envelope("u", after={"id": 1, "big": value})))

    assert found is not None
    assert found["big"] is not None


def test_a_changed_key_says_what_it_was() -> None:
    """KEY-CHANGE."""
    changed = records().fields(json.dumps(envelope("u", before={"id": 1}, after={"id": 2})))
    same = records().fields(json.dumps(envelope("u", before={"id": 1}, after={"id": 1})))

    assert changed is not None
    assert changed["__before_id"] == "1"
    assert "__before_id" not in (same or {})


def test_a_truncate_has_no_row() -> None:
    assert records().fields(json.dumps(envelope("t"))) == {**OWN, "__op": "t"}


def test_a_tombstone_is_a_delete_behind_the_message_before_it() -> None:
    mine = records()
    mine.fields(json.dumps({"key": '{"id":1}', "value": json.dumps(envelope("d", before={"id": 1})), "partition": 0}))

    found = mine.fields('{"key": "{\\"id\\":1}", "value": null, "partition": 0, "offset": 9}')

    own = {**OWN, "__op": "tombstone", "__position": f"{PLACE}/000000/{9:020}"}
    assert found == {"id": "1", **own}


def test_a_tombstone_at_the_beginning_of_a_file_says_what_it_follows() -> None:
    line = {"key": '{"id":1}', "value": None, "partition": 0, "offset": 9, "follows": json.dumps(envelope())}

    found = records().fields(json.dumps(line))

    assert found is not None
    assert found["__position"] == f"{PLACE}/000000/{9:020}"


def test_a_tombstone_of_an_unknown_place_or_of_another_table_is_no_change() -> None:
    """NOTHING-LOST: the first was a record of other tables, and the last deleted the row of its key here."""
    mine = records(table="public.orders")
    with pytest.raises(NoObjectError, match="no_place: "):
        mine.fields('{"key": {"id": 1}, "value": null}')
    delete = envelope("d", before={"id": 1}, source={**SOURCE, "table": "hosts"})
    mine.fields(json.dumps({"key": {"id": 1}, "value": envelope(after={"id": 1})}))
    mine.fields(json.dumps({"key": {"id": 1}, "value": delete}))

    assert mine.fields('{"key": {"id": 1}, "value": null}') is None
    with pytest.raises(NoObjectError, match="no_place: "):
        mine.fields('{"key": {"id": 2}, "value": null}')
    mine.fields(json.dumps({"key": {"id": 1}, "value": envelope("d", before={"id": 1})}))
    assert (mine.fields('{"key": {"id": 1}, "value": null}') or {})["__op"] == "tombstone"


def test_an_empty_tombstone_is_skipped() -> None:
    assert records().fields("null") is None
    assert records().fields('{"key": null, "value": null}') is None


def test_events_of_other_tables_are_not_ours() -> None:
    assert records(table="public.orders").fields(json.dumps(envelope(after={"id": 1})))
    assert records(table="public.hosts").fields(json.dumps(envelope(after={"id": 1}))) is None
    mysql = envelope(after={"id": 1}, source={"db": "shop", "table": "orders"})
    assert records(table="shop.orders").fields(json.dumps(mysql))


def test_a_flat_row_says_its_op_and_its_place() -> None:
    row = {"id": 1, "__op": "u", "__lsn": 5, "__source_ts_ms": 1000, "__deleted": "false"}

    found = records(form="flat").fields(json.dumps(row))

    assert found is not None
    assert (found["__op"], found["__source_ts"]) == ("u", "1970-01-01 00:00:01.000000")
    assert found["__position"] == f"{5:020}/1/{5:020}/a.jsonl"


@pytest.mark.parametrize(
    ("settings", "row", "op"),
    [
        ({}, {"id": 1, "__deleted": "true", "__op": "u"}, "d"),
        ({}, {"id": 1, "__deleted": "false"}, "u"),
        ({}, {"id": 1}, None),
        ({"op": "Action"}, {"id": 1, "action": "DELETE"}, "DELETE"),
        ({"op": None}, {"id": 1}, "upsert"),
    ],
)
def test_plain_json_says_what_it_does(settings: dict[str, Any], row: dict[str, Any], op: str | None) -> None:
    found = records(form="flat", **settings).fields(json.dumps(row))

    assert found is not None
    assert found["__op"] == op


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[1]", "not an object"),
        ('{"id": 1}', "no_envelope"),
        ('{"op": "c", "after": {"id": 1, "ID": 2}, "source": {}}', "named twice"),
        ('{"key": null, "value": "{no json"}', "malformed_json"),
        ('{"op": "c", "after": {"id": "\\ud83d"}, "source": {}}', "surrogate"),
        ('{"op": "c", "after": {"id": NaN}, "source": {}}', "malformed_json"),
    ],
)
def test_other_texts_than_events_have_a_reason(line: str, reason: str) -> None:
    with pytest.raises(NoObjectError, match=reason):
        records().fields(line)


def test_no_text_is_guessed_to_be_the_digits_of_a_decimal() -> None:
    columns = (Column(name="id", type="bigint"), Column(name="total", type="decimal(9,2)"))
    line = json.dumps(envelope(after={"id": 1, "total": "1234"}))

    with pytest.raises(NoObjectError, match=r"total is a text.*declare text or decimal\(scale\)"):
        records(columns).fields(line)
    as_text = records(columns, encodings={"total": "text"}).fields(line)
    as_base64 = records(columns, encodings={"total": "decimal(2)"}).fields(line)

    assert as_text is not None
    assert as_base64 is not None
    assert as_text["total"] == "1234"
    assert as_base64["total"] == f"{int.from_bytes(base64.b64decode('1234'), 'big', signed=True) / 100:.2f}"


def test_a_schema_says_types_and_encodings() -> None:
    row = {
        "type": "struct",
        "field": "after",
        "fields": [
            {"field": "id", "type": "int64"},
            {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
            {
                "field": "total",
                "type": "bytes",
                "name": "org.apache.kafka.connect.data.Decimal",
                "parameters": {"scale": "2", "connect.decimal.precision": "12"},
            },
        ],
    }
    schema = {"type": "struct", "fields": [{**row, "field": "before"}, row]}
    payload = envelope(after={"id": 1, "day": 20_454, "total": bytes_of(-105)})
    mine = records()

    found = mine.fields(json.dumps({"schema": schema, "payload": payload}))

    assert found == {"id": "1", "day": "2026-01-01", "total": "-1.05", **OWN}
    assert [mine.types[name][1] for name in ("id", "day", "total")] == ["bigint", "date", "decimal(12,2)"]


@pytest.mark.parametrize(
    ("encoding", "value", "text"),
    [
        ("decimal(2)", f'"{bytes_of(0)}"', "0.00"),
        ("decimal(2)", f'"{bytes_of(-1)}"', "-0.01"),
        ("decimal(0)", f'"{bytes_of(10**19)}"', "10000000000000000000"),
        ("decimal(2)", "12.50", "12.50"),
        ("variable_decimal", f'{{"scale": 3, "value": "{bytes_of(1234)}"}}', "1.234"),
        ("variable_decimal", f'{{"scale": -2, "value": "{bytes_of(12)}"}}', "1200"),
        ("base64", '"/wA="', "ff00"),
        ("date", "0", "1970-01-01"),
        ("date", "-719162", "0001-01-01"),
        ("milli_timestamp", "-1", "1969-12-31 23:59:59.999000"),
        ("micro_timestamp", "1767225600000001", "2026-01-01 00:00:00.000001"),
        ("micro_timestamp", "-62135596800000000", "0001-01-01 00:00:00.000000"),
        ("nano_timestamp", "1767225600000001000", "2026-01-01 00:00:00.000001"),
        ("nano_timestamp", "1767225600000001001", "2026-01-01 00:00:00.000001001"),
        ("nano_timestamp", "1699406411373333800", "2023-11-08 01:20:11.3733338"),
        ("nano_timestamp", "-1", "1969-12-31 23:59:59.999999999"),
        ("milli_time", "3723004", "01:02:03.004"),
        ("micro_time", "86400000000", "24:00:00"),
        ("micro_time", "108900000000", "30:15:00"),
        ("micro_time", "-5400000000", "-01:30:00"),
        ("micro_time", "3020399000000", "838:59:59"),
        ("milli_time", "-1", "-00:00:00.001"),
        ("nano_time", "1", "00:00:00.000000001"),
    ],
)
def test_a_value_is_the_text_that_it_says(encoding: str, value: str, text: str) -> None:
    decode = encoded(encoding).decode

    assert decode is not None
    assert decode(parsed(value)) == text


@pytest.mark.parametrize(
    ("encoding", "value"),
    [
        ("decimal(2)", '"no base64"'),
        ("decimal(2)", "true"),
        ("variable_decimal", '"12.5"'),
        ("base64", "12"),
        ("date", "2932897"),
        ("date", '"2026-01-01"'),
        ("milli_timestamp", "1.5"),
        ("micro_timestamp", "9223372036825200000"),
        ("nano_timestamp", '"2026-01-01 00:00:00"'),
        ("micro_time", "3020400000000"),
        ("micro_time", '"10:00:00"'),
    ],
)
def test_what_is_no_value_of_its_encoding_is_no_value_at_all(encoding: str, value: str) -> None:
    """A text column would take it as it is written."""
    mine = records(encodings={"v": encoding})

    with pytest.raises(NoObjectError, match=r"^no_value: v is .*encodings: \{v: text\}") as bad:
        mine.fields(f'{{"op": "c", "before": null, "after": {{"id": 1, "v": {value}}}, "source": {{}}}}')

    assert {name: bad.value.said[name] for name in ("id", "__op")} == {"id": "1", "__op": "c"}


def test_a_delete_needs_its_key_alone() -> None:
    mine = records(encodings={"id": "date", "v": "date"})

    deleted = mine.fields(json.dumps(envelope("d", before={"id": 1, "v": 2_932_897})))
    moved = mine.fields(json.dumps(envelope("u", before={"id": 1, "v": 2_932_897}, after={"id": 2, "v": 3})))

    assert deleted == {"id": "1970-01-02", **OWN, "__op": "d"}
    assert moved is not None
    assert (moved["__before_id"], moved["v"]) == ("1970-01-02", "1970-01-04")
    with pytest.raises(NoObjectError, match="no_value: id"):
        mine.fields(json.dumps(envelope("d", before={"id": 2_932_897})))


@pytest.mark.parametrize(
    ("name", "kind", "value", "text", "type_name"),
    [
        ("org.apache.kafka.connect.data.Date", "int32", "1", "1970-01-02", "date"),
        ("org.apache.kafka.connect.data.Time", "int32", "1000", "00:00:01", "string"),
        ("org.apache.kafka.connect.data.Timestamp", "int64", "1000", "1970-01-01 00:00:01.000000", "timestamp_ntz"),
        ("io.debezium.time.Timestamp", "int64", "1", "1970-01-01 00:00:00.001000", "timestamp_ntz"),
        ("io.debezium.time.MicroTimestamp", "int64", "1", "1970-01-01 00:00:00.000001", "timestamp_ntz"),
        ("io.debezium.time.NanoTimestamp", "int64", "1000", "1970-01-01 00:00:00.000001", "timestamp_ntz"),
        ("io.debezium.time.ZonedTimestamp", "string", '"2026-01-01T00:00:00Z"', "2026-01-01T00:00:00Z", "timestamp"),
        ("io.debezium.time.ZonedTime", "string", '"10:00:00Z"', "10:00:00Z", "string"),
        ("io.debezium.time.IsoDate", "string", '"2026-01-01Z"', "2026-01-01", "date"),
        ("io.debezium.time.MicroTime", "int64", "1", "00:00:00.000001", "string"),
        ("io.debezium.time.Year", "int32", "2026", "2026", "int"),
        ("io.debezium.data.Json", "string", '"{\\"a\\": 1}"', '{"a": 1}', "string"),
        ("io.debezium.data.Uuid", "string", '"6f"', "6f", "string"),
        ("", "bytes", '"AQI="', "0102", "binary"),
        ("", "boolean", "true", "true", "boolean"),
        ("", "float64", "0.1", "0.1", "double"),
        ("", "int16", "-1", "-1", "int"),
        ("", "struct", '{"a": 1.0}', '{"a": 1.0}', "string"),
    ],
)
def test_a_schema_names_its_encoding(name: str, kind: str, value: str, text: str, type_name: str) -> None:
    row = {"type": "struct", "fields": [{"field": "id", "type": "int32"}, {"field": "v", "type": kind, "name": name}]}
    mine = records(form="flat")

    found = mine.fields(f'{{"schema": {json.dumps(row)}, "payload": {{"id": 1, "v": {value}}}}}')

    assert found is not None
    assert (found["v"], mine.types["v"][1]) == (text, type_name)
    assert described(dict(Pairs([("type", kind), ("name", name)]))).type == type_name


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ({"lsn": 9, "snapshot": "last"}, {"lsn": 9, "snapshot": "false"}),
        ({"lsn": 9, "snapshot": "true"}, {"lsn": 8, "sequence": '["9","8"]'}),
        ({"lsn": 120, "sequence": '["5","120"]'}, {"lsn": 110, "sequence": '["100","110"]'}),
        ({"lsn": 99, "sequence": '["10","99"]'}, {"lsn": 100, "sequence": '["10","100"]'}),
        ({"file": "bin.999999", "pos": 9}, {"file": "bin.1000000", "pos": 4}),
        ({"file": "bin.1", "pos": 9, "row": 9}, {"file": "bin.1", "pos": 10, "row": 0}),
        ({"file": "bin.1", "pos": 9, "snapshot": "true"}, {"file": "bin.1", "pos": 9, "row": 0}),
        ({"commit_lsn": "00a:1", "change_lsn": "00a:9"}, {"commit_lsn": "00b:1", "change_lsn": "00a:0"}),
        ({"commit_lsn": "00a:1", "snapshot": "last"}, {"commit_lsn": "00a:1", "change_lsn": "00a:0"}),
        ({"commit_lsn": "99999999999", "change_lsn": "7"}, {"commit_lsn": "100000000000", "change_lsn": "8"}),
        ({"scn": "12", "commit_scn": "20"}, {"scn": "11", "commit_scn": "100"}),
        ({"ts_ms": 1}, {"ts_us": 1001}),
        ({"ts_ms": 1744620287000, "snapshot": "true"}, {"ts_ms": 1744613916000, "snapshot": "false"}),
    ],
)
def test_places_sort_as_changes_happened(earlier: dict[str, Any], later: dict[str, Any]) -> None:
    """ORDER."""
    assert str(place_of(earlier)) < str(place_of(later))
    assert place_of({}) is None


@pytest.mark.parametrize("form", ["envelope", "flat"])
def test_a_read_is_ordered_before_changes_at_any_clock(form: Any) -> None:
    """HANDOVER: if only times give the order, a read has the time when it was read."""
    mine = records(form=form)

    def place(op: str, time: int) -> str:
        row: dict[str, Any] = {"id": 1, "__op": op, "__source_ts_ms": time}
        source = {"ts_ms": time, "db": "shop", "table": "orders"}
        line = row if form == "flat" else {"before": None, "after": {"id": 1}, "source": source, "op": op}
        found = mine.fields(json.dumps(line))
        return str(found and found["__position"])

    assert place("r", 1_744_620_287_000) < place("u", 1_744_613_916_000)
    assert place("r", 1) < place("r", 2)


def test_a_tombstone_after_a_read_is_ordered_after_it() -> None:
    """NO-RESURRECTION: reads are ordered before all changes, but the event after a read is not."""
    mine = records(form="flat")
    change = mine.fields('{"key": {"id": 1}, "value": {"id": 1, "__op": "u", "__source_ts_ms": 5}, "partition": 0}')
    mine.fields('{"key": {"id": 2}, "value": {"id": 2, "__op": "r", "__source_ts_ms": 9}, "partition": 0}')

    tombstone = mine.fields('{"key": {"id": 1}, "value": null, "partition": 0}')

    assert change is not None
    assert tombstone is not None
    assert str(change["__position"]) < str(tombstone["__position"])


@pytest.mark.parametrize("form", ["envelope", "flat"])
def test_fields_that_differ_by_case_get_names(form: Any) -> None:
    mine = records(form=form, names={"ID": "id_2"})
    row = {"id": 1, "ID": 2, "__op": "c"}

    found = mine.fields(json.dumps(row if form == "flat" else envelope(after=row)))

    assert found is not None
    assert (found["id"], found["id_2"]) == ("1", "2")


def test_a_boolean_is_a_number_where_the_column_is_one() -> None:
    """MySQL's TINYINT(1) comes as either, as the connector is set; what is neither stays as it came, and is refused."""
    columns = (Column(name="n", type="int"), Column(name="b", type="boolean"))

    def read(n: Any, b: Any) -> list[str | None]:
        found = records(columns).fields(json.dumps(envelope(after={"id": 1, "n": n, "b": b})))
        return [(found or {})[name] for name in "nb"]

    assert (read(True, True), read(False, 0), read(7, 1)) == (["1", "true"], ["0", "0"], ["7", "1"])
    assert read("true", 7) == ["true", "7"]


def test_a_topic_is_validated_and_planned_before_its_first_capture(tmp_path: Path) -> None:
    source = Debezium(servers="127.0.0.1:1", topic="shop.public.orders", landing="./landing")
    table = Table(name="orders", source=source, keys=("id",), columns=(Column(name="id", type="int"),))
    pipeline = Pipeline(pipeline="shop", lake=Lake(warehouse="./lake"), tables=(table,)).at(tmp_path)

    assert api.validate(pipeline).warnings == ()
    assert api.plan(pipeline).state.failed == {}
