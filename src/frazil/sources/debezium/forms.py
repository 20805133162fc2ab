"""Detect records that do not have the declared form, and events that are not changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import SourceError
from frazil.formats.json_lines import LINES_HINTS, NoObjectError, Pairs, text_of
from frazil.sources.before_images import BEFORE_IMAGE, said_by
from frazil.spec.sql.sql import fields_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from frazil.spec import Table

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


FLAT: Final = "flat rows, as ExtractNewRecordState writes them"
ENVELOPES: Final = "envelopes, with before, after, source and op"
MONGODB: Final = "MongoDB's envelopes, whose after is a text"
PRINTED_AVRO: Final = "Avro, printed as JSON by a console"
BINARY: Final = "Avro or Protobuf, not JSON"

CUT_BEFORE_UPDATE: Final = "cut between the image before an update and the update"

_HINTS: Final = {
    CUT_BEFORE_UPDATE: "join this file and the next one under a new name, or do not write before images",
    **HINTS,
    **LINES_HINTS,
    FLAT: "write form: flat in the source",
    ENVELOPES: "leave form: flat out of the source",
    MONGODB: "write flat rows, with ExtractNewDocumentState, and form: flat; the key is then _id",
    PRINTED_AVRO: "write JSON: value.converter=org.apache.kafka.connect.json.JsonConverter",
    BINARY: "write JSON: value.converter=org.apache.kafka.connect.json.JsonConverter, and capture that topic",
}
_EVENT: Final = frozenset({"before", "after", "source"})
_TRANSACTION: Final = frozenset({"status", "id", "event_count", "data_collections", "ts_ms"})
_SCHEMA_CHANGE: Final = frozenset({"databasename", "ddl", "tablechanges"})
_HEARTBEAT: Final = frozenset({"ts_ms", "ts_us", "ts_ns"})
_MAGIC_BYTE: Final = b"\0"


class RecordFormError(SourceError):
    """The records of a source have another form than declared, or one that Frazil cannot read."""

    code = "FZ212"
    retryable = False

    def __init__(self, where: str, form: str) -> None:
        super().__init__(f"{where}: its records are {form}", hint=_HINTS[form])


class OtherFormError(NoObjectError):
    """A record has another form than declared.

    Attributes:
        form: form of the record.
    """

    def __init__(self, form: str) -> None:
        self.form = form
        super().__init__(f"other_form: the record is {form}; {_HINTS[form]}")


def check_form(whole: Mapping[str, Any], *, is_envelope: bool) -> None:
    """Refuse a record that has another form than declared.

    Args:
        whole: lower-case name -> field of the record.
        is_envelope: True if the declared form is ``envelope``, False for ``flat``.

    Raises:
        OtherFormError: the record has another known form.
    """
    if {*whole} == {"base64"}:
        raise OtherFormError(BINARY)
    source = whole.get("source")
    is_event = "op" in whole and len(_EVENT & whole.keys()) > 1 and isinstance(source, Pairs)
    if is_event and _is_document(whole, dict(source or ())):
        raise OtherFormError(MONGODB)
    if is_event and any(_is_printed(whole.get(image)) for image in ("before", "after")):
        raise OtherFormError(PRINTED_AVRO)
    if is_event and not is_envelope and "__op" not in whole:
        raise OtherFormError(ENVELOPES)
    if is_envelope and "op" not in whole and {"__op", "__deleted"} & whole.keys():
        raise OtherFormError(FLAT)
    if not is_event and (message := message_form(whole)) is not None:
        raise OtherFormError(message)


def is_no_change(whole: Mapping[str, Any], columns: Collection[str]) -> bool:
    """Return True for a heartbeat, the begin or end of a transaction, a message, or a schema change.

    Args:
        whole: lower-case name -> field of the record.
        columns: lower-case names of the table's columns.
    """
    if "op" in whole:
        return whole["op"] == "m" and "message" in whole and not {"before", "after"} & whole.keys()
    if not whole or whole.keys() & columns:
        return False
    is_transaction = {"status", "id"} <= whole.keys() <= _TRANSACTION
    return is_transaction or whole.keys() <= _HEARTBEAT or whole.keys() >= _SCHEMA_CHANGE


def is_binary(data: bytes | str | None) -> bool:
    """Return True if a message value begins like Avro or Protobuf with a schema registry; JSON never does."""
    return isinstance(data, bytes) and data.startswith(_MAGIC_BYTE)


def _is_document(whole: Mapping[str, Any], source: Mapping[str, Any]) -> bool:
    is_text = any(isinstance(whole.get(image), str) for image in ("before", "after"))
    return source.get("connector") == "mongodb" or (is_text and "updatedescription" in whole)


def _is_printed(image: Any) -> bool:
    """Return True if a row is nested under the name of its type, as a printed Avro union is."""
    if not isinstance(image, Pairs) or len(image) != 1:
        return False
    name, inner = image[0]
    return isinstance(inner, Pairs) and name.endswith(".Value")


_TRUE_IF_DELETED: Final = ("_fivetran_deleted", "_hoodie_is_deleted")
_TIME_IF_DELETED: Final = ("_ab_cdc_deleted_at", "_sdc_deleted_at")
_MARKS: Final = frozenset({*_TRUE_IF_DELETED, *_TIME_IF_DELETED})
"""Fields by which Fivetran, Hudi, Airbyte and Singer mark a deleted row."""

_OPERATIONS: Final = frozenset({"__op", "__$operation", "_change_type", "header__change_oper", "metadata$action"})
"""Fields that say what a record does, and nothing else."""

_GOLDEN_GATE: Final = frozenset({"table", "op_type", "op_ts"})
_PLACE: Final = (
    *("snapshot", "lsn", "sequence", "file", "pos", "row", "commit_lsn", "change_lsn", "scn", "commit_scn"),
    *("db", "schema", "table"),
)
_HALF_OF_UPDATE: Final = (
    "half_of_update: the DELETE of an update in a stream of Snowflake may stand before or behind its INSERT; export "
    "rows where metadata$action = 'INSERT' or not metadata$isupdate"
)


def operation_of(whole: Mapping[str, Any], table: Table) -> str | None:
    """Return what a flat row does; ``BEFORE_IMAGE`` for the row before an update.

    Args:
        whole: lower-case name -> field of the record.
        table: declared table. Of the fields that its columns read, none is a mark of a deleted row.

    Raises:
        NoObjectError: the record is one half of an update, and its order is not known.
    """
    if _is_true(whole.get("__deleted")) or ((marks := _MARKS & whole.keys()) and _is_marked(whole, marks, table)):
        return "d"
    field: str | None = table.source.op
    if field is None:
        _check_upsert(whole, table)
        return "upsert"
    if field.lower() not in whole:
        return "u" if "__deleted" in whole else None
    said = text_of(whole[field.lower()])
    if field.lower() == "metadata$action" and said == "DELETE" and _is_true(whole.get("metadata$isupdate")):
        raise NoObjectError(_HALF_OF_UPDATE)
    return None if said is None else said_by(field, said)


def _fields_read(table: Table) -> set[str]:
    """Return the fields that columns are made of, in lower case."""
    columns = table.columns or ()
    made = (name for one in columns for name in ((one.name,) if one.expr is None else fields_of(one.expr)))
    return {name.lower() for name in (*table.keys, *made)}


def _check_upsert(whole: Mapping[str, Any], table: Table) -> None:
    """Refuse a record that says in an unread field that it is another operation than an upsert."""
    for name in _OPERATIONS & whole.keys():
        meaning = said_by(name, str(text_of(whole[name]))).lower()
        if meaning in {"d", "delete", "t", "truncate", BEFORE_IMAGE} and name not in _fields_read(table):
            shown = f"{name} is {text_of(whole[name])}"
            raise NoObjectError(
                f"op_unread: {shown}, and op: null takes every record for an upsert; declare op: {name}"
            )


def _is_marked(whole: Mapping[str, Any], marks: frozenset[str], table: Table) -> bool:
    values = {name: whole[name] for name in marks - _fields_read(table)}
    return any(_is_true(value) if name in _TRUE_IF_DELETED else value is not None for name, value in values.items())


def _is_true(value: Any) -> bool:
    return str(text_of(value)).lower() == "true"


def with_key(image: dict[str, str | None], keys: Collection[str]) -> dict[str, str | None]:
    """Return a before image.

    Raises:
        NoObjectError: it lacks a key, or a key is no field: a change of key could not be seen.
    """
    if missing := [name for name in keys if image.get(name) is None]:
        raise NoObjectError(
            f"before_image: {missing[0]} is not a field of the row before an update; use a field as key"
        )
    return image


def source_block(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return the source block of a flat row, from fields such as ``__lsn`` and ``__source_ts_ms``.

    Oracle GoldenGate names the table in ``table``, beside ``op_type`` and ``op_ts``.
    """
    found = {name: whole[f"__{name}"] for name in _PLACE if f"__{name}" in whole}
    if whole.keys() >= _GOLDEN_GATE:
        found["table"] = whole["table"]
    return found | {name.removeprefix("__source_"): value for name, value in whole.items() if name[:9] == "__source_"}
