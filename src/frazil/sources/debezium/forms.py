"""Detect records that do not have the declared form, and events that are not changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil.errors import SourceError
from frazil.formats.json.lines import LINES_HINTS
from frazil.formats.json.text import NoObjectError, Pairs
from frazil.sources.debezium.messages import HINTS, message_form

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

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
