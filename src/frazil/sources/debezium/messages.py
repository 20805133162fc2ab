"""Recognize the messages of other tools, whose rows lie inside: read as rows they would give a wrong table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from frazil.formats.json.text import Pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Whole = Mapping[str, Any]

_FLATTEN: Final = "write each row as one flat object with a field that says what it does, and declare form: flat"
_MAXWELL: Final = frozenset(
    {"database", "table", "type", "ts", "xid", "xoffset", "commit", "position", "gtid", "server_id", "thread_id"}
    | {"schema_id", "primary_key", "primary_key_columns", "push_ts", "query", "data", "old", "def", "sql", "_id"}
)
_BEGIN_OR_COMMIT: Final = frozenset({"action", "xid", "timestamp", "lsn", "nextlsn", "origin"})
_WAL2JSON: Final = frozenset({"change", "xid", "nextlsn", "timestamp", "origin"})
_SINGER: Final = ("RECORD", "STATE", "SCHEMA", "ACTIVATE_VERSION", "BATCH", "LOG", "TRACE", "CATALOG")
_COCKROACH: Final = frozenset({"after", "before", "key", "updated", "mvcc_timestamp", "topic", "resolved", "cursor"})


@dataclass(frozen=True, slots=True)
class Message:
    """The messages of one tool.

    Attributes:
        form: description for errors.
        hint: the way out.
        is_one: tests the fields of a record, by lower-case name.
    """

    form: str
    hint: str
    is_one: Callable[[Whole], bool]


def _has(whole: Whole, *names: str) -> bool:
    return {*names} <= whole.keys()


def _is_object(value: Any) -> bool:
    return isinstance(value, Pairs)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and not isinstance(value, Pairs)


def _is_maxwell(whole: Whole) -> bool:
    is_told = _has(whole, "database", "table", "type") and whole.keys() <= _MAXWELL
    return is_told and (_is_object(whole.get("data")) or _is_object(whole.get("def")))


def _is_canal(whole: Whole) -> bool:
    return _has(whole, "data", "database", "table", "type", "isddl") and not _is_object(whole["data"])


def _is_golden_gate(whole: Whole) -> bool:
    is_told = _has(whole, "table", "op_type", "op_ts")
    return is_told and (_is_object(whole.get("before")) or _is_object(whole.get("after")))


def _is_wal2json(whole: Whole) -> bool:
    if whole.get("action") in ("B", "C") and whole.keys() <= _BEGIN_OR_COMMIT:
        return True
    is_row = _has(whole, "action", "schema", "table") and (
        _is_list(whole.get("columns")) or _is_list(whole.get("identity"))
    )
    return is_row or (_is_list(whole.get("change")) and whole.keys() <= _WAL2JSON)


def _is_with_metadata(whole: Whole) -> bool:
    """Return whether metadata beside the row says what it does: Amazon DMS and Qlik in streams, and Striim."""
    metadata = whole.get("metadata")
    if _has(whole, "beforedata", "headers") or (_has(whole, "magic", "messageschemaid", "message")):
        return True
    names = {name.lower() for name, _ in metadata} if isinstance(metadata, Pairs) else set()
    return bool(names & {"record-type", "operation", "operationname"}) and (
        whole.keys() <= {"data", "metadata", "before", "before-image", "control", "userdata"}
    )


def _is_mongodb(whole: Whole) -> bool:
    return _has(whole, "operationtype", "ns") and (_is_object(whole["ns"]) or _is_object(whole.get("documentkey")))


def _is_singer(whole: Whole) -> bool:
    inside = ("record", "schema", "value", "state", "catalog", "trace", "log")
    is_message = whole.get("type") in _SINGER and any(_is_object(whole.get(name)) for name in inside)
    is_state = whole.get("type") == "ACTIVATE_VERSION" and _has(whole, "stream", "version")
    return is_message or is_state or _is_object(whole.get("_airbyte_data"))


def _is_cockroach(whole: Whole) -> bool:
    is_row = _has(whole, "after", "key") and _is_list(whole["key"]) and whole.keys() <= _COCKROACH
    return is_row or whole.keys() == {"resolved"}


MESSAGES: Final = (
    Message("Maxwell's messages, with the row in data", _FLATTEN, _is_maxwell),
    Message("Canal's messages, with rows in data", _FLATTEN, _is_canal),
    Message(
        "operations of Oracle GoldenGate, with the row in after",
        "set format=json_row in the handler and op: op_type with form: flat here",
        _is_golden_gate,
    ),
    Message(
        "messages of wal2json, with lists of columns",
        "capture the database with kind: postgres, or use Debezium",
        _is_wal2json,
    ),
    Message("messages with the row in data and its operation in metadata", _FLATTEN, _is_with_metadata),
    Message(
        "MongoDB's change events, whose _id is not that of the document",
        "use Debezium with ExtractNewDocumentState, and form: flat",
        _is_mongodb,
    ),
    Message("messages of Singer or Airbyte, with the row inside", _FLATTEN, _is_singer),
    Message(
        "rows of Estuary, with the op inside _meta",
        _FLATTEN,
        lambda whole: "op" in dict(whole["_meta"]) if _is_object(whole.get("_meta")) else False,
    ),
    Message("messages of a CockroachDB changefeed", _FLATTEN, _is_cockroach),
    Message(
        "events of a DynamoDB stream, with typed values", _FLATTEN, lambda whole: _has(whole, "eventname", "dynamodb")
    ),
    Message(
        "CloudEvents, whose id is not that of a row",
        "write JSON: value.converter=org.apache.kafka.connect.json.JsonConverter",
        lambda whole: _has(whole, "specversion", "id", "source", "type"),
    ),
)
"""The messages that are refused by name; no row of a table has these fields beside each other."""

HINTS: Final = {message.form: message.hint for message in MESSAGES}


def message_form(whole: Whole) -> str | None:
    """Return the description of another tool's message; None for any other record.

    Args:
        whole: lower-case name -> field of the record.
    """
    if "__op" in whole or "__deleted" in whole:
        return None
    return next((message.form for message in MESSAGES if message.is_one(whole)), None)
