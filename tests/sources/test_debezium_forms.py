"""Records of other forms than the declared one, and events that change no row."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.sources.test_debezium import SOURCE, envelope, records

from frazil.sources.base import SourceFile
from frazil.sources.debezium.forms import RecordFormError
from frazil.sources.debezium.source import DebeziumSource
from frazil.sources.debezium.topic import TopicCapture
from frazil.spec import Debezium, Table

MONGO = {"connector": "mongodb", "db": "shop", "collection": "orders", "ts_ms": 1}
OTHER_FORMS: list[tuple[str, dict[str, Any], str]] = [
    ("envelope", {"id": 1, "__op": "c", "__source_ts_ms": 1}, "flat rows.*form: flat"),
    ("envelope", {"id": 1, "__deleted": "false"}, "flat rows.*form: flat"),
    ("flat", envelope(after={"id": 1}), "envelopes.*leave form: flat out"),
    ("envelope", envelope(after='{"_id": {"$oid": "65"}}', source=MONGO), "MongoDB.*ExtractNewDocumentState"),
    ("envelope", envelope("d", source=MONGO), "MongoDB"),
    ("envelope", envelope(after={"shop.public.orders.Value": {"id": 1}}), "Avro.*JsonConverter"),
    ("envelope", {"key": None, "value": {"base64": "AAAAAAE="}, "partition": 0, "offset": 1}, "Avro or Protobuf"),
]


@pytest.mark.parametrize(("form", "record", "said"), OTHER_FORMS)
def test_records_of_another_form_are_refused_by_name(form: Any, record: dict[str, Any], said: str) -> None:
    """LOUD: columns are not searched in events of another form."""
    table = records(form=form).table
    file = SourceFile(
        path="a.jsonl", uri="a.jsonl", name="a.jsonl", size_bytes=1, modified_ns=0, load=False, position="1/a"
    )
    own: dict[str, Any] = {"id": 1, "__op": "c"} if form == "flat" else envelope(after={"id": 1})

    with pytest.raises(RecordFormError) as refused:
        DebeziumSource(table).json_columns(file, [json.dumps(record).encode(), b"null"])
    beside = DebeziumSource(table).json_columns(file, [json.dumps(one).encode() for one in (record, own)])

    assert re.search(said, f"{refused.value.message} {refused.value.hint}")
    assert "id" in dict(beside)


MESSAGES: list[tuple[dict[str, Any], str]] = [
    (
        {"database": "s", "table": "t", "type": "update", "ts": 2, "xid": 5, "data": {"id": 1}, "old": {"n": 1}},
        "Maxwell.*form: flat",
    ),
    ({"database": "s", "table": "t", "type": "bootstrap-start", "ts": 1, "data": {}}, "Maxwell"),
    (
        {"data": [{"id": "1"}], "database": "s", "es": 1, "id": 7, "isDdl": False, "table": "t", "type": "INSERT"},
        "Canal.*form: flat",
    ),
    ({"data": None, "database": "s", "id": 8, "isDdl": True, "table": "t", "type": "ALTER", "sql": "…"}, "Canal"),
    (
        {"table": "q.t", "op_type": "U", "op_ts": "2026-01-01", "before": {"id": 1}, "after": {"id": 1}},
        "GoldenGate.*json_row",
    ),
    ({"action": "B", "xid": 5}, "wal2json"),
    ({"action": "I", "schema": "s", "table": "t", "columns": [{"name": "id", "value": 1}]}, "wal2json.*postgres"),
    ({"action": "D", "schema": "s", "table": "t", "identity": [{"name": "id", "value": 1}]}, "wal2json"),
    ({"change": [{"kind": "insert", "columnnames": ["id"], "columnvalues": [1]}]}, "wal2json"),
    ({"data": {"id": 1}, "metadata": {"record-type": "data", "operation": "insert"}}, "metadata.*form: flat"),
    ({"data": {"id": 1}, "before": None, "metadata": {"OperationName": "UPDATE"}}, "metadata"),
    (
        {"_id": {"_data": "82"}, "operationType": "insert", "ns": {"db": "s"}, "documentKey": {"_id": 1}},
        "MongoDB's change.*ExtractNewDocumentState",
    ),
    ({"type": "RECORD", "stream": "t", "record": {"id": 1}}, "Singer"),
    ({"type": "STATE", "value": {"t": 1}}, "Singer"),
    ({"type": "ACTIVATE_VERSION", "stream": "t", "version": 1}, "Singer"),
    ({"_airbyte_ab_id": "a", "_airbyte_emitted_at": 1, "_airbyte_data": {"id": 1}}, "Airbyte"),
    ({"id": 1, "_meta": {"op": "d", "source": {}}}, "Estuary"),
    ({"after": None, "key": [1], "updated": "1.0"}, "CockroachDB"),
    ({"resolved": "1.0"}, "CockroachDB"),
    ({"eventID": "1", "eventName": "REMOVE", "dynamodb": {"Keys": {"id": {"N": "1"}}}}, "DynamoDB"),
    ({"id": "lsn:1", "source": "/debezium", "specversion": "1.0", "type": "x", "data": {}}, "CloudEvents"),
]


def _file() -> SourceFile:
    return SourceFile(
        path="a.jsonl", uri="a.jsonl", name="a.jsonl", size_bytes=1, modified_ns=0, load=False, position="1/a"
    )


@pytest.mark.parametrize("form", ["envelope", "flat"])
@pytest.mark.parametrize(("record", "said"), MESSAGES)
def test_messages_of_other_tools_are_refused_by_name(form: Any, record: dict[str, Any], said: str) -> None:
    """LOUD: their ids are not those of rows, and their rows are inside."""
    table = records(form=form, op="type").table

    with pytest.raises(RecordFormError) as refused:
        DebeziumSource(table).json_columns(_file(), [json.dumps(record).encode()])

    assert re.search(said, f"{refused.value.message} {refused.value.hint}")


@pytest.mark.parametrize(
    "row",
    [
        {"id": 1, "database": "s", "table": "t", "type": "x", "data": {"a": 1}},
        {"id": 1, "table": "t", "op_type": "U", "before": {"a": 1}, "after": {"a": 2}},
        {"id": 1, "type": "RECORD", "value": 3},
        {"id": 1, "type": "LOG", "stream": "a"},
        {"id": 1, "action": "B", "schema": "s", "table": "t", "columns": "id"},
        {"id": 1, "key": [1], "after": {"a": 2}},
        {"id": 1, "resolved": "yes"},
        {"id": 1, "_meta": {"loc": 5}},
        {"id": 1, "metadata": {"operation": "x"}, "data": {}},
    ],
)
def test_rows_that_resemble_messages_are_rows(row: dict[str, Any]) -> None:
    found = records(form="flat", op=None).fields(json.dumps(row))

    assert found is not None
    assert found["id"] == "1"


@pytest.mark.parametrize("form", ["envelope", "flat"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"id": 1, "op": "c"}]\n', r"one JSON array.*jq -c '\.\[\]'"),
        ('[\n{"id": 1},\n{"id": 2}\n]\n', "one JSON array"),
        ('{\n  "id": 1,\n  "row": {"a": 2}\n}\n', "JSON over several lines.*jq -c ."),
        ('{"id": 1}{"id": 2}\n', "several objects on one line.*jq -c ."),
        ('{"id": 1}\t{"id": 1, "op": "c"}\n', "console.*kcat -J"),
        ('1\t{"id": 1, "op": "c"}\n', "console.*kcat -J"),
        ('CreateTime:1\tpartition:0\t{"id": 1}\n', "console.*print.key"),
    ],
)
def test_other_json_than_lines_is_refused_by_name(form: Any, text: str, said: str) -> None:
    lines = [line.encode() for line in text.splitlines(keepends=True)]

    with pytest.raises(RecordFormError) as refused:
        DebeziumSource(records(form=form).table).json_columns(_file(), lines)

    assert re.search(said, f"{refused.value.message} {refused.value.hint}")


@pytest.mark.parametrize("form", ["envelope", "flat"])
@pytest.mark.parametrize(
    "record",
    [
        {"ts_ms": 1_700_000_000_000},
        {"status": "BEGIN", "id": "571:1", "event_count": None, "data_collections": None, "ts_ms": 1},
        {"status": "END", "id": "571:1", "event_count": 2, "data_collections": [], "ts_ms": 1},
        {"source": SOURCE, "ts_ms": 1, "databaseName": "shop", "schemaName": None, "ddl": "…", "tableChanges": []},
        {"op": "m", "ts_ms": 1, "source": SOURCE, "message": {"prefix": "p", "content": "AA=="}},
    ],
)
def test_other_events_than_row_changes_are_skipped(form: Any, record: dict[str, Any]) -> None:
    assert records(form=form, keys=("number",)).fields(json.dumps(record)) is None


def test_a_row_with_the_fields_of_a_transaction_is_a_row() -> None:
    found = records(form="flat", op=None).fields('{"id": 1, "status": "BEGIN"}')

    assert found is not None
    assert found["status"] == "BEGIN"


def test_a_topic_of_avro_is_refused_at_its_capture() -> None:
    class Message:
        def value(self) -> bytes:
            return b"\0\0\0\0\1\2"

        def offset(self) -> int:
            return 7

    class Broker:
        def messages(self, *_: int) -> list[tuple[Message, int]]:
            return [(Message(), 8)]

    source = Debezium(servers="broker:9092", topic="shop.orders", landing="landing")
    capture = TopicCapture((Table(name="orders", source=source, keys=("id",)),))

    with pytest.raises(RecordFormError, match=r"shop.orders.*offset 7: its records are Avro or Protobuf"):
        next(capture._pieces(Broker(), 0, 7))  # type: ignore[arg-type]
