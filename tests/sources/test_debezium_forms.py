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
