"""Declared source: records of Debezium, or other JSON with an op field, in files or a Kafka topic."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field

from frazil.spec.contract import is_closed
from frazil.spec.load.problem import Problem, suggestion
from frazil.spec.model.source import Paths, SourceSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frazil.spec.load.problem import Path
    from frazil.spec.model.source import FoldBy, TableSpec

OP, TIME, POSITION, BEFORE = "__op", "__source_ts", "__position", "__before_"
"""Fields added to every record: operation, time and position; and the prefix of previous key values."""
END: Final = "__snapshot_end"
"""Field added to the last read that a snapshot has of the table."""

ENCODINGS: Final = (
    "text",
    "base64",
    "hex",
    "variable_decimal",
    "date",
    "milli_timestamp",
    "micro_timestamp",
    "nano_timestamp",
    "milli_time",
    "micro_time",
    "nano_time",
)
"""Encodings of a value, besides ``decimal(scale)``."""

DECIMAL: Final = re.compile(r"decimal\((\d+)\)")
"""Base64 of an unscaled number; group 1 is its scale."""


class Debezium(SourceSpec):
    """Change events of Debezium as JSON, or plain JSON with an op field: files of lines, or a Kafka topic."""

    kind: Literal["debezium"] = Field(default="debezium", description="The kind of source: JSON as Debezium writes it.")
    path: Paths | None = Field(
        default=None, description="Files of JSON lines, one event a line: folders, files or glob patterns."
    )
    servers: str | None = Field(
        default=None, description="Kafka brokers to begin with: host:port, separated by commas."
    )
    topic: str | None = Field(default=None, description="With servers: the topic.")
    landing: str | None = Field(default=None, description="With servers: the folder that the topic is captured into.")
    properties: dict[str, str] = Field(
        default_factory=dict,
        description="With servers: settings of librdkafka, such as sasl.username; secrets as ${env:X} or ${file:X}.",
    )
    table: str | None = Field(
        default=None,
        description="schema.table (database.table for MySQL) whose events are taken; '*': those of all tables, as "
        "parts of one. Left out: all there are, and events of a second table are refused.",
    )
    form: Literal["envelope", "flat"] = Field(
        default="envelope",
        description="envelope: before, after, source and op. flat: the row alone, as ExtractNewRecordState writes it, "
        "or plain JSON.",
    )
    op: str | None = Field(
        default=OP,
        description="With form: flat, the field that says what a record does. null: every record is an upsert.",
    )
    names: dict[str, str] = Field(
        default_factory=dict,
        description="Field, exactly as records name it -> the name that it has here: for two that differ by case, or "
        "one called like the op column.",
    )
    encodings: dict[str, str] = Field(
        default_factory=dict,
        description="Field -> how its values are written, for records without a schema: "
        f"{', '.join(ENCODINGS)} or decimal(scale).",
    )
    unavailable: str = Field(
        default="__debezium_unavailable_value",
        description="Placeholder for a value that the database did not send (unavailable.value.placeholder).",
    )
    snapshots: Literal["whole", "partial"] | None = Field(
        default=None,
        description="What a snapshot after other changes has: whole (all rows; one that it lacks was deleted) or "
        "partial (some rows; one that it lacks stays). Left out: the table stops at a snapshot that lacks a row.",
    )
    max_delete_fraction: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="With snapshots: whole, a snapshot that lacks more than this share of the rows is refused.",
    )
    settle_seconds: float = Field(
        default=60.0, ge=0, description="A file that looks cut off and is younger waits for a later run."
    )

    @property
    def locations(self) -> dict[str, tuple[str, ...]]:
        """Return ``path``, or the topic's folder below ``landing``."""
        if self.path is not None:
            return {"path": self.path}
        return {} if self.landing is None else {"landing": (f"{self.landing.rstrip('/')}/{self.topic}",)}

    @property
    def addresses(self) -> Mapping[str, str]:
        """Return ``servers`` and the settings of the client."""
        return {**self.properties, **({} if self.servers is None else {"servers": self.servers})}

    @property
    def operation_field(self) -> str:
        """Return the operation field that is added to every record."""
        return OP

    @property
    def orders_records(self) -> bool:
        """Return True: records have their position in the database and in the topic."""
        return True

    @property
    def named_delivery(self) -> str:
        """Return the pattern of partition and first offset, by which connectors name files; any name of flat files.

        Flat rows may have no place but that of their file: the same bytes in a later file are then new changes.
        """
        return r"(?:^|/)([^/]+)$" if self.form == "flat" and self.path else r"[-+]([0-9]+[-+][0-9]+)\.[^/]*$"

    @property
    def server_places(self) -> bool:
        """Return True: positions are those of the database that wrote them."""
        return True

    @property
    def types_fields(self) -> bool:
        """Return False: records without a schema do not define the types of columns."""
        return False

    @property
    def leaves_out(self) -> bool:
        """Return True: an update may lack unchanged values."""
        return True

    @property
    def truncates(self) -> bool:
        """Return True: an op may be a truncate."""
        return True

    @property
    def own_fields(self) -> Mapping[str, str]:
        """Return the fields that are added to every record."""
        return {OP: "string", TIME: "timestamp", POSITION: "string"}

    @property
    def event_time(self) -> str:
        """Return the field with the time of the change in the database."""
        return TIME

    def field_names(self, declared: tuple[str, ...]) -> None:
        """Return None: all records name their fields."""

    @property
    def meaning(self) -> dict[str, Any]:
        """Return the kind, and that snapshots are partial: reading applies all other settings to the fields."""
        return {"kind": "debezium", **({"snapshots": "partial"} if self.snapshots == "partial" else {})}

    @property
    def before_prefix(self) -> str:
        """Return the prefix of fields with old keys."""
        return BEFORE

    def is_bookkeeping(self, field: str) -> bool:
        """Return whether a field begins with two underscores, or is the declared op field."""
        return field.startswith("__") or (self.form == "flat" and field.lower() == (self.op or OP).lower())

    @property
    def retention_by(self) -> tuple[FoldBy, ...]:
        """Return that the place in the source's log orders changes."""
        return ("place",)

    @property
    def ways_out_of_bad_rows(self) -> list[str]:
        """Return the setting that values without a schema point to."""
        return ["declare the encodings of fields that come without a schema"]

    def problems(self, table: TableSpec, at: Path) -> Iterator[Problem]:
        """Yield what is wrong with these settings for a table."""
        return _problems(table, at)


def _problems(table: TableSpec, at: Path) -> Iterator[Problem]:
    yield from _place(table, at)
    source, whose = table.source, f"the source of table '{table.name}'"
    if source.form == "envelope" and source.op != OP:
        yield Problem((*at, "op"), f"op of {whose} has no use: an envelope has its own", "write form: flat")
    for field, encoding in source.encodings.items():
        yield from _value_encoding(table, field, encoding, (*at, "encodings", field))


def _place(table: TableSpec, at: Path) -> Iterator[Problem]:
    source, whose = table.source, f"the source of table '{table.name}'"
    kafka = {"servers": source.servers, "topic": source.topic, "landing": source.landing}
    given = [setting for setting, value in kafka.items() if value is not None]
    if source.path is not None:
        for setting in [*given, *(["properties"] if source.properties else [])]:
            yield Problem((*at, setting), f"{whose} has path, and {setting}, which is for a topic", "leave one out")
        if not source.path:
            yield Problem((*at, "path"), f"path of {whose} names nothing", "name a folder, such as ./landing")
    elif not given:
        yield Problem(at, f"{whose} has neither files nor a topic", "write path, or servers, topic and landing")
    else:
        for setting, value in kafka.items():
            if not (value or "").strip():
                yield Problem((*at, setting), f"{whose} is a topic, and has no {setting}")


def _value_encoding(table: TableSpec, field: str, encoding: str, at: Path) -> Iterator[Problem]:
    whose = f"'{field}' in encodings of the source of table '{table.name}'"
    if encoding not in ENCODINGS and not DECIMAL.fullmatch(encoding):
        known = (*ENCODINGS, "decimal(scale)")
        yield Problem(at, f"{whose} is '{encoding}', which is not an encoding", suggestion(encoding, known))
    columns = table.columns or ()
    names = [column.name for column in columns]
    # A field without a column can still have values outside its schema: text lets such records pass.
    if encoding != "text" and is_closed(table) and field not in names and not any(column.expr for column in columns):
        yield Problem(at, f"{whose} is not one of the columns", suggestion(field, names))
