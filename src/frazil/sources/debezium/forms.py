"""What records are that are not of the declared form: refused by name, or passed over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil.errors import SourceError
from frazil.formats.json.text import NoObjectError, Pairs

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

FLAT: Final = "flat rows, as ExtractNewRecordState writes them"
ENVELOPES: Final = "envelopes, with before, after, source and op"
MONGODB: Final = "MongoDB's envelopes, whose after is a text"
PRINTED_AVRO: Final = "Avro, printed as JSON by a console"
BINARY: Final = "Avro or Protobuf, not JSON"

_HINTS: Final = {
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
    """The records of a source are of another form than is declared, or of none that is read."""

    code = "FZ212"
    retryable = False

    def __init__(self, where: str, form: str) -> None:
        super().__init__(f"{where}: its records are {form}", hint=_HINTS[form])


class OtherFormError(NoObjectError):
    """A record is of another form than is declared.

    Attributes:
        form: which it is.
    """

    def __init__(self, form: str) -> None:
        self.form = form
        super().__init__(f"other_form: the record is {form}; {_HINTS[form]}")


def check_form(whole: Mapping[str, Any], *, is_envelope: bool) -> None:
    """Refuse a record that is of another form than is declared.

    Args:
        whole: its fields by their lower-case names.
        is_envelope: the declared form.

    Raises:
        OtherFormError: it is of another one that is known.
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


def is_no_change(whole: Mapping[str, Any], columns: Collection[str]) -> bool:
    """Return whether a record is a heartbeat, the begin or end of a transaction, a message, or a change of a schema.

    Args:
        whole: its fields by their lower-case names.
        columns: lower-case names that are the table's own.
    """
    if "op" in whole:
        return whole["op"] == "m" and "message" in whole and not {"before", "after"} & whole.keys()
    if not whole or whole.keys() & columns:
        return False
    is_transaction = {"status", "id"} <= whole.keys() <= _TRANSACTION
    return is_transaction or whole.keys() <= _HEARTBEAT or whole.keys() >= _SCHEMA_CHANGE


def is_binary(data: bytes | str | None) -> bool:
    """Return whether the value of a message begins as Avro and Protobuf do behind a schema registry: no JSON does."""
    return isinstance(data, bytes) and data.startswith(_MAGIC_BYTE)


def _is_document(whole: Mapping[str, Any], source: Mapping[str, Any]) -> bool:
    is_text = any(isinstance(whole.get(image), str) for image in ("before", "after"))
    return source.get("connector") == "mongodb" or (is_text and "updatedescription" in whole)


def _is_printed(image: Any) -> bool:
    """Return whether a row is inside of its type's name, as a union of Avro is printed."""
    if not isinstance(image, Pairs) or len(image) != 1:
        return False
    name, inner = image[0]
    return isinstance(inner, Pairs) and name.endswith(".Value")
